"""The weights of attention: from queries and keys, for all queries or for some, and as an observer asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .attention_patterns import Pattern, is_sparse
from .layout import Layout, Run, paired_runs
from .sparse_attention import sparse_attention_weights

if TYPE_CHECKING:
    from .local_heads import LocalAndLinearHeads
    from .random_features import RandomFeatures

ScoreBias = Callable[[Tensor, Tensor], Tensor]  # (B H T D, B H S D) -> B H T S, added before the scaling
# The weights of some heads, for the queries in some columns of the batch -> the same, some of them replaced.
ReplaceWeights = Callable[[Tensor, Sequence[int], range], Tensor]


def add_biases(mask: Tensor | None, bias: Tensor | None) -> Tensor | None:
    """Their sum; never -inf, so that a query that sees nothing has finite weights too."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    return (mask + bias).clamp(min=torch.finfo(mask.dtype).min)


def select_heads(bias: Tensor | None, heads: Sequence[int] | None) -> Tensor | None:
    """The part of a bias (broadcast to B H T S) that belongs to some heads; None is all of them."""
    if bias is None or heads is None or bias.dim() < 3 or bias.shape[-3] == 1:
        return bias
    return bias[..., heads, :, :]


def slice_bias(bias: Tensor | None, q_run: Run, k_run: Run) -> Tensor | None:
    """The part of a bias (broadcast to B H T S) that belongs to the queries and keys of one run."""
    if bias is None:
        return None
    rows = slice(q_run.column, q_run.column + q_run.length) if bias.shape[-2] > 1 else slice(None)
    columns = slice(k_run.column, k_run.column + k_run.length) if bias.shape[-1] > 1 else slice(None)
    part = bias[..., rows, columns]
    return part[list(q_run.members)] if part.dim() == 4 and len(part) > 1 else part


def future_mask(keys: int, like: Tensor, rows: range | None = None) -> Tensor:
    """The additive causal mask of all queries, or of some rows of it: T S."""
    rows = range(keys) if rows is None else rows
    queries = torch.arange(rows.start, rows.stop, device=like.device)
    lowest = torch.finfo(like.dtype).min
    zeros = torch.zeros(len(rows), keys, dtype=like.dtype, device=like.device)
    return zeros.masked_fill_(queries[:, None] < torch.arange(keys, device=like.device), lowest)


def explicit_attention_weights(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    score_bias: ScoreBias | None = None,
) -> Tensor:
    """softmax(q kᵀ / sqrt(D))"""
    scores = q @ k.transpose(-1, -2)  # B H T S
    if score_bias is not None:
        scores = scores + score_bias(q, k)
    scores = scores / math.sqrt(q.shape[-1]) if scale is None else scores * scale
    if causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, torch.finfo(scores.dtype).min)
    if mask is not None:
        scores = scores + mask
    return scores.softmax(-1)


def run_heads(x: Tensor, run: Run) -> Tensor:
    """The rows of one run as a dense block: N H D -> count H length D, without a copy."""
    rows = x[run.start : run.start + run.count * run.length]
    return rows.view(run.count, run.length, *x.shape[1:]).transpose(1, 2)


def unpack_weights(
    weights_of_runs: list[tuple[Run, Run, Tensor]], layout: Layout, source: Layout, queries: int | None = None
) -> Tensor:
    """Gather the weights of all runs into B H T S, or of so many `queries` in place of T."""
    first = weights_of_runs[0][2]
    if len(weights_of_runs) == 1 and layout.index is None and source.index is None:
        return first
    size = layout.length if queries is None else queries
    unpacked = first.new_zeros(layout.batch, first.shape[1], size, source.length)
    for q_run, k_run, weights in weights_of_runs:
        rows = slice(q_run.column, q_run.column + q_run.length)
        columns = slice(k_run.column, k_run.column + k_run.length)
        unpacked[list(q_run.members), :, rows, columns] = weights
    return unpacked


