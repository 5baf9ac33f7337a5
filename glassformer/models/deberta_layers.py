"""DeBERTa's layers: attention with scores from content to position and from position to content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ..nn.attention import ScoreBias, SelfAttention, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import in_chunks
from ..nn.layout import Layout
from ..nn.linear import Linear
from ..nn.position import scores_by_distance
from .base.body import LayerStack
from .bert_layers import BertIntermediate, BertOutput, BertSelfOutput

if TYPE_CHECKING:
    from .deberta import DebertaConfig


class RelativePositions(NamedTuple):
    """The vectors of the distances from -length to length."""

    vectors: Tensor  # R C: each is that of one distance or of several
    rows: Tensor  # 2 length + 1: which of them a distance has

    def scores(self, x: Tensor, projected: Tensor, descending: bool) -> Tensor:
        """Products of B H T D with the vectors (R H D, projected) of the distances between T positions: B H T T.

        Entry [i, j] has the distance j - i, or i - j if `descending`.
        """
        batch, _, length, _ = x.shape
        middle = self.rows.shape[0] // 2  # not `len`, which would fix the length in an exported model
        needed = self.rows[middle - length + 1 : middle + length + 1]  # from 1 - T to T
        if descending:
            needed = self.rows[middle - length : middle + length].flip(0)  # from T - 1 to -T
        vectors = projected[needed].permute(1, 2, 0)  # H D 2T
        flat = x.transpose(0, 1).flatten(1, 2) @ vectors  # H BT 2T: all sequences in one product
        return scores_by_distance(flat.unflatten(1, (batch, length)), length).transpose(0, 1)


def masks_positions(layout: Layout) -> bool:
    """Whether there are positions in the stream that no query sees."""
    return layout.mask is not None and layout.mask.shape[-2] == 1


def zero_masked(x: Tensor, layout: Layout) -> Tensor:
    """The rows (N C, or B T C) with zeros at positions that no query sees."""
    if not masks_positions(layout):
        return x
    seen = (layout.mask[:, 0, 0] == 0).expand(layout.batch, layout.length)  # B T
    return x * seen.reshape(*x.shape[:-1], 1)


class DebertaEncoder(LayerStack):
    """The stack of layers, and the vectors of distances that they share."""

    def __init__(self, config: DebertaConfig):
        super().__init__(self.make_layers(config))
        self.span = config.span
        self.relative_attention = config.relative_attention
        if config.relative_attention:
            self.rel_embeddings = nn.Embedding(2 * config.span, config.hidden_size)

    def make_layers(self, config: Any) -> list[nn.Module]:
        return [DebertaLayer(config) for _ in range(config.num_hidden_layers)]

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if masks_positions(context.layout):  # they are computed too: they begin at zero, and attend to all alike
            x = zero_masked(x, context.layout)
            context.bias = context.layout.mask.mT
        if self.relative_attention:
            context.extras = self.relative_positions(max(run.length for run in context.layout.runs))
        return super().forward(x, context)

    def relative_positions(self, length: int) -> RelativePositions:
        """The vectors of all distances between so many positions; only the part of the table that has them is read."""
        table = self.rel_embeddings.weight
        rows = (self.buckets(torch.arange(-length, length + 1)) + self.span).clamp(0, 2 * self.span - 1)
        first, last = 0, 2 * self.span - 1
        if not torch.compiler.is_exporting():  # which has no values to look at
            first, last = int(rows.min()), int(rows.max())
        return RelativePositions(self.normalise(table[first : last + 1]), (rows - first).to(table.device))

    def buckets(self, distances: Tensor) -> Tensor:
        """The distances that are told apart."""
        return distances

    def normalise(self, vectors: Tensor) -> Tensor:
        return vectors


class DebertaLayer(ContextModule):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: DebertaConfig):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = DebertaAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.feed_forward_chunk(x)

    def feed_forward_chunk(self, x: Tensor) -> Tensor:
        return self.output(self.intermediate(x), x)


class DebertaAttention(ContextModule):
    """Attention with its output projection; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: DebertaConfig):
        super().__init__()
        self.self = DisentangledSelfAttention(config)
        self.output = BertSelfOutput(config)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: Iterable[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(x, context), x)


class DisentangledSelfAttention(SelfAttention):
    """Scores are sums: content to content, content to position ("c2p"), position to content ("p2c")."""

    def __init__(self, config: DebertaConfig):
        super().__init__(config.hidden_size, config.num_attention_heads, config.attention_probs_dropout_prob)
        width = float(self.attention_head_size * config.score_terms)
        self.scale = 1 / torch.tensor(width, device="cpu").sqrt().item()  # the root in float32, in every type
        if not config.has_key_bias:
            self.key = Linear(config.hidden_size, config.hidden_size, bias=False)
        self.kinds = [kind for kind in ("c2p", "p2c") if kind in (config.pos_att_type or ())]
        self.position_dropout = Dropout(config.hidden_dropout_prob)
        self.shares_projections = config.share_att_key
        if config.relative_attention and not self.shares_projections:
            if "c2p" in self.kinds:
                self.position_key = Linear(config.hidden_size, config.hidden_size, bias=config.has_key_bias)
            if "p2c" in self.kinds:
                self.position_query = Linear(config.hidden_size, config.hidden_size)
            made = [name for name in ("position_key", "position_query") if hasattr(self, name)]
            self.projections = (*self.projections, *made)

    def score_bias(self, context: Context) -> ScoreBias | None:
        positions, layout = context.extras, context.layout
        kinds = self.kinds if positions is not None else []
        if not kinds and not masks_positions(layout):
            return None
        vectors = self.position_dropout(positions.vectors) if kinds else None
        if "c2p" in kinds:
            keys = self.split_heads((self.key if self.shares_projections else self.position_key)(vectors))  # R H D
        if "p2c" in kinds:
            queries = self.split_heads((self.query if self.shares_projections else self.position_query)(vectors))

        def position_scores(q: Tensor, k: Tensor) -> Tensor:
            terms = [positions.scores(q, keys, descending=True)] if "c2p" in kinds else []
            terms += [positions.scores(k, queries, descending=False).mT] if "p2c" in kinds else []
            scores = sum(terms) if terms else q.new_zeros(())
            if masks_positions(layout):  # the scores of a masked query are constant, also for gradients
                scores = torch.where(layout.mask.mT == 0, scores, -(q @ k.mT))
            return scores

        return position_scores
