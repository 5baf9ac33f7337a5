"""XLNet's layers: attention to relative positions and segments, for content and for what is to be predicted.

Both streams of a pass stand in one tensor, first the content (N rows), then the predictions (P of each sequence): all
that is position-wise runs on both at once. Only content has keys and values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..nn.attention import AttentionInputs, ScoreBias, SelfAttention, attend, heads_to_keep, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import AddNorm, Intermediate, in_chunks
from ..nn.layout import Layout
from ..nn.linear import Linear
from ..nn.position import scores_by_distance
from ..nn.scoped_hooks import observe_attention, open_scopes
from .base.body import LayerStack

if TYPE_CHECKING:
    from .xlnet import XLNetConfig


@dataclass
class Streams:
    """What the layers of a pass share, beside the layout of the content."""

    positions: Tensor  # R C: the vectors of the distances from `farthest` down to farthest - R + 1
    farthest: int
    segments: Tensor | None = None  # N K: which of the segments of the batch a token is in, one-hot
    past_segments: Tensor | None = None  # K: the segment of what is remembered
    targets: Tensor | None = None  # B P T: which tokens the predictions are for
    target_layout: Layout | None = None  # of queries at the tokens: its mask hides the token itself too

    def scores(self, x: Tensor, projected: Tensor, keys: int) -> Tensor:
        """Products of B H T D with the vectors of distances (R H D, projected) from queries to keys: B H T S."""
        batch, _, queries, _ = x.shape
        first = self.farthest - (keys - 1)
        vectors = projected[first : first + queries + keys].permute(1, 2, 0)  # H D T+S
        flat = x.transpose(0, 1).flatten(1, 2) @ vectors  # H BT T+S: all sequences in one product
        return scores_by_distance(flat.unflatten(1, (batch, queries)), keys).transpose(0, 1)


class XLNetEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: XLNetConfig):
        super().__init__([XLNetLayer(config) for _ in range(config.num_hidden_layers)])
        self.clamp_len = config.clamp_len
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if context.extras is None:  # a direct call
            context.extras = self.make_streams(max(run.length for run in context.layout.runs), x)
        return super().forward(x, context)

    def make_streams(self, length: int, like: Tensor, past: int = 0) -> Streams:
        """Positions for sequences of so many tokens behind a past."""
        farthest = past + length - 1
        distances = torch.arange(farthest, -length - 1, -1, device=like.device).float()
        if self.clamp_len > 0:
            distances = distances.clamp(-self.clamp_len, self.clamp_len)
        size = like.shape[-1]
        frequencies = 1 / torch.pow(10000, torch.arange(0, size, 2, device=like.device).float() / size)
        angles = distances[:, None] * frequencies  # float32, whatever the weights are
        return Streams(self.dropout(torch.cat((angles.sin(), angles.cos()), -1).to(like.dtype)), farthest)

    def finish(self, x: Tensor) -> Tensor:
        return self.dropout(x)


class XLNetLayer(ContextModule):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = XLNetAttention(config)
        self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.dropout = Dropout(config.hidden_dropout_prob)
        sizes = config.intermediate_size, config.hidden_size
        self.output = AddNorm(*sizes, config.layer_norm_eps, config.hidden_dropout_prob)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.feed_forward_chunk(x)

    def feed_forward_chunk(self, x: Tensor) -> Tensor:
        return self.output(self.dropout(self.intermediate(x)), x)


class XLNetAttention(ContextModule):
    """Attention with its output projection; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: XLNetConfig):
        super().__init__()
        self.self = XLNetSelfAttention(config)
        self.output = XLNetSelfOutput(
            config.hidden_size, config.hidden_size, config.layer_norm_eps, config.hidden_dropout_prob
        )
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: Iterable[int]) -> None:
        keep, inner = heads_to_keep(self, set(heads)), self.self
        prune_attention(self, set(heads))
        for name in ("content_bias", "position_bias", "segment_bias", "segment_vectors"):
            old = getattr(inner, name)
            setattr(inner, name, nn.Parameter(old.data[..., keep, :].clone(), requires_grad=old.requires_grad))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(x, context), x)


class XLNetSelfOutput(AddNorm):
    """The projection has no bias."""

    def __init__(self, in_size: int, hidden_size: int, eps: float, dropout: float):
        super().__init__(in_size, hidden_size, eps, dropout)
        self.dense = Linear(in_size, hidden_size, bias=False)


