"""Transformer-XL's layers: attention by content and by distance, to the text and to what is remembered before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.attention import AttentionInputs, SelfAttention, attend, heads_to_keep, prune_attention, run_heads
from ..nn.cache import AttentionCache, Cache
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import AddNorm, Intermediate, in_chunks
from ..nn.layout import Layout, Run
from ..nn.linear import Linear
from ..nn.position import scores_by_distance
from ..nn.scoped_hooks import observe_attention, open_scopes
from .base.body import LayerStack

if TYPE_CHECKING:
    from .transfo_xl import TransfoXLConfig

QUERIES = 512  # of a long text that attend at once: none needs scores for all pairs of tokens
KeysAndValues = tuple[Tensor, Tensor]


@dataclass
class Memory:
    """What the layers of a pass share beside the layout of its tokens.

    Every text begins behind the rows of `mems`, or behind `size` rows of zeros where nothing has been read yet.
    """

    size: int  # how many rows are remembered
    mems: Sequence[Tensor] | None = None  # of each layer, S B C
    window: int | None = None  # how many keys a query sees, itself included; None: all before it
    before: list[KeysAndValues] = field(default_factory=list)  # of each layer, of what is remembered: B H S D
    vectors: Tensor | None = None  # R C: of the distances from `farthest` down to -1, which fills up and is not read
    farthest: int = 0
    step: Step | None = None  # of the decode steps of generation
    keeps: bool = True  # whether the pass returns what it remembers
    wants_states: bool = False  # whether the caller wants hidden states too

    @property
    def length(self) -> int:
        """How many rows are before the text."""
        return self.size if self.mems is None else len(self.mems[0])


@dataclass
class Step:
    """A decode step: tokens behind a cache, at places of their own."""

    blanks: int  # remembered rows without content that are still in sight
    first: int  # column of the cache from which on tokens are in sight
    distances: Tensor  # B 1 T S, from 0 to the farthest in sight
    mask: Tensor  # B 1 T S, additive


class TransfoXLEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: TransfoXLConfig):
        super().__init__([TransfoXLLayer(config) for _ in range(config.num_hidden_layers)])
        self.clamp_len, self.mem_len, self.same_length = config.clamp_len, config.mem_len, config.same_length
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if context.extras is None:  # a direct call, or a decode step
            context.extras = Memory(self.mem_len if isinstance(context.cache, Cache) else 0)
        memory: Memory = context.extras
        memory.window = memory.size if self.same_length and memory.size else None
        cache = context.cache
        if isinstance(cache, Cache) and cache.length:
            memory.step, memory.farthest = self.decode_step(context, cache, memory)
        else:
            memory.farthest = memory.length + max(run.length for run in context.layout.runs) - 1
        if memory.step is None or cache[0].self_attention.position_keys is None:
            memory.vectors = self.dropout(self.vectors(memory.farthest, x))
        memory.before = [self.remembered(memory, i, x, context.layout.batch) for i in range(len(self.layer))]
        return super().forward(x, context)

    def remembered(self, memory: Memory, number: int, x: Tensor, batch: int) -> KeysAndValues:
        """Keys and values of what one layer remembers; rows without content all have the same."""
        attention = self.layer[number].attention
        if memory.mems is not None:
            return attention.keys_and_values(memory.mems[number].transpose(0, 1).to(x.dtype))
        blanks = memory.length if memory.step is None else memory.step.blanks
        keys, values = attention.keys_and_values(x.new_zeros(1, 1, x.shape[-1]))
        shape = batch, keys.shape[1], blanks, keys.shape[3]
        return keys.expand(shape), values.expand(shape)

    def decode_step(self, context: Context, cache: Cache, memory: Memory) -> tuple[Step, int]:
        """What the new tokens see: the last tokens, and blanks where there are not enough of them."""
        layout = context.layout
        assert layout.distance is not None
        farthest = None if not memory.size else memory.size - (memory.window is not None)
        end, dtype = cache.length + layout.length, next(self.parameters()).dtype
        places = cache.positions[:, end - layout.length : end]  # type: ignore[index]
        distances = layout.distance  # B T S
        visible = torch.ones_like(distances, dtype=torch.bool) if layout.mask is None else (layout.mask[:, 0] == 0)
        visible = visible.expand_as(distances) & (distances >= 0)
        first = blanks = 0
        if farthest is not None:
            visible = visible & (distances <= farthest)
            first = int(visible.any(0).any(0).int().argmax())
            blanks = max(0, farthest - int(places.min()))
            behind = places[..., None] + torch.arange(blanks, 0, -1, device=places.device)  # B T blanks
            distances = torch.cat((behind, distances[..., first:]), -1)
            visible = torch.cat((behind <= farthest, visible[..., first:]), -1)
        reach = cache.capacity if farthest is None else farthest
        mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
        mask = mask.masked_fill_(~visible, torch.finfo(dtype).min)
        return Step(blanks, first, distances.clamp(0, reach)[:, None], mask[:, None]), reach

    def vectors(self, farthest: int, like: Tensor) -> Tensor:
        """The sinusoidal vectors of the distances from the farthest down to -1: R C."""
        exact = torch.promote_types(like.dtype, torch.float32)  # half precision cannot count
        distances = torch.arange(farthest, -2, -1, device=like.device).to(exact)
        if self.clamp_len > 0:
            distances = distances.clamp(max=self.clamp_len)
        size = like.shape[-1]
        powers = torch.arange(0, size, 2, device=like.device).float() / size
        angles = distances[:, None] * (1 / 10000**powers).to(exact)
        return torch.cat((angles.sin(), angles.cos()), -1).to(like.dtype)

    def finish(self, x: Tensor) -> Tensor:
        return self.dropout(x)


class TransfoXLLayer(ContextModule):
    """Attention, then feed-forward; each normalises after its residual sum, or before it reads (`pre_lnorm`)."""

    def __init__(self, config: TransfoXLConfig):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.pre_lnorm = config.pre_lnorm
        self.attention = TransfoXLAttention(config)
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, "relu")
        self.dropout = Dropout(config.hidden_dropout_prob)
        sizes = config.intermediate_size, config.hidden_size
        self.output = AddNorm(*sizes, config.layer_norm_eps, config.hidden_dropout_prob)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.feed_forward_chunk(x)

    def feed_forward_chunk(self, x: Tensor) -> Tensor:
        output = self.output
        if self.pre_lnorm:
            widened = self.dropout(self.intermediate(output.LayerNorm(x)))
            return x + output.dropout(output.dense(widened))
        return output(self.dropout(self.intermediate(x)), x)


class TransfoXLAttention(ContextModule):
    """Attention with its output projection; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: TransfoXLConfig):
        super().__init__()
        self.pre_lnorm = config.pre_lnorm
        self.self = TransfoXLSelfAttention(config)
        sizes = self.self.all_head_size, config.hidden_size
        self.output = AddNorm(*sizes, config.layer_norm_eps, config.hidden_dropout_prob)
        self.output.dense = Linear(*sizes, bias=False)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: Iterable[int]) -> None:
        keep, inner = heads_to_keep(self, set(heads)), self.self
        prune_attention(self, set(heads))
        for name in ("content_bias", "position_bias"):
            old = getattr(inner, name)
            setattr(inner, name, nn.Parameter(old.data[keep].clone(), requires_grad=old.requires_grad))

    def keys_and_values(self, rows: Tensor) -> KeysAndValues:
        """B S C -> each B H S D"""
        inner = self.self
        rows = self.output.LayerNorm(rows) if self.pre_lnorm else rows
        return inner.transpose_for_scores(inner.key(rows)), inner.transpose_for_scores(inner.value(rows))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        output = self.output
        if self.pre_lnorm:
            read = self.self(output.LayerNorm(x), context)
            return x + output.dropout(output.dense(read))
        return output(self.self(x, context), x)


