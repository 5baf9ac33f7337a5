"""Log-mel spectrograms: how much energy a sound has in bands of frequency, one column for each hop of a window.

Bands lie on Slaney's mel scale, linear up to 1000 Hz and logarithmic above; each is a triangle of equal area. Values
are base-10 logarithms, cut 8 below the highest of the sound, and scaled to about -1 to 1.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

LINEAR_STEP = 200 / 3  # Hz for a mel, up to BREAK
BREAK = 1000.0
LOG_STEP = math.log(6.4) / 27  # for a mel above BREAK
FLOOR = 1e-10  # the lowest energy
DYNAMIC_RANGE = 8.0  # of the logarithms
BLOCK = 6000  # columns that are computed at once: a minute


def hertz_to_mel(frequency: np.ndarray) -> np.ndarray:
    above = BREAK / LINEAR_STEP + np.log(np.maximum(frequency, BREAK) / BREAK) / LOG_STEP
    return np.where(frequency < BREAK, frequency / LINEAR_STEP, above)


def mel_to_hertz(mel: np.ndarray) -> np.ndarray:
    start = BREAK / LINEAR_STEP
    above = BREAK * np.exp(LOG_STEP * (np.maximum(mel, start) - start))
    return np.where(mel < start, mel * LINEAR_STEP, above)


@cache
def mel_filters(bands: int, window: int, rate: int, highest: float = 8000.0) -> Tensor:
    """The weight of every frequency of the Fourier transform in every band: bands, window // 2 + 1

    >>> mel_filters(80, 400, 16000).shape
    torch.Size([80, 201])
    """
    edges = mel_to_hertz(np.linspace(0.0, hertz_to_mel(np.array(highest)), bands + 2))
    frequencies = np.linspace(0, rate / 2, window // 2 + 1)
    widths, slopes = np.diff(edges), edges[:, None] - frequencies
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    triangles = np.maximum(0.0, np.minimum(rising, falling)) * (2.0 / (edges[2:] - edges[:-2]))[:, None]
    return torch.from_numpy(triangles.astype(np.float32))


def log_mel(
    waveform: np.ndarray, length: int, bands: int = 80, window: int = 400, hop: int = 160, rate: int = 16000
) -> Tensor:
    """The spectrogram of a waveform that silence continues to `length` samples: bands, length // hop

    Columns of nothing but silence are not computed: their energy is the lowest that there is.
    """
    waveform = waveform[:length]
    columns = length // hop
    sounding = min(columns, (len(waveform) + window // 2) // hop + 1)  # that a sample has any part in
    missing = length - len(waveform)
    samples = F.pad(torch.from_numpy(waveform), (0, min(missing, window + hop)))
    logs = torch.full((bands, columns), math.log10(FLOOR))
    logs[:, :sounding] = log_energies(samples, sounding, bands, window, hop, rate)
    highest = logs.max() if columns else logs.new_tensor(0.0)
    return (torch.maximum(logs, highest - DYNAMIC_RANGE) + 4.0) / 4.0


def log_energies(samples: Tensor, columns: int, bands: int, window: int, hop: int, rate: int) -> Tensor:
    """The logarithm of the energy in each band, in the first `columns` columns."""
    half = window // 2
    if len(samples) > half:  # the sound is mirrored at both ends, so that windows can be centred at its first sample
        samples = F.pad(samples[None, None], (half, half), mode="reflect")[0, 0]
    else:
        samples = F.pad(samples, (half, half))
    window_values, filters = torch.hann_window(window), mel_filters(bands, window, rate)
    parts = []
    for first in range(0, columns, BLOCK):
        count = min(BLOCK, columns - first)
        block = samples[first * hop : (first + count - 1) * hop + window]
        block = F.pad(block, (0, (count - 1) * hop + window - len(block)))
        spectrum = torch.stft(block, window, hop, window=window_values, center=False, return_complex=True)
        energies = filters @ spectrum.abs().square()
        parts.append(energies.clamp(min=FLOOR).log10())
    return torch.cat(parts, 1) if parts else torch.empty(bands, 0)
