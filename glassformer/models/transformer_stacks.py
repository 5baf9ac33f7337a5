"""The encoder and the decoder of the 2017 Transformer: embeddings and a stack of layers each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import Tensor, nn

from ..nn.dropout import Dropout
from ..nn.position import PositionalEncoding
from .base.body import LayerStack
from .base.embeddings import Embeddings
from .base.encoder_decoder import Decoder, Encoder
from .transformer_layers import DecoderLayer, EncoderLayer

if TYPE_CHECKING:
    from .transformer import TransformerConfig
    from .transformer_lm import TransformerLMConfig

    TransformerShape: TypeAlias = TransformerConfig | TransformerLMConfig


class TransformerEmbeddings(Embeddings):
    """Word vectors times sqrt(C), and positions."""

    def __init__(self, config: TransformerShape, words: int):
        super().__init__()
        size, most = config.hidden_size, config.max_position_embeddings
        self.word_embeddings = nn.Embedding(words, size)
        self.pos_encoding: PositionalEncoding | None = None
        if config.position_embedding_type == "sinusoidal":
            self.pos_encoding = PositionalEncoding(size, most, config.hidden_dropout_prob)
        else:
            self.position_embeddings = nn.Embedding(most, size)
            self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """N, N -> N C"""
        words = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        embedded = words * math.sqrt(self.word_embeddings.embedding_dim)
        if self.pos_encoding is not None:
            return self.pos_encoding(embedded, position_ids)
        return self.dropout(embedded + self.position_embeddings(position_ids))

    @property
    def position_count(self) -> int:
        return super().position_count if self.pos_encoding is None else self.pos_encoding.pe.shape[1]


class TransformerLayers(LayerStack):
    """Layers, and a normalisation after the last one if each normalises first."""

    def __init__(self, config: TransformerShape, layers: list[nn.Module], embeddings: nn.Module | None = None):
        super().__init__(layers, embeddings)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if config.norm_first else None

    def finish(self, x: Tensor) -> Tensor:
        return x if self.LayerNorm is None else self.LayerNorm(x)


class EncoderLayers(TransformerLayers):
    """The layers of the encoder, without its embeddings."""

    def __init__(self, config: TransformerShape):
        super().__init__(config, [EncoderLayer(**layer_options(config)) for _ in range(config.num_hidden_layers)])


class TransformerStack(TransformerLayers):
    """Embeddings and layers: what encoder and decoder share."""

    def __init__(self, config: TransformerConfig, words: int, layers: list[nn.Module]):
        super().__init__(config, layers, TransformerEmbeddings(config, words))
        self.config = config

    @property
    def stack(self) -> LayerStack:
        return self


def layer_options(config: TransformerShape) -> dict[str, Any]:
    return {
        "d_model": config.hidden_size,
        "num_heads": config.num_attention_heads,
        "d_ff": config.intermediate_size,
        "dropout": config.hidden_dropout_prob,
        "attention_dropout": config.attention_probs_dropout_prob,
        "norm_first": config.norm_first,
        "activation": config.hidden_act,
        "eps": config.layer_norm_eps,
    }


class TransformerEncoder(TransformerStack, Encoder):
    """Encodes the source; every word attends to every other."""

    def __init__(self, config: TransformerConfig):
        layers = [EncoderLayer(**layer_options(config)) for _ in range(config.num_hidden_layers)]
        super().__init__(config, config.source_words, layers)


class TransformerDecoder(TransformerStack, Decoder):
    """Decodes the target; every word attends to those before it, and to the source."""

    def __init__(self, config: TransformerConfig):
        layers = [DecoderLayer(**layer_options(config)) for _ in range(config.decoder_layers)]
        super().__init__(config, config.vocab_size, layers)
