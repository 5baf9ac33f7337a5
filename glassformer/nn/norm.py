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


NORMS = (nn.LayerNorm, nn.RMSNorm, LayerNorm)
