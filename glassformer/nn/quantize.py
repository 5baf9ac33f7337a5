"""Quantization to 8 bits: a quarter of the memory, and of the time that generation spends on reading weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InputError
from .lora import LoraLinear

QUANTIZED = "quantized to int8 and cannot be {}: do that with the model before quantize(model)"


class Int8Linear(nn.Module):
    """A linear layer whose weights are whole numbers between -127 and 127, with one scale for each output.

    Inputs are quantized too, row by row at run time (to 7 bits: with 8, sums would overflow on CPUs without VNNI).
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        weight = linear.weight.detach().float()
        scales = (weight.abs().amax(1) / 127).clamp(min=torch.finfo(torch.float32).tiny)
        zeros = torch.zeros(len(scales), dtype=torch.long)
        bias = None if linear.bias is None else linear.bias.detach().float()
        rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(rounded, bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.quantized.linear_dynamic(x, self.packed, True)

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        """torch calls this for `state_dict`, from which these weights would be missing."""
        raise InputError(f"{prefix.removesuffix('.') or 'a layer'} is {QUANTIZED.format('saved')}")

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, int8"


def quantize(model: nn.Module, dtype: str = "int8") -> nn.Module:
    """Quantize all linear layers of a model to 8 bits, in place; only for inference on a CPU, and not for saving.

    >>> model = quantize(torch.nn.Sequential(nn.Linear(4, 3)))
    >>> model
    Sequential(
      (0): Int8Linear(in_features=4, out_features=3, int8)
    )
    """
    if dtype != "int8":
        raise InputError(f"weights can be quantized to 'int8', got {dtype!r}")
    if any(p.device.type != "cpu" for p in model.parameters()):
        raise InputError("quantized layers run on a CPU; move the model there first")
    if any(isinstance(module, LoraLinear) for module in model.modules()):
        raise InputError("the model has an adapter; merge_lora(model) makes it part of the weights first")
    torch.backends.quantized.engine = "x86" if "x86" in torch.backends.quantized.supported_engines else "qnnpack"
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                setattr(parent, name, Int8Linear(child))
    return model.eval()


def refuse_quantized(model: nn.Module, use: str) -> None:
    """Raise if a model is quantized, before it is "saved", "trained" or otherwise used for its weights."""
    if any(isinstance(module, Int8Linear) for module in model.modules()):
        raise InputError(f"the model is {QUANTIZED.format(use)}")
