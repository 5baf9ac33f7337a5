"""Attention with linear heads, and local ones: softmax within a block of tokens and its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .attention import attend
from .attention_patterns import NeighbourBlocks, is_sparse
from .attention_weights import add_biases, attention_weights, select_heads
from .layout import Layout
from .mask import mask_to_bias
from .random_features import RandomFeatures
from .sparse_attention import sparse_attention_weights


class LocalAndLinearHeads(NamedTuple):
    """Attends in place of `RandomFeatures`; a cache holds keys, because not all heads have features."""

    features: RandomFeatures
    linear_heads: int  # those before the local ones
    window: int
    key_width: int

    def keys(self, k: Tensor) -> Tensor:
        return k

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        layout: Layout,
        source: Layout,
        *,
        bias: Tensor | None = None,
        head_mask: Tensor | None = None,
        dropout: float = 0.0,
        want_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """`attend`, each half of the heads in its own way; dropout is that of local heads."""
        count, parts = self.linear_heads, []
        halves = ((slice(0, count), True), (slice(count, q.shape[1]), False))
        for heads, is_linear in halves:
            if heads.start == heads.stop:
                continue
            mask = head_mask if head_mask is None or head_mask.shape[1] == 1 else head_mask[:, heads]
            how: dict[str, Any] = {"head_mask": mask, "want_weights": want_weights}
            some = (q[:, heads], self.linear_keys(k)[:, heads] if is_linear else k[:, heads], v[:, heads])
            of_heads = select_heads(bias, range(heads.start, heads.stop))
            if is_linear:
                parts.append(self.features.attend(*some, layout, source, bias=of_heads, **how))
                continue
            pattern, of_heads = self.pattern(k, layout, of_heads)
            parts.append(attend(*some, layout, source, bias=of_heads, pattern=pattern, dropout=dropout, **how))
        y, weights = zip(*parts, strict=True)
        return torch.cat(y, 1), torch.cat(weights, 1) if want_weights else None

    def weights(
        self,
        q: Tensor,
        k: Tensor,
        heads: Sequence[int],
        layout: Layout,
        source: Layout,
        bias: Tensor | None,
        columns: range,
    ) -> Tensor:
        """The weights of some heads, for the queries in some columns of the batch: B H T S."""
        found = []
        for head in heads:
            if head < self.linear_heads:
                keys = self.linear_keys(k)
                found.append(self.features.weights(q, keys, [head], layout, source, bias, columns))
                continue
            pattern, of_head = self.pattern(k, layout, select_heads(bias, [head]))
            one = q[:, [head]], k[:, [head]], layout
            if is_sparse(pattern, layout):
                found.append(sparse_attention_weights(*one, pattern, None, columns))
            else:
                found.append(attention_weights(*one, source, None, of_head, None, columns))
        return torch.cat(found, 1)

    def linear_keys(self, k: Tensor) -> Tensor:
        """Keys of a past become features; rows are what linear attention takes."""
        return self.features.keys(k) if k.dim() == 4 else k

    def pattern(self, k: Tensor, layout: Layout, bias: Tensor | None) -> tuple[NeighbourBlocks | None, Tensor | None]:
        """A pattern for rows; where a mask says who sees whom, a bias that hides what is beyond the neighbours."""
        if layout.mask is None and k.dim() == 3:
            return NeighbourBlocks(self.window), bias
        keys = k.shape[2] if k.dim() == 4 else layout.length
        distance = layout.distances(layout.length, keys, k.device)  # B T S: from key to query
        if layout.mask is not None:  # the farthest key that a query sees is the first token of its text
            seen = (layout.mask == 0).expand(layout.batch, 1, layout.length, keys)[:, 0]
            distance = distance.expand_as(seen)
            places = distance.masked_fill(~seen, 0).amax(-1, keepdim=True)
        else:
            places = distance.amax(-1, keepdim=True)
        blocks_between = (places // self.window - (places - distance).div(self.window, rounding_mode="floor")).abs()
        return None, add_biases(mask_to_bias((blocks_between <= 1)[:, None], k.dtype), bias)
