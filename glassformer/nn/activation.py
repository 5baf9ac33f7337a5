"""The activation functions that checkpoints name, as modules, because the tutorials print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import function_name


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


FUNCTIONS: dict[Callable, str] = {
    F.gelu: "gelu",
    F.relu: "relu",
    torch.relu: "relu",
    F.silu: "silu",
    F.tanh: "tanh",
    torch.tanh: "tanh",
    F.sigmoid: "sigmoid",
    torch.sigmoid: "sigmoid",
    F.mish: "mish",
}


class FunctionActivation(nn.Module):
    """A function of one's own as an activation."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def extra_repr(self) -> str:
        return function_name(self.function)


def name_of_function(function: Callable) -> str | None:
    """The name in `ACTIVATIONS` of what computes the same as a function or a module; None if there is none."""
    if type(function) is nn.GELU:
        return "gelu" if function.approximate == "none" else "gelu_new"
    known = [*((kind, name) for name, kind in ACTIVATIONS.items()), *FUNCTIONS.items()]
    return next((name for each, name in known if each is function or each is type(function)), None)


def make_activation(activation: str | Callable[[Tensor], Tensor]) -> nn.Module:
    """The activation that a config names, or that it holds itself, as a module."""
    if isinstance(activation, str):
        return ACTIVATIONS[activation]()
    return activation if isinstance(activation, nn.Module) else FunctionActivation(activation)


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
