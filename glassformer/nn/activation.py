"""The activation functions that checkpoints name, as modules, because the tutorials print them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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


class ActivationFunctions(Mapping[str, nn.Module]):
    """Activation functions by name; every look-up makes a new module.

    >>> ACT2FN["relu"](torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __getitem__(self, name: str) -> nn.Module:
        return ACTIVATIONS[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(ACTIVATIONS)

    def __len__(self) -> int:
        return len(ACTIVATIONS)


ACT2FN = ActivationFunctions()