class TransfoXLSelfAttention(SelfAttention):
    """Scores are sums of two terms, query and key, query and distance; the query has another bias in each."""

    projections = (*SelfAttention.projections, "position_key")

    def __init__(self, config: TransfoXLConfig):
        size, heads = config.hidden_size, config.num_attention_heads
        dropout = config.attention_probs_dropout_prob
        super().__init__(size, heads, dropout, head_width=config.d_head, bias=False)
        self.position_key = Linear(size, self.all_head_size, bias=False)
        shape = heads, self.attention_head_size
        self.content_bias = nn.Parameter(torch.zeros(shape))  # H D
        self.position_bias = nn.Parameter(torch.zeros(shape))
        self.scale = self.attention_head_size**-0.5

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """N C -> N C (or B T C when called directly)."""
        layout, memory, cache = context.layout, context.extras, context.cache
        if self.fused is not None:
            shape = (-1, 3, self.num_attention_heads, self.attention_head_size)
            q, k, v = self.fused(x).reshape(shape).unbind(1)  # N H D
        else:
            q, k, v = (self.split_heads(part(x)) for part in (self.query, self.key, self.value))
        if context.use_cache or not isinstance(cache, AttentionCache | None):
            raise InputError("a Transformer-XL remembers hidden states, not keys and values: give mems")
        past = None if cache is None else cache.add(layout.heads(k), layout.heads(v))
        if past is not None and memory is not None and memory.step is not None:
            y, context.weights = self.read_step(q, *past, memory, context)
        else:
            y, context.weights = self.read(q, k, v, memory, context, context.output_attentions)
        if open_scopes.get():

            def weights() -> Tensor:
                whole = self.read(q, k, v, memory, context, True)[1]
                return whole[..., -layout.length :]  # type: ignore[index]

            parts = q, k, v, layout, layout, self.scale, None, None, context.head_mask
            observe_attention(self, AttentionInputs(*parts, all_weights=weights))
        return y.reshape(*x.shape[:-1], self.all_head_size)

    def read(
        self, q: Tensor, k: Tensor, v: Tensor, memory: Memory | None, context: Context, want_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from every token to those before it in its text, and to what is remembered: N H D.

        A long text is read in blocks of queries, so that no tensor is as large as all pairs of its tokens.
        """
        layout, mask = context.layout, context.head_mask
        before = None if memory is None or context.number is None else memory.before[context.number]
        remembered = 0 if before is None else before[0].shape[2]
        vectors = None if memory is None else self.split_heads(self.position_key(memory.vectors))  # R H D
        whole = want_weights or (mask is not None and max(mask.shape[-2:]) > 1)
        outputs, weights_of_runs = [], []
        for run in layout.runs:
            queries, *keys_and_values = (run_heads(each, run) for each in (q, k, v))  # each B H T D
            if before is not None and remembered:
                same = memory.mems is None or run.count == layout.batch  # type: ignore[union-attr]
                chosen = slice(run.count) if same else list(run.members)
                keys_and_values = [
                    torch.cat((past[chosen], own), 2) for past, own in zip(before, keys_and_values, strict=True)
                ]
            keys, values = keys_and_values
            parts = []
            window = None if memory is None else memory.window
            for first, last, nearest in query_blocks(run.length, remembered, window, whole):
                seen = slice(nearest, remembered + last)
                block = queries[:, :, first:last]
                bias = self.distance_scores(block, seen, memory, vectors)
                if layout.mask is not None:
                    padded = nn.functional.pad(layout.mask, (remembered, 0))[..., seen]
                    padded = padded[..., first:last, :] if padded.shape[-2] > 1 else padded
                    bias = (bias + padded).clamp(min=torch.finfo(bias.dtype).min)
                rows = (block + self.content_bias[:, None]).transpose(1, 2).flatten(0, 1)
                y, weights = attend(
                    rows,
                    keys[:, :, seen],
                    values[:, :, seen],
                    Layout.full(run.count, last - first),
                    bias=bias,
                    scale=self.scale,
                    head_mask=mask,
                    dropout=self.dropout.p if self.training else 0.0,
                    want_weights=want_weights,
                )
                parts.append(y.unflatten(0, (run.count, -1)))
            outputs.append((parts[0] if len(parts) == 1 else torch.cat(parts, 1)).flatten(0, 1))
            weights_of_runs.append((run, weights))
        y = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return y, unpack_weights(weights_of_runs, layout, remembered) if want_weights else None

    def distance_scores(self, q: Tensor, seen: slice, memory: Memory | None, vectors: Tensor | None) -> Tensor:
        """What is added to the scaled scores of queries (B H T D), which are the last of the keys that they see."""
        batch, _, queries, _ = q.shape
        keys = seen.stop - seen.start
        columns = torch.arange(keys, device=q.device)
        distances = columns[keys - queries :, None] - columns  # T S
        hidden = distances < 0
        if memory is not None and memory.window is not None:
            hidden = hidden | (distances >= memory.window)
        if memory is None or vectors is None:  # a direct call without distances
            return torch.zeros((), dtype=q.dtype, device=q.device).expand_as(hidden).masked_fill(hidden, lowest(q))
        first = memory.farthest - (keys - 1)
        columns_of = vectors[first : first + keys + 1].permute(1, 2, 0)  # H D S+1
        scaled = (q + self.position_bias[:, None]) * self.scale
        flat = scaled.transpose(0, 1).flatten(1, 2) @ columns_of  # H BT S+1
        scores = scores_by_distance(flat.unflatten(1, (batch, queries)), keys).transpose(0, 1)  # B H T S
        return scores.masked_fill(hidden, lowest(q))

    def read_step(
        self, q: Tensor, keys: Tensor, values: Tensor, memory: Memory, context: Context
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from the new tokens to those of a cache, B H S D."""
        layout, step = context.layout, memory.step
        assert step is not None and isinstance(context.cache, AttentionCache) and context.number is not None
        blank_keys, blank_values = memory.before[context.number]
        keys = torch.cat((blank_keys, keys[:, :, step.first :]), 2)
        values = torch.cat((blank_values, values[:, :, step.first :]), 2)
        if context.cache.position_keys is None:  # projected once for all steps
            context.cache.position_keys = self.split_heads(self.position_key(memory.vectors)).flip(0)[1:]  # R H D
        heads = layout.heads((q + self.position_bias) * self.scale)  # B H T D
        by_distance = heads @ context.cache.position_keys.permute(1, 2, 0)  # B H T R
        scores = by_distance.gather(-1, step.distances.expand(-1, heads.shape[1], -1, -1))
        bias = (scores + step.mask).clamp(min=lowest(q))
        return attend(
            q + self.content_bias,
            keys,
            values,
            Layout.full(layout.batch, layout.length),
            bias=bias,
            scale=self.scale,
            head_mask=context.head_mask,
            want_weights=context.output_attentions,
        )


def lowest(like: Tensor) -> float:
    return torch.finfo(like.dtype).min


def query_blocks(length: int, remembered: int, window: int | None, whole: bool) -> Iterator[tuple[int, int, int]]:
    """Blocks of queries, each with the first key that one of them sees.

    >>> list(query_blocks(1200, remembered=100, window=300, whole=False))
    [(0, 512, 0), (512, 1024, 313), (1024, 1200, 825)]
    """
    size = length if whole or length < 2 * QUERIES else QUERIES
    for first in range(0, length, size):
        nearest = 0 if window is None or whole else max(0, remembered + first - window + 1)
        yield first, min(first + size, length), nearest


def unpack_weights(weights_of_runs: list[tuple[Run, Tensor]], layout: Layout, remembered: int) -> Tensor:
    """The weights of all runs as B H T S, what is remembered first."""
    first = weights_of_runs[0][1]
    if layout.index is None:
        return first
    unpacked = first.new_zeros(layout.batch, first.shape[1], layout.length, remembered + layout.length)
    for run, weights in weights_of_runs:
        rows, members = slice(run.column, run.column + run.length), list(run.members)
        unpacked[members, :, rows, :remembered] = weights[..., :remembered]
        columns = slice(remembered + run.column, remembered + run.column + run.length)
        unpacked[members, :, rows, columns] = weights[..., remembered:]
    return unpacked
