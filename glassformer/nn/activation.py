"""The activation functions that checkpoints name, as modules, because the tutorials print them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GELUActivation(nn.Module):
    """x · Φ(x), exactly."""

    approximate = "none"

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, approximate=self.approximate)

    def overwrite(self, x: Tensor) -> Tensor:
        """The same, written over `x`."""
        return torch.ops.aten.gelu_(x, approximate=self.approximate)


class NewGELUActivation(GELUActivation):
    """x / 2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), the approximation that GPT-2 and the first BERT code used."""

    approximate = "tanh"


class QuickGELUActivation(nn.Module):
    """x · sigmoid(1.702 x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(1.702 * x)


ACTIVATIONS: dict[str, type[nn.Module]] = {
    "gelu": GELUActivation,
    "gelu_new": NewGELUActivation,
    "gelu_pytorch_tanh": NewGELUActivation,
    "quick_gelu": QuickGELUActivation,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
    "swish": nn.SiLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "mish": nn.Mish,
    "linear": nn.Identity,
}
