"""Weights in 4 bits, for generation, whose time is that of reading weights.

Each group of 32 weights has a step and a middle, in bfloat16; rows meet the weights in bfloat16 too. Measured on two
cores with AVX-512, one row times the 48 matrices of GPT-2, milliseconds: float32 9.2, bfloat16 4.8, int8 3.2, int4 1.6.
With eight rows and more int8 is faster.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .quantize import INPUT_SCALE, SCALE, Int8Linear

GROUP = 32
ROWS_OF_A_BLOCK = 16  # of outputs, in the order of the kernel
CLIPPINGS = (1.0, 0.95, 0.9, 0.85, 0.8)  # of a group's range; the one with the least error is taken


class Int4Linear(Int8Linear):
    """A linear layer in 4 bits: two weights in a byte.

    >>> Int4Linear.of(nn.Linear(64, 32))
    Int4Linear(in_features=64, out_features=32, int4)
    """

    kind = "int4"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, smooth: bool = False, device: Any = None
    ):
        nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.register_buffer("weight", torch.zeros(out_features, in_features // 2, dtype=torch.uint8, device=device))
        groups = torch.ones(out_features, in_features // GROUP, 2, dtype=torch.bfloat16, device=device)
        self.register_buffer(SCALE, groups)
        self.register_buffer(INPUT_SCALE, None)
        self.bias = nn.Parameter(torch.zeros(out_features, device=device), requires_grad=False) if bias else None

    @classmethod
    def of(cls, linear: nn.Linear, input_scale: Tensor | None = None) -> Int4Linear:
        layer = cls(linear.in_features, linear.out_features, linear.bias is not None, device="meta")
        numbers, layer.weight_scale = round_groups(linear.weight.detach().float())
        layer.weight, layer.bias = as_bytes(numbers), linear.bias
        return layer.pack()

    def product(self, rows: Tensor) -> Tensor:
        y = torch.ops.aten._weight_int4pack_mm_for_cpu(rows.bfloat16(), self.packed, GROUP, self.steps)
        return y.float() if self.bias is None else torch.add(self.bias, y)

    def pack(self) -> Int4Linear:
        if self.weight is None or self.weight.is_meta:
            return self
        with torch.no_grad():
            numbers = torch.stack((self.weight & 15, self.weight >> 4), -1).flatten(1).int()
            self.packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(numbers, 1)
            self.steps = self.weight_scale.transpose(0, 1).contiguous()  # groups O 2
        self.weight = None
        return self

    def dense(self) -> Tensor:
        """The bytes: O C/2. The kernel's order is its own, so that it is asked for its products with single ones."""
        if self.packed is None:
            return self.weight
        ones = torch.eye(self.in_features, dtype=torch.bfloat16)
        plain = torch.stack((torch.ones_like(self.steps[..., 0]), torch.zeros_like(self.steps[..., 0])), -1)
        with torch.no_grad():
            numbers = torch.ops.aten._weight_int4pack_mm_for_cpu(ones, self.packed, GROUP, plain) + 8
        return as_bytes(numbers.t().to(torch.uint8))


def as_bytes(numbers: Tensor) -> Tensor:
    """Two numbers from 0 to 15 in each byte: O C -> O C/2."""
    return (numbers[:, ::2] | numbers[:, 1::2] << 4).contiguous()


def round_groups(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers from 0 to 15 (O C), and the step and middle of each group (O G 2): w ≈ (number - 8) step + middle."""
    groups = weight.unflatten(1, (-1, GROUP))  # O G 32
    least, numbers, steps = None, None, None
    for clipping in CLIPPINGS:
        low, high = groups.amin(-1) * clipping, groups.amax(-1) * clipping
        step = ((high - low) / 15).clamp(min=1e-8).bfloat16()
        middle = (low + 8 * step.float()).bfloat16()
        rounded = ((groups - middle[..., None].float()) / step[..., None].float()).round_().add_(8).clamp_(0, 15)
        error = ((rounded - 8) * step[..., None].float() + middle[..., None].float() - groups).square_().sum(-1)
        pair = torch.stack((step, middle), -1)
        if least is None:
            least, numbers, steps = error, rounded, pair
            continue
        better = error < least
        least = torch.where(better, error, least)
        numbers = torch.where(better[..., None], rounded, numbers)
        steps = torch.where(better[..., None], pair, steps)
    return numbers.flatten(1).to(torch.uint8), steps


def fits_int4(linear: nn.Linear) -> bool:
    return linear.in_features % (2 * GROUP) == 0 and linear.out_features % ROWS_OF_A_BLOCK == 0
