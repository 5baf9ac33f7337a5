"""Longformer's layers: attention to a window, and that of global tokens, with projections of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..nn.attention import SelfAttention, prune_attention
from ..nn.attention_patterns import Window
from ..nn.attention_weights import ReplaceWeights, attention_weights
from ..nn.context import Context, ContextModule
from ..nn.dropout import drop
from ..nn.feedforward import in_chunks
from ..nn.layout import Layout, Run
from ..nn.linear import Linear
from ..nn.sparse_attention import per_head, sparse_attention_weights
from .base.body import LayerStack
from .bert_layers import BertIntermediate, BertOutput, BertSelfOutput

if TYPE_CHECKING:
    from .longformer import LongformerConfig

ROWS = 64  # queries whose weights are computed at a time, where all are requested


@dataclass
class GlobalTokens:
    """The global tokens of a batch, and what the layers record about them."""

    layout: Layout
    rows: Tensor  # N, boolean
    weights: dict[int, Tensor] = field(default_factory=dict)  # by layer, of global tokens to all: B H T G

    @classmethod
    def of(cls, layout: Layout, rows: Tensor) -> GlobalTokens | None:
        """None if there are none among the tokens that are read."""
        if layout.mask is not None and layout.mask.shape[-2] == 1:
            rows = rows & (layout.mask[:, 0, 0] == 0).expand(layout.batch, layout.length).flatten()
        return cls(layout, rows) if bool(rows.any()) else None

    def places(self) -> list[list[int]]:
        """The columns of the global tokens of every sequence of the batch."""
        return [row.nonzero()[:, 0].tolist() for row in self.layout.unpack(self.rows)]

    def groups(self) -> Iterator[tuple[Run, Tensor]]:
        """Sequences with equally many global tokens, one of them at least, and their rows of the stream: count G."""
        for run in self.layout.runs:
            tokens = self.rows[run.start : run.start + run.count * run.length].view(run.count, run.length)
            counts = tokens.sum(1)
            if bool((counts == counts[0]).all()):
                if int(counts[0]):
                    yield run, run.start + tokens.flatten().nonzero()[:, 0].view(run.count, -1)
                continue
            for number, (member, row) in enumerate(zip(run.members, tokens, strict=True)):
                start = run.start + number * run.length
                if bool(row.any()):
                    yield Run(start, 1, run.length, run.column, (member,)), start + row.nonzero()[:, 0][None]


class LongformerEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: LongformerConfig):
        super().__init__([LongformerLayer(config, number) for number in range(config.num_hidden_layers)])


class LongformerLayer(ContextModule):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: LongformerConfig, number: int):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = LongformerAttention(config, number)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.feed_forward_chunk(x)

    def feed_forward_chunk(self, x: Tensor) -> Tensor:
        return self.output(self.intermediate(x), x)


class LongformerAttention(ContextModule):
    """Attention with its output projection; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: LongformerConfig, number: int):
        super().__init__()
        self.self = LongformerSelfAttention(config, number)
        self.output = BertSelfOutput(config)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: Iterable[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(x, context), x)