class AttentionInputs(NamedTuple):
    """The inputs of one attention, for an observer."""

    q: Tensor  # N H D
    k: Tensor  # M H D, or B H S D with a past
    v: Tensor
    layout: Layout
    source: Layout
    scale: float | None
    bias: Tensor | None
    score_bias: ScoreBias | None
    head_mask: Tensor | None
    pattern: Pattern | None = None
    features: RandomFeatures | LocalAndLinearHeads | None = None  # keys of a past are theirs
    replace: ReplaceWeights | None = None  # of queries whose weights are computed otherwise
    all_weights: Callable[[], Tensor] | None = None  # B H T S, of an attention that does not compute as `attend` does

    def weights(self, heads: Sequence[int], queries: range | None = None) -> Tensor:
        """The weights of some heads, B H T S, as `attend` computes them, before dropout; other heads are not computed.

        `queries` are some columns of the batch in place of all T. With a `score_bias` all heads and queries are
        computed, because it may differ from head to head.
        """
        q, k, bias, mask, pattern = self.q, self.k, self.bias, self.head_mask, self.pattern
        columns = range(self.layout.length) if queries is None else queries
        if self.all_weights is not None:
            return self.all_weights()[:, heads, slice_of(columns)]
        if self.score_bias is None and self.features is None:
            q, k, bias = q[:, heads], k[:, heads], select_heads(bias, heads)  # q and k have their heads in dimension 1
        if self.features is not None:
            weights = self.features.weights(q, k, heads, self.layout, self.source, bias, columns)
        elif pattern is not None and is_sparse(pattern, self.layout):
            weights = sparse_attention_weights(q, k, self.layout, pattern.of_heads(heads), self.scale, columns)
        else:
            weights = attention_weights(q, k, self.layout, self.source, self.scale, bias, self.score_bias, columns)
        weights = weights if self.score_bias is None else weights[:, heads]
        if self.replace is not None:
            weights = self.replace(weights, heads, columns)
        if mask is None:
            return weights
        mask = mask if mask.shape[1] == 1 else mask[:, heads]
        return weights * (mask if mask.shape[2] == 1 else mask[:, :, slice_of(columns)])


def slice_of(columns: range) -> slice:
    return slice(columns.start, columns.stop)


def attention_weights(
    q: Tensor,
    k: Tensor,
    layout: Layout,
    source: Layout,
    scale: float | None,
    bias: Tensor | None,
    score_bias: ScoreBias | None,
    columns: range,
) -> Tensor:
    """The weights of `attend` alone, for the queries in some columns of the batch."""
    if score_bias is not None and len(columns) < layout.length:
        everything = range(layout.length)
        return attention_weights(q, k, layout, source, scale, bias, score_bias, everything)[:, :, slice_of(columns)]
    if source.mask is not None or k.dim() == 4:
        k, mask = k if k.dim() == 4 else source.heads(k), add_biases(source.mask, bias)
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., slice_of(columns), :]
        queries = layout.heads(q)[:, :, slice_of(columns)]
        return explicit_attention_weights(queries, k, mask, False, scale, score_bias)
    weights_of_runs = []
    for q_run, k_run in paired_runs(layout, source):
        rows = range(max(columns.start - q_run.column, 0), min(columns.stop - q_run.column, q_run.length))
        rows = rows or range(0)
        part, queries = slice_bias(bias, q_run, k_run), run_heads(q, q_run)
        if part is not None and part.shape[-2] > 1:
            part = part[..., slice_of(rows), :]
        if layout.causal and source is layout:
            part = add_biases(future_mask(k_run.length, q, rows), part)
        weights = explicit_attention_weights(
            queries[:, :, slice_of(rows)], run_heads(k, k_run), part, False, scale, score_bias
        )
        here = q_run._replace(column=q_run.column + rows.start - columns.start, length=len(rows))
        weights_of_runs.append((here, k_run, weights))
    return unpack_weights(weights_of_runs, layout, source, len(columns))