class XLNetSelfAttention(SelfAttention):
    """Scores are sums: query and key, query and distance, query and whether both tokens are in one segment.

    The query has another bias in each term.
    """

    projections = (*SelfAttention.projections, "position_key")

    def __init__(self, config: XLNetConfig):
        size, heads = config.hidden_size, config.num_attention_heads
        super().__init__(size, heads, config.hidden_dropout_prob)
        for name in self.projections:
            setattr(self, name, Linear(size, size, bias=False))
        shape = heads, self.attention_head_size
        self.content_bias = nn.Parameter(torch.zeros(shape))  # H D
        self.position_bias = nn.Parameter(torch.zeros(shape))
        self.segment_bias = nn.Parameter(torch.zeros(shape))
        self.segment_vectors = nn.Parameter(torch.zeros(2, *shape))  # the same segment, another one
        self.scale = self.attention_head_size**-0.5

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """N + BP C -> N + BP C (or B T C when called directly)."""
        layout, streams = context.layout, context.extras
        content = x.reshape(-1, x.shape[-1])[: layout.rows]
        if self.fused is not None:
            shape = (-1, 3, self.num_attention_heads, self.attention_head_size)
            q, k, v = self.fused(content).reshape(shape).unbind(1)  # N H D
        else:
            q, k, v = (self.split_heads(part(content)) for part in (self.query, self.key, self.value))
        if context.cache is not None:
            k = torch.cat((context.cache[0], layout.heads(k)), 2)  # B H S D
            v = torch.cat((context.cache[1], layout.heads(v)), 2)
        score_bias = self.score_bias(context)
        k = self.with_segments(k, streams)
        y, weights = self.read(q, k, v, layout, streams, score_bias, context)
        y = y.flatten(1)
        if streams is not None and streams.targets is not None:
            predicted, target_weights = self.predict(x[layout.rows :], k, v, streams, score_bias, context)
            y, weights = torch.cat((y, predicted)), (weights, target_weights)
        context.weights = weights if context.output_attentions else None
        return y.reshape(*x.shape[:-1], self.all_head_size)

    def read(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        layout: Layout,
        streams: Streams | None,
        score_bias: ScoreBias | None,
        context: Context,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from queries at the tokens of a layout to all content: N H D."""
        q = self.with_segment_scores(q, streams)
        if open_scopes.get():
            observed = AttentionInputs(q, k, v, layout, layout, self.scale, None, score_bias, context.head_mask)
            observe_attention(self, observed)
        return attend(
            q,
            k,
            v,
            layout,
            scale=self.scale,
            score_bias=score_bias,
            head_mask=context.head_mask,
            dropout=self.dropout.p if self.training else 0.0,
            want_weights=context.output_attentions,
        )

    def predict(
        self, x: Tensor, k: Tensor, v: Tensor, streams: Streams, score_bias: ScoreBias | None, context: Context
    ) -> tuple[Tensor, Tensor | None]:
        """The stream of predictions, BP C: its queries stand at the tokens that `targets` names."""
        targets, layout = streams.targets, streams.target_layout
        queries = targets.mT @ self.query(x).unflatten(0, (layout.batch, -1))  # B T C
        q = self.split_heads(queries)  # BT H D
        if k.dim() == 3:
            k, v = context.layout.heads(k), context.layout.heads(v)
        y, weights = self.read(q, k, v, layout, streams, score_bias, context)
        return (targets @ y.flatten(1).unflatten(0, (layout.batch, -1))).flatten(0, 1), weights

    def score_bias(self, context: Context) -> ScoreBias:
        streams: Streams | None = context.extras
        size = self.attention_head_size
        vectors = None if streams is None else self.split_heads(self.position_key(streams.positions))  # R H D

        def bias_and_position_scores(q: Tensor, k: Tensor) -> Tensor:
            scores = (k[..., :size] @ self.content_bias[..., None]).mT  # B H 1 S
            if vectors is None:
                return scores
            return scores + streams.scores(q[..., :size] + self.position_bias[:, None], vectors, k.shape[-2])

        return bias_and_position_scores

    def with_segments(self, k: Tensor, streams: Streams | None) -> Tensor:
        """Keys (M H D, or B H S D) with the one-hot segments of their tokens as further columns."""
        if streams is None or streams.segments is None:
            return k
        segments = streams.segments  # N K
        if k.dim() == 3:
            return torch.cat((k, segments[:, None].expand(-1, k.shape[1], -1)), -1)
        batch, heads, keys, _ = k.shape
        segments = segments.unflatten(0, (batch, -1))  # B T K
        past = streams.past_segments.expand(batch, keys - segments.shape[1], -1)
        return torch.cat((k, torch.cat((past, segments), 1)[:, None].expand(-1, heads, -1, -1)), -1)

    def with_segment_scores(self, q: Tensor, streams: Streams | None) -> Tensor:
        """Queries (N H D) with what it adds to a score that a key is in the same segment, as further columns.

        What it adds that a key is in another one is left out: it is added for all keys alike.
        """
        if streams is None or streams.segments is None:
            return q
        same = ((q + self.segment_bias) * (self.segment_vectors[0] - self.segment_vectors[1])).sum(-1)  # N H
        return torch.cat((q, same[..., None] * streams.segments[:, None]), -1)
