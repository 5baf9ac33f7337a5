"""Quantization to 8 bits: a quarter of the memory, and of the time that generation spends on reading weights.

A product is computed in whole numbers: weights between -127 and 127 with one scale for each output, rows between 0 and
255 with a scale and a lowest value for each row. So the result of a row depends on no other row.

    x ≈ low + scale · q              row by row, at run time
    w = weight_scale · v             output by output, once
    x · w = scale · weight_scale · (q · v) + low · weight_scale · Σ v

Measured on two cores of a CPU with AVX-512 VNNI, 1200 rows times 768 x 3072, giga-operations per second: float32 382,
bfloat16 800, torch's `linear_dynamic` 907, `onednn.qlinear_pointwise` 1,400 (on signed rows it takes seconds), of whose
4,300 microseconds quantizing the rows in one pass takes 85.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .linear import can_be_reduced, has_onednn
from .lora import LoraLinear

QUANTIZED = "quantized to {} and cannot be {}: do that with the model before quantize(model)"
METHOD = "glassformer"  # which config.json names, so that other programs refuse the weights
SCALE, INPUT_SCALE = "weight_scale", "input_scale"  # names in files, beside `weight`
KINDS = ("int8", "int4")
LEVELS = 127
ROW_NUMBERS = 8  # bytes behind each row: its scale and its lowest value, as two float32


class Int8Linear(nn.Module):
    """A linear layer in 8 bits. `input_scale`, if any, divides the inputs first: see calibration.py.

    >>> layer = Int8Linear.of(nn.Linear(64, 32))
    >>> layer
    Int8Linear(in_features=64, out_features=32, int8)
    >>> layer.state_dict()["weight"].dtype
    torch.int8
    """

    weight: Tensor | None  # O C; None while it is packed
    kind = "int8"
    is_reduced = False
    packed: Tensor | None = None  # the weights as oneDNN reads them, with zeros for the numbers behind each row

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, smooth: bool = False, device: Any = None
    ):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.zeros(out_features, in_features, dtype=torch.int8, device=device))
        self.register_buffer(SCALE, torch.ones(out_features, dtype=torch.float32, device=device))
        ones = torch.ones(in_features, dtype=torch.float32, device=device) if smooth else None
        self.register_buffer(INPUT_SCALE, ones)
        empty = torch.zeros(out_features, device=device)
        self.bias = nn.Parameter(empty, requires_grad=False) if bias else None

    @classmethod
    def of(cls, linear: nn.Linear, input_scale: Tensor | None = None) -> Int8Linear:
        """The layer with the rounded weights of `linear`; `input_scale` is multiplied into them."""
        layer = cls(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        weight = linear.weight.detach().float()
        layer.weight, layer.weight_scale = round_weight(weight if input_scale is None else weight * input_scale)
        layer.input_scale, layer.bias = input_scale, linear.bias
        return layer.pack()

    @classmethod
    def fused(cls, layers: Iterable[Int8Linear]) -> Int8Linear:
        """One layer in place of several that read the same rows."""
        layers = list(layers)
        fused = cls(layers[0].in_features, sum(layer.out_features for layer in layers), device="meta")
        fused.weight = torch.cat([layer.dense() for layer in layers])
        fused.weight_scale = torch.cat([layer.weight_scale for layer in layers])
        fused.input_scale = layers[0].input_scale
        zeros = [fused.weight_scale.new_zeros(layer.out_features) for layer in layers]
        biases = [zero if layer.bias is None else layer.bias for layer, zero in zip(layers, zeros, strict=True)]
        fused.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
        return fused.pack()

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.in_features).float()
        rows = rows if self.input_scale is None else rows / self.input_scale
        y = self.product(rows) if self.packed is not None else self.float_product(rows)
        return y.view(*x.shape[:-1], self.out_features).to(x.dtype)

    def product(self, rows: Tensor) -> Tensor:
        """N C -> N O, in whole numbers."""
        if not rows.is_cpu:
            raise InputError(f"quantized layers run on a CPU, got rows on {rows.device}")
        quantized = torch.ops.quantized.embedding_bag_byte_prepack(rows.contiguous())  # N C+8
        numbers = quantized[:, self.in_features :].contiguous().view(torch.float32)  # N 2
        if not has_vnni():  # sums of two products must fit into 16 bits there, so rows get 7 bits
            quantized[:, : self.in_features].bitwise_right_shift_(1)
            half = numbers[:, :1] / 2
            numbers = torch.cat((numbers[:, :1] * 2, numbers[:, 1:] + half), 1)
        if len(rows) == 1:
            scale, low = numbers[0].tolist()
            return self.multiply(quantized, scale, self.bias).add_(self.sums, alpha=low)
        y, scales, lows = self.multiply(quantized, 1.0, None), numbers[:, :1], numbers[:, 1:]
        y = y.mul_(scales) if self.bias is None else torch.addcmul(self.bias, y, scales, out=y)
        return y.addcmul_(lows, self.sums)

    def multiply(self, quantized: Tensor, scale: float, bias: Tensor | None) -> Tensor:
        product = torch.ops.onednn.qlinear_pointwise
        each, zeros = self.weight_scale, self.zeros
        return product(quantized, scale, 0, self.packed, each, zeros, bias, 1.0, 0, torch.float32, "none", [], "")

    def float_product(self, rows: Tensor) -> Tensor:
        """With the rounded weights in float32, where the processor has no kernel for 8 bits."""
        return F.linear(rows, self.weight * self.weight_scale[:, None], self.bias)

    def pack(self) -> Int8Linear:
        """Put the weights in the order of the kernel; done once, after they are set."""
        if self.weight is None or self.weight.is_meta or not has_int8_kernel():
            return self
        weight, scale = self.weight, self.weight_scale
        with torch.no_grad():
            padded = F.pad(weight, (0, ROW_NUMBERS))
            self.sums = weight.sum(1, dtype=torch.int64) * scale
            self.zeros = torch.zeros(self.out_features, dtype=torch.long)
            self.packed = torch.ops.onednn.qlinear_prepack(padded, None)
        self.weight = None
        return self

    def dense(self) -> Tensor:
        """The whole numbers, O C."""
        if self.packed is None:
            return self.weight
        return self.packed.to_dense()[: self.in_features].t().contiguous()

    # -- copies and files: packed weights have no storage, so what is kept of them is `weight` ------------------

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}weight"] = self.dense()

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.weight, self.packed = self.dense(), None
        super()._load_from_state_dict(*args, **kwargs)
        self.pack()

    def _apply(self, fn: Any, recurse: bool = True) -> Int8Linear:
        """Nothing: neither `.to` nor `.half` changes numbers that are quantized."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        if self.packed is not None:
            del state["packed"]
            state["_buffers"] = {**self._buffers, "weight": self.dense()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.pack()

    def __copy__(self) -> Int8Linear:
        copied = type(self).__new__(type(self))
        copied.__dict__ = self.__dict__.copy()
        return copied

    def extra_repr(self) -> str:
        smoothed = "" if self.input_scale is None else ", smoothed"
        return f"in_features={self.in_features}, out_features={self.out_features}, {self.kind}{smoothed}"


def round_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers between -127 and 127, and the scale of each output."""
    scale = (weight.abs().amax(1) / LEVELS).clamp(min=torch.finfo(torch.float32).tiny)
    return (weight / scale[:, None]).round_().to(torch.int8), scale


@cache
def has_vnni() -> bool:
    """Whether the processor adds products of 8 bits in 32."""
    known = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(known.get("avx512_vnni") or known.get("avx_vnni"))


def has_int8_kernel() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64") and has_onednn()


def quantize(
    model: nn.Module,
    dtype: str = "int8",
    *,
    calibrate: Iterable[Any] | None = None,
    without: Iterable[nn.Module] = (),
) -> nn.Module:
    """Quantize the linear layers of a model to 8 bits, in place; for inference on a CPU.

    "int4" takes 4 bits, for generating text one row at a time; layers that share their weights with an embedding, and
    those whose sizes do not fit, have 8 then.
    Layers with fewer than 16 outputs, such as those that score labels, stay in float. `calibrate` takes batches of
    inputs, as a tokenizer returns them: layers whose inputs have outliers are then smoothed, and those that lose too
    much all the same stay in float too, as do the layers that `without` holds. `save_pretrained` writes the result,
    `from_pretrained` reads it.

    >>> quantize(torch.nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 2)))
    Sequential(
      (0): Int8Linear(in_features=64, out_features=32, int8)
      (1): Linear(in_features=32, out_features=2, bias=True)
    )
    """
    from .calibration import Calibration
    from .int4 import Int4Linear, fits_int4

    if dtype not in KINDS:
        raise InputError(f"weights can be quantized to 'int8' or 'int4', got {dtype!r}")
    if dtype == "int4" and calibrate is not None:
        raise InputError("calibrate is for int8: int4 leaves the inputs of layers as they are")
    if any(p.device.type not in ("cpu", "meta") for p in model.parameters()):
        raise InputError("quantized layers run on a CPU; move the model there first")
    if any(isinstance(module, LoraLinear) for module in model.modules()):
        raise InputError("the model has an adapter; merge_lora(model) makes it part of the weights first")
    model.eval()
    found = None if calibrate is None else Calibration.of(model, calibrate)
    skipped = {*without, *(() if found is None else found.sensitive)}
    embeddings = [module.weight for module in model.modules() if isinstance(module, nn.Embedding)]
    layers: dict[nn.Module, nn.Module] = {}
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if not can_be_reduced(child) or child in skipped:
                continue
            if child not in layers:
                four = dtype == "int4" and fits_int4(child) and all(child.weight is not each for each in embeddings)
                kind = Int4Linear if four else Int8Linear
                layers[child] = kind.of(child, None if found is None else found.input_scales.get(child))
            setattr(parent, name, layers[child])
    for part in model.modules():
        if hasattr(part, "record_quantization"):  # a model with a config
            part.record_quantization()
    return model


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(module, Int8Linear) for module in model.modules())


def weight_names(model: nn.Module) -> list[str]:
    """The names of all parameters, and of the weights that are rounded."""
    rounded = [f"{name}.weight" for name, module in model.named_modules() if isinstance(module, Int8Linear)]
    return [name for name, _ in model.named_parameters()] + rounded


def refuse_quantized(model: nn.Module, use: str) -> None:
    """Raise if a model is quantized, before it is "trained" or otherwise used for its weights."""
    kinds = {module.kind for module in model.modules() if isinstance(module, Int8Linear)}
    if kinds:
        raise InputError(f"the model is {QUANTIZED.format(min(kinds), use)}")


def can_be_fused(layers: Sequence[Any]) -> bool:
    """Whether all layers are quantized, and divide their inputs by the same numbers."""
    if not all(isinstance(layer, Int8Linear) and type(layer) is type(layers[0]) for layer in layers):
        return False
    first, *others = (layer.input_scale for layer in layers)
    if first is None:
        return all(scale is None for scale in others)
    return all(scale is not None and torch.equal(scale, first) for scale in others)
