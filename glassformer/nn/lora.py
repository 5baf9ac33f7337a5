"""LoRA (Hu et al. 2021): a frozen linear layer with a trained update of low rank."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import Dropout
from .linear import Linear


class LoraLinear(Linear):
    """A linear layer whose weights are frozen: rows @ weightsᵀ + scaling * (rows @ Aᵀ) @ Bᵀ.

    Its own weight and bias keep their names. `lora_A` (r in) may be shared by layers that read the same rows.

    >>> layer = LoraLinear(nn.Linear(4, 3), r=2, alpha=4)
    >>> x = torch.randn(5, 4)
    >>> bool((layer(x) == F.linear(x, layer.weight, layer.bias)).all())  # B is initialised with zeros
    True
    """

    def __init__(
        self,
        linear: nn.Linear,
        r: int,
        alpha: float,
        dropout: float = 0.0,
        *,
        use_rslora: bool = False,
        shared: Tensor | None = None,
    ) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight = linear.weight
        self.bias = linear.bias
        initial = nn.init.kaiming_uniform_(linear.weight.new_empty(r, linear.in_features), a=math.sqrt(5))
        self.lora_A = nn.Parameter(initial) if shared is None else shared
        self.lora_B = nn.Parameter(linear.weight.new_zeros(linear.out_features, r))
        self.r = r
        self.scaling = alpha / (math.sqrt(r) if use_rslora else r)
        self.dropout = Dropout(dropout)
        self.unmerged: Tensor | None = None  # the original weight, while the update is merged into it
        self.train(linear.training)

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        if self.is_merged:
            return y
        rows = self.dropout(x).to(self.lora_A.dtype)
        return y + F.linear(F.linear(rows, self.lora_A), self.lora_B) * self.scaling

    @property
    def is_merged(self) -> bool:
        return self.unmerged is not None

    @property
    def is_reduced(self) -> bool:
        return False

    def delta(self) -> Tensor:
        """The update, as a matrix of the weight's shape."""
        return (self.lora_B @ self.lora_A) * self.scaling

    @torch.no_grad()
    def merge(self) -> None:
        """Add the update to the weight, so that inference does not compute it."""
        if not self.is_merged:
            self.unmerged = self.weight.data
            self.weight.data = self.weight.data + self.delta()

    def unmerge(self) -> None:
        """Restore the original weight, bit for bit."""
        if self.unmerged is not None:
            self.weight.data, self.unmerged = self.unmerged, None

    @torch.no_grad()
    def to_linear(self) -> Linear:
        """An ordinary linear layer that computes the same."""
        self.merge()
        linear = Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        linear.weight, linear.bias = self.weight, self.bias
        return linear.train(self.training)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, r={self.r}, scaling={self.scaling:g}" + (", merged" if self.is_merged else "")
