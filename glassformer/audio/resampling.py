"""Change the sampling rate of a waveform, by a polyphase filter: a sinc in a Kaiser window.

An output sample is a weighted sum of the inputs around its time. The weights are those of an ideal low-pass filter just
below the lower of both Nyquist frequencies, 64 zero crossings to each side; they depend only on where the output falls
between two inputs (its phase), and these places repeat. Inputs outside of the sound are silence.
"""

from __future__ import annotations

import math

import numpy as np
import torch

ZERO_CROSSINGS = 64  # of the sinc, to each side
CUTOFF = 0.9475  # of the lower Nyquist frequency
BETA = 14.77  # of the Kaiser window: side lobes are below -140 dB


def resample(waveform: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """The same sound (float32 samples) at another rate.

    >>> tone = np.sin(2 * np.pi * 100 * np.arange(8000) / 8000).astype(np.float32)
    >>> again = resample(tone, 8000, 16000)
    >>> len(again), bool(abs(again[8000] - np.sin(2 * np.pi * 100 * 0.5)) < 1e-5)
    (16000, True)
    """
    if rate == new_rate or not len(waveform):
        return waveform
    divisor = math.gcd(rate, new_rate)
    up, down = new_rate // divisor, rate // divisor  # output n stands at the time n * down / up of the input
    cutoff = CUTOFF * min(1.0, new_rate / rate)  # of the input's Nyquist frequency
    reach = math.ceil(ZERO_CROSSINGS / cutoff)  # inputs to each side of an output
    count = math.ceil(len(waveform) * up / down)
    blocks = math.ceil(count / up)  # of `up` outputs each, which take `down` inputs
    padding = (reach, reach + blocks * down + down - len(waveform))
    padded = torch.from_numpy(np.pad(waveform.astype(np.float32, copy=False), padding))
    output = torch.empty(up, blocks)
    taps = torch.arange(2 * reach + 1)
    for phase in range(up):
        start, fraction = divmod(phase * down, up)
        weights = kernel(taps.double() - reach - fraction / up, cutoff, reach).float()
        output[phase] = padded[start:].unfold(0, len(taps), down)[:blocks] @ weights
    return output.T.reshape(-1)[:count].numpy()


def kernel(distance: torch.Tensor, cutoff: float, reach: int) -> torch.Tensor:
    """The weights of inputs at these distances (in samples) from an output."""
    inside = (1 - (distance / reach).square()).clamp(min=0)
    window = torch.special.i0(BETA * inside.sqrt()) / torch.special.i0(torch.tensor(BETA, dtype=torch.float64))
    return cutoff * torch.sinc(cutoff * distance) * window * (distance.abs() <= reach)
