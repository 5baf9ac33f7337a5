"""BERT's layers: a stack of them, and what one is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ..errors import ConfigError
from ..nn.attention import SelfAttention, head_size, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.feedforward import AddNorm, Intermediate, in_chunks
from ..nn.random_features import RandomFeatures
from .base.body import LayerStack
from .base.linear_attention import make_feature_redraw, make_features

if TYPE_CHECKING:
    from .bert import BertConfig


class BertEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: BertConfig):
        super().__init__([BertLayer(config) for _ in range(config.num_hidden_layers)])
        self.feature_redraw = make_feature_redraw(config)


class BertLayer(ContextModule):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.seq_len_dim = 1  # for `apply_chunking_to_forward` on B T C
        self.is_decoder, self.add_cross_attention = config.is_decoder, config.add_cross_attention
        size = head_size(config.hidden_size, config.num_attention_heads)
        self.attention = BertAttention(config, features=make_features(config, size))
        if config.add_cross_attention:
            if not config.is_decoder:
                raise ConfigError("add_cross_attention=True is for decoders: set is_decoder=True too")
            self.crossattention = BertAttention(config, position_embedding_type="absolute")
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if context.cross is not None:
            x = self.crossattention(x, context.cross)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return self.output(self.intermediate(x), x)

    def feed_forward_chunk(self, attention_output: Tensor) -> Tensor:
        return self.output(self.intermediate(attention_output), attention_output)


class BertAttention(ContextModule):
    """Attention with its output projection; heads can be cut out of it."""

    is_attention = True

    def __init__(
        self,
        config: BertConfig,
        position_embedding_type: str | None = None,
        features: RandomFeatures | None = None,
    ):
        super().__init__()
        self.self = BertSelfAttention(config, position_embedding_type, features)
        self.output = BertSelfOutput(config)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(x, context), x)


class BertSelfAttention(SelfAttention):
    def __init__(
        self,
        config: BertConfig,
        position_embedding_type: str | None = None,
        features: RandomFeatures | None = None,
    ):
        super().__init__(
            config.hidden_size,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            position_embedding_type or config.position_embedding_type,
            config.max_position_embeddings,
            features=features,
        )
        self.is_decoder = config.is_decoder


class BertSelfOutput(AddNorm):
    def __init__(self, config: BertConfig):
        super().__init__(config.hidden_size, config.hidden_size, config.layer_norm_eps, config.hidden_dropout_prob)


class BertIntermediate(Intermediate):
    def __init__(self, config: BertConfig):
        super().__init__(config.hidden_size, config.intermediate_size, config.hidden_act)


class BertOutput(AddNorm):
    def __init__(self, config: BertConfig):
        super().__init__(
            config.intermediate_size, config.hidden_size, config.layer_norm_eps, config.hidden_dropout_prob
        )
