"""The linear layer, by the kernel that is fastest when no gradient is needed.

torch calls MKL for rows @ weightsᵀ. Other kernels compute the same product and read the weights at different speeds.
Measured on two cores of a CPU with AVX-512, GB/s of weights (GPT-2's matrices: 2304 x 768, 768 x 3072, 50257 x 768),
and in the last lines GFLOP/s (1536 x 384):

    rows    rows @ weightsᵀ     weights @ rowsᵀ     oneDNN              oneDNN, packed
    1       12.2  15.7  11.0    11.8  15.2  10.6    19.8  21.7  21.6    20.1  21.9  25.0
    4        8.9   7.8   5.3    16.6  10.5  20.3    14.3  13.5  15.8    22.0  21.4  26.4
    8        9.7   8.6   6.2     6.5   8.4   6.9    12.4  15.5  13.3    16.8  21.3  16.8
    32       6.3   4.4   3.3     6.4   6.5   3.9     7.4   7.3   7.4     9.5   8.2  10.5
    320      177                                    197                 205
    4096     180                                    193                 207

On two cores of a newer CPU, one row times all matrices of GPT-2, which then come from memory: 28 to 34 GB/s as they
are, 57 GB/s packed.
"""

from __future__ import annotations

import os
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# oneDNN caches a kernel for every number of rows. With its default capacity, 1,024, a training run with other lengths
# in every step used 2.0 GB after 45 steps and 3.8 in the end; with 64 it used 1.3 after 45 steps, in the same time.
# torch's layer above it (ideep) keeps 1,024 of them alive in every thread, whatever oneDNN forgets.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
os.environ.setdefault("LRU_CACHE_CAPACITY", "64")

# glibc returns freed blocks above a threshold to the system, and every step has to map and clear them again; freeing a
# block raises the threshold to its size, up to this one. Beam search over 32 texts: 0.75-0.97 instead of 1.01-1.10 s.
LARGEST_THRESHOLD = (32 << 20) - 4096
torch.empty(LARGEST_THRESHOLD, dtype=torch.uint8)

PACKED_ROWS = 32  # rows that weights are packed for: the order is the same for any number from two on
# Rows, from two on, up to which weights @ rowsᵀ is faster than oneDNN on weights that are not packed.
MAX_TRANSPOSED_ROWS = 4


class Linear(nn.Linear):
    """torch's linear layer; on a CPU, without gradients, it takes the fastest way.

    Weights of less precision than the rows round the rows too, and the result has the type of the rows again.
    """

    packed: Tensor | None = None  # a copy of the weights as oneDNN reads them best, in prepared models: see prepared.py

    def forward(self, x: Tensor) -> Tensor:
        weight, bias, packed = self.weight, self.bias, self.packed
        if weight.dtype == torch.bfloat16:
            return self.reduced_product(x).to(x.dtype)
        if packed is not None and not torch.is_grad_enabled():
            return torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
        if torch.is_grad_enabled() or not (x.is_cpu and x.dtype == weight.dtype == torch.float32 and has_onednn()):
            return F.linear(x, weight, bias)
        if x.dim() == 2 and 1 < len(x) <= MAX_TRANSPOSED_ROWS:
            return transposed_product(x, weight, bias)
        return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")

    @property
    def is_reduced(self) -> bool:
        """Whether products have less precision than the rows."""
        return self.weight.dtype == torch.bfloat16

    def reduced_product(self, x: Tensor, gelu: str = "") -> Tensor:
        """The product in bfloat16, summed and activated in float32 and rounded once; `gelu` is "none" or "tanh"."""
        weight, bias, rows = self.weight, self.bias, x.to(torch.bfloat16)
        if x.is_cpu and not torch.is_grad_enabled() and has_bfloat16_kernel():
            weight = weight if self.packed is None else self.packed
            post_op = ("gelu", [], gelu) if gelu else ("none", [], "")
            return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, *post_op)
        y = F.linear(rows, weight, None if bias is None else bias.to(rows.dtype))
        return F.gelu(y, approximate=gelu) if gelu else y


FEW_OUTPUTS = 16  # a layer with fewer keeps its precision: labels gain no time, and lose digits


def can_be_reduced(module: nn.Module | None) -> bool:
    """Whether products of a layer may be computed in less precision."""
    return isinstance(module, nn.Linear) and module.out_features >= FEW_OUTPUTS


def reduce_products(model: nn.Module, dtype: torch.dtype) -> None:
    """Round the weights of linear layers, in place; those that are an embedding's too become a copy of it."""
    rounded: dict[Tensor, nn.Parameter] = {}
    for module in model.modules():
        if type(module) is Linear and can_be_reduced(module):
            weight = module.weight
            if weight not in rounded:
                rounded[weight] = nn.Parameter(weight.detach().to(dtype), requires_grad=weight.requires_grad)
            module.weight = rounded[weight]


def reduced_dtype(model: nn.Module) -> torch.dtype | None:
    """The type of the weights of linear layers, if it is less precise than float32."""
    kinds = (module.weight.dtype for module in model.modules() if isinstance(module, Linear))
    return next((kind for kind in kinds if kind == torch.bfloat16), None)


def has_onednn() -> bool:
    return torch.backends.mkldnn.is_available() and not torch.is_autocast_enabled("cpu")


@cache
def has_bfloat16_kernel() -> bool:
    return torch.backends.mkldnn.is_available() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def pack(weight: Tensor, rows: int = PACKED_ROWS) -> Tensor | None:
    """A copy of the weights in the order in which oneDNN reads them best for several rows, where torch has it.

    The copy is worth its time after some thirty products. Its products have the same bits, but for those of one row.
    """
    usable = weight.is_cpu and weight.dtype == torch.float32 and has_onednn()
    usable |= weight.is_cpu and weight.dtype == torch.bfloat16 and has_bfloat16_kernel()
    return torch.ops.mkldnn._reorder_linear_weight(weight.detach(), rows) if usable else None


def transposed_product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """(weights @ rowsᵀ)ᵀ"""
    rows = x.contiguous().t()
    product = weight @ rows if bias is None else torch.addmm(bias[:, None], weight, rows)
    return product.t().contiguous()  # N C