class LongformerSelfAttention(SelfAttention):
    """A window for every token; global tokens attend to all with projections of their own."""

    projections = (*SelfAttention.projections, "query_global", "key_global", "value_global")

    def __init__(self, config: LongformerConfig, number: int):
        super().__init__(config.hidden_size, config.num_attention_heads, config.attention_probs_dropout_prob)
        self.scale = self.attention_head_size**-0.5
        for name in ("query_global", "key_global", "value_global"):
            setattr(self, name, Linear(config.hidden_size, config.hidden_size))
        self.one_sided_attn_window_size = config.of_layer("attention_window", number) // 2
        self.dilation = config.of_layer("attention_dilation", number)

    def pattern(self, context: Context) -> Window:
        tokens = None if context.extras is None else context.extras.rows
        return Window(self.one_sided_attn_window_size, self.dilation, tokens, global_queries=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """N C -> N C (or B T C when called directly)."""
        is_requested, context.output_attentions = context.output_attentions, False  # they are not n x n
        y = super().forward(x, context)
        context.output_attentions = is_requested
        shape, rows, tokens = y.shape, x.reshape(-1, x.shape[-1]), context.extras
        y = y.reshape(-1, self.all_head_size)
        if tokens is not None:
            y = y.index_copy(0, *self.global_rows(rows, tokens, context))
        if context.layout.mask is not None and context.layout.mask.shape[-2] == 1:  # padding that is computed is zero
            seen = (context.layout.mask[:, 0, 0] == 0).expand(context.layout.batch, context.layout.length)
            y = y * seen.reshape(-1, 1)
        if is_requested:
            self.record_weights(rows, context)
        return y.reshape(shape)

    # -- global tokens -----------------------------------------------------------------------------------------

    def global_rows(self, x: Tensor, tokens: GlobalTokens, context: Context) -> tuple[Tensor, Tensor]:
        """(the rows of the global tokens, what attention to all gives them)"""
        places, results = [], []
        groups = list(tokens.groups())
        is_small = max(rows.shape[1] for _, rows in groups) < self.attention_head_size
        is_folded = is_small and self.has_plain_projections()
        keys_and_values = (x, x) if is_folded else (self.key_global(x), self.value_global(x))
        attend = self.attend_from_few if is_folded else self.attend_from_many
        for run, rows in groups:
            here = slice(run.start, run.start + run.count * run.length)
            k, v = (each[here].unflatten(0, (run.count, run.length)) for each in keys_and_values)  # B n C
            queries = self.query_global(x[rows]).unflatten(-1, (self.num_attention_heads, -1)) * self.scale  # B G H D
            mask = context.layout.mask
            if mask is not None:
                mask = (mask if len(mask) == 1 else mask[list(run.members)])[:, :, :1]  # B 1 1 S
            y = attend(queries, k, v, mask)  # B G H D
            if context.head_mask is not None:
                y = y * per_head(context.head_mask)[:, None]
            places.append(rows.flatten())
            results.append(y.flatten(2).flatten(0, 1))
        return torch.cat(places), torch.cat(results)

    def has_plain_projections(self) -> bool:
        """Whether keys and values of global tokens are linear in the input, and nobody waits to see them."""
        parts = (self.key_global, self.value_global)
        if not all(type(part) is Linear and not part.is_reduced for part in parts):
            return False
        return not any(part._forward_hooks or part._forward_pre_hooks for part in parts)

    def attend_from_many(self, queries: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """B G H D, B n C -> B G H D"""
        k, v = (each.unflatten(-1, (self.num_attention_heads, -1)) for each in (k, v))
        weights = self.global_weights(queries.transpose(1, 2) @ k.permute(0, 2, 3, 1), mask)  # B H G n
        return (weights @ v.transpose(1, 2)).transpose(1, 2)

    def attend_from_few(self, queries: Tensor, x: Tensor, _: Tensor, mask: Tensor | None) -> Tensor:
        """The same for few queries: q (W x) is (q W) x, so neither keys nor values of all tokens are computed."""
        heads = self.num_attention_heads
        key, value = (part.weight.unflatten(0, (heads, -1)) for part in (self.key_global, self.value_global))  # H D C
        key_bias, value_bias = (part.bias.unflatten(0, (heads, -1)) for part in (self.key_global, self.value_global))
        folded = queries.transpose(1, 2) @ key  # B H G C
        scores = (folded.flatten(1, 2) @ x.mT).unflatten(1, (heads, -1))  # B H G n
        scores = scores + (queries * key_bias).sum(-1).transpose(1, 2)[..., None]
        weights = self.global_weights(scores, mask)
        seen = (weights.flatten(1, 2) @ x).unflatten(1, (heads, -1))  # B H G C
        y = seen @ value.mT + weights.sum(-1, keepdim=True) * value_bias[:, None]
        return y.transpose(1, 2)

    def global_weights(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        weights = (scores if mask is None else scores + mask).softmax(-1)
        return drop(weights, self.dropout.p) if self.training else weights

    # -- weights, for those who want to see them -----------------------------------------------------------------

    def replace_weights(self, x: Tensor, context: Context) -> ReplaceWeights | None:
        tokens = context.extras
        if tokens is None:
            return None

        def replaced(weights: Tensor, heads: Sequence[int], columns: range) -> Tensor:
            is_global = tokens.layout.unpack(tokens.rows)  # B T
            found = weights.clone()
            for column in columns:
                if bool(is_global[:, column].any()):
                    row = self.weights_of_column(x, context.layout, heads, column)[:, :, 0]  # B h S
                    here = column - columns.start
                    found[:, :, here] = torch.where(is_global[:, column, None, None], row, weights[:, :, here])
            return found

        return replaced

    def weights_of_column(self, x: Tensor, layout: Layout, heads: Sequence[int], column: int) -> Tensor:
        """The weights of the tokens in one column, as if they were global: B h 1 S."""
        q, k = self.split_heads(self.query_global(x))[:, heads], self.split_heads(self.key_global(x))[:, heads]
        return attention_weights(q, k, layout, layout, self.scale, None, None, range(column, column + 1))

    def record_weights(self, x: Tensor, context: Context) -> None:
        """Weights as the output of a model has them: to global tokens and to the window; of global tokens to all."""
        layout, tokens = context.layout, context.extras
        q, k = self.split_heads(self.query(x)), self.split_heads(self.key(x))
        places: list[list[int]] = [[] for _ in range(layout.batch)] if tokens is None else tokens.places()
        most = max(map(len, places))
        heads = range(self.num_attention_heads)
        scale = 1 if context.head_mask is None else per_head(context.head_mask)[:, None, None]
        real = layout.unpack(torch.ones_like(x[:, 0])) if layout.mask is None else (layout.mask[:, 0, 0] == 0).to(x)
        local = q.new_zeros(layout.batch, len(heads), layout.length, most + 2 * self.one_sided_attn_window_size + 1)
        for first in range(0, layout.length, ROWS):
            columns = range(first, min(first + ROWS, layout.length))
            weights = sparse_attention_weights(q, k, layout, self.pattern(context), self.scale, columns)  # B H t S
            local[:, :, columns.start : columns.stop] = self.banded(weights, columns, places, most)
        if tokens is not None:
            local = local.masked_fill(layout.unpack(tokens.rows)[:, None, :, None], 0)
            seen = q.new_zeros(layout.batch, len(heads), layout.length, most)
            for b, columns_of_text in enumerate(places):
                for slot, column in enumerate(columns_of_text):
                    seen[b, :, :, slot] = self.weights_of_column(x, layout, heads, column)[b, :, 0]
            tokens.weights[context.number or 0] = seen * scale
        context.weights = local * (real.expand(layout.batch, -1)[:, None, :, None] * scale)

    def banded(self, weights: Tensor, columns: range, places: list[list[int]], most: int) -> Tensor:
        """Weights of some queries, B H t S, as B H t G+W+1; those to global tokens are among the first G alone."""
        batch, _, _, length = weights.shape
        size = self.one_sided_attn_window_size
        offsets = torch.arange(-size, size + 1, device=weights.device) * self.dilation
        rows = torch.arange(columns.start, columns.stop, device=weights.device)
        where = rows[:, None] + offsets  # t W+1
        inside = ((where >= 0) & (where < length)).expand(batch, -1, -1).clone()
        is_global = torch.zeros(batch, length, dtype=torch.bool, device=weights.device)
        to_global = weights.new_zeros(*weights.shape[:3], most)
        for b, columns_of_text in enumerate(places):
            is_global[b, columns_of_text] = True
            to_global[b, ..., : len(columns_of_text)] = weights[b, ..., columns_of_text]
        where = where.clamp(0, length - 1)
        inside &= ~is_global[:, where]
        near = weights.gather(-1, where.expand(*weights.shape[:2], -1, -1)) * inside[:, None]
        return torch.cat((to_global, near), -1)
