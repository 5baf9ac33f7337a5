"""Layer normalisation with the tutorials' names."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """gamma (x - mean) / sqrt(variance + eps) + beta, over the last dimension."""

    def __init__(self, features: int, eps: float = 1e-6):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(features))
        self.beta = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.gamma)}, eps={self.eps}"


class ScaleNorm(nn.Module):
    """g x / |x| (Nguyen and Salazar 2019): one number in place of a vector."""

    def __init__(self, eps: float = 1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1))
        self.eps = eps

    def reset(self) -> None:
        self.g.data.fill_(1.0)

    def forward(self, x: Tensor) -> Tensor:
        return x / x.norm(dim=-1, keepdim=True).clamp(min=self.eps) * self.g


class ReZero(nn.Module):
    """g x, with a g that is almost 0 in the beginning (Bachlechner et al. 2020): in place of a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.tensor(1e-3))

    def reset(self) -> None:
        self.g.data.fill_(1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.g


NORMS = (nn.LayerNorm, nn.RMSNorm, LayerNorm)
