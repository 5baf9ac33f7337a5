"""Dropout with cheap random numbers.

torch generates one random number for each value. Here its generator yields 64 bits at a time, sixteen for each value;
on a core of a CPU a million values take 2.4 ms instead of 6.5 (p = 0.1) or 8.1 (p = 0.2).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 1 << 16  # the resolution of a probability in sixteen bits
VALUES_PER_NUMBER = 4  # of 64 bits


class Dropout(nn.Dropout):
    """torch's module, computed by `drop`."""

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.p) if self.training else x


def drop(x: Tensor, p: float, generator: torch.Generator | None = None) -> Tensor:
    """Set a fraction `p` of all values to zero, and scale the others so that the mean stays the same.

    A `generator` makes the random numbers in place of that of the device.

    >>> drop(torch.ones(2, 3), 0.0)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    """
    dropped = round(p * STEPS)
    if dropped in (0, STEPS) or not x.is_cpu:
        if generator is None or dropped in (0, STEPS):
            return F.dropout(x, p)
        return x * (torch.rand(x.shape, generator=generator, device=x.device) >= p) / (1 - p)
    count = -(-x.numel() // VALUES_PER_NUMBER)
    random = torch.empty(count, dtype=torch.int64).random_(-(1 << 63), None, generator=generator)
    kept = (random.view(torch.int16)[: x.numel()] >= dropped - STEPS // 2).view(x.shape)
    return (x * kept).mul_(STEPS / (STEPS - dropped))
