"""The linear layer, also for a few rows at a time: there a CPU waits for the weights, not for the arithmetic.

The same product can be asked for in three ways, which read the weights at different speeds. Measured on two cores
(milliseconds for 24 matrices of 3072 x 768 or 768 x 3072, and 2 of 50257 x 768):

    rows    rows @ weightsᵀ     weights @ rowsᵀ     oneDNN
    1       14  11  19          14  11  22           8  13  12
    4       31  26  54          15  13  15          20  16  21
    8       30  29  65          23  21  30          24  20  24
    32      45  51 100          41  37  56          43  41  54
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

FEW = 32  # rows up to which the other ways are faster
VERY_WIDE = 16_384  # outputs from which oneDNN is ahead for more than a handful of rows
HANDFUL = 4


class Linear(nn.Linear):
    """torch's linear layer; a few rows on a CPU, without gradients, take the way that reads the weights fastest."""

    def forward(self, x: Tensor) -> Tensor:
        return multiply(x, self.weight, self.bias)


def multiply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """rows @ weightsᵀ + bias, the fastest way."""
    rows = x.shape[0]
    if rows > FEW or x.dim() != 2 or x.dtype != torch.float32 or not x.is_cpu or torch.is_grad_enabled():
        return F.linear(x, weight, bias)
    outputs, inputs = weight.shape
    if rows == 1:  # calling oneDNN takes longer than calling MKL
        return with_onednn(x, weight, bias) if outputs > 2 * inputs else F.linear(x, weight, bias)
    if rows > HANDFUL and outputs >= VERY_WIDE:
        return with_onednn(x, weight, bias)
    return from_the_left(x, weight, bias)


def with_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product by oneDNN's kernel, where torch has it."""
    if not torch.backends.mkldnn.is_available() or weight.dtype != torch.float32:
        return F.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def pack(weight: Tensor, rows: int) -> Tensor | None:
    """A copy of the weights in the order in which oneDNN reads them best for so many rows, where torch has it.

    Eight rows are multiplied in 13 instead of 23 ms (in the measure above); the copy is worth its time after some
    thirty products.
    """
    usable = torch.backends.mkldnn.is_available() and weight.is_cpu and weight.dtype == torch.float32
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows) if usable else None


def multiply_packed(x: Tensor, packed: Tensor, bias: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def from_the_left(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """weights @ rowsᵀ, turned around."""
    rows = x.contiguous().t()
    product = weight @ rows if bias is None else torch.addmm(bias[:, None], weight, rows)
    return product.t().contiguous()  # N C
