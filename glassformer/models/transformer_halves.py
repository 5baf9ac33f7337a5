"""The encoder and the decoder of the 2017 Transformer: embeddings and a stack of layers each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..nn import bare
from ..nn.cache import Cache
from ..nn.dropout import Dropout
from ..nn.position import PositionalEncoding
from ..nn.layout import Layout
from .body import pack_ids
from .halves import Asked, DecoderHalf, EncoderHalf, Half
from .outputs import BodyOutput
from .transformer_layers import DecoderLayer, EncoderLayer, Seen

if TYPE_CHECKING:
    from .transformer import TransformerConfig


class TransformerEmbeddings(nn.Module):
    """Word vectors times sqrt(C), and positions."""

    def __init__(self, config: TransformerConfig, words: int):
        super().__init__()
        size, most = config.hidden_size, config.max_position_embeddings
        self.word_embeddings = nn.Embedding(words, size)
        self.pos_encoding: PositionalEncoding | None = None
        if config.position_embedding_type == "sinusoidal":
            self.pos_encoding = PositionalEncoding(size, most, config.hidden_dropout_prob)
        else:
            self.position_embeddings = nn.Embedding(most, size)
            self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor, position_ids: Tensor) -> Tensor:
        """N, N -> N C"""
        embedded = self.word_embeddings(input_ids) * math.sqrt(self.word_embeddings.embedding_dim)
        if self.pos_encoding is not None:
            return self.pos_encoding(embedded, position_ids)
        return self.dropout(embedded + self.position_embeddings(position_ids))


class Stack(Half):
    """Embeddings and layers: what the two halves share."""

    def __init__(self, config: TransformerConfig, words: int, layers: list[nn.Module]):
        super().__init__()
        self.embeddings = TransformerEmbeddings(config, words)
        self.layer = nn.ModuleList(layers)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps) if config.norm_first else None
        self.max_position_embeddings = config.max_position_embeddings
        self.gradient_checkpointing = False

    @property
    def layer_count(self) -> int:
        return len(self.layer)

    def enter(self, input_ids: Tensor, layout: Layout, positions: Tensor) -> Tensor:
        """The vectors of real tokens: B T -> N C"""
        ids = layout.pack(input_ids)
        self.check_words(ids, layout)
        self.refuse_beyond(int(positions.max()) + 1)
        return self.embeddings(ids, positions)

    def through_layers(self, x: Tensor, each: Callable[[int], dict[str, Any]], *given: Tensor) -> Iterator[Tensor]:
        """What enters the first layer, and what leaves each of them; `each` tells what else a layer is given."""
        yield x
        for i, layer in enumerate(self.layer):
            if self.gradient_checkpointing and self.training:
                x = checkpoint(layer, x, *given, **each(i), use_reentrant=False)
            else:
                x = layer(x, *given, **each(i))
            if i == len(self.layer) - 1 and self.LayerNorm is not None:
                x = self.LayerNorm(x)
            yield x

    def head_masks(self, head_mask: Tensor | None) -> Tensor | None:
        """H, or layers H -> layers 1 H 1 1"""
        if head_mask is None:
            return None
        wide = head_mask.expand(len(self.layer), -1) if head_mask.dim() == 1 else head_mask
        heads = {layer.attention.self.num_attention_heads for layer in self.layer}
        if wide.dim() != 2 or wide.shape[0] != len(self.layer) or {wide.shape[1]} != heads:
            raise InputError(f"head_mask must have the shape heads or layers x heads, got {list(head_mask.shape)}")
        return wide[:, None, :, None, None].to(self.dtype)


def layer_options(config: TransformerConfig) -> dict[str, Any]:
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


class TransformerEncoder(Stack, EncoderHalf):
    """Reads the source; every word sees every other."""

    def __init__(self, config: TransformerConfig):
        layers = [EncoderLayer(**layer_options(config)) for _ in range(config.num_hidden_layers)]
        super().__init__(config, config.source_words, layers)

    def read(self, input_ids: Tensor, layout: Layout, asked: Asked) -> BodyOutput:
        masks, seen = self.head_masks(asked.head_mask), Seen() if asked.output_attentions else None
        x = self.enter(input_ids, layout, layout.columns(input_ids.device))

        def each(i: int) -> dict[str, Any]:
            return {"layout": layout, "head_mask": None if masks is None else masks[i], "seen": seen}

        states = list(self.through_layers(x, each))
        return finished(states, layout, asked.output_hidden_states, seen)


class TransformerDecoder(Stack, DecoderHalf):
    """Writes the target; every word sees those before it, and the whole source."""

    def __init__(self, config: TransformerConfig):
        layers = [DecoderLayer(**layer_options(config)) for _ in range(config.decoder_layers)]
        super().__init__(config, config.vocab_size, layers)

    def write(self, input_ids: Tensor, layout: Layout, memory: BodyOutput, asked: Asked) -> BodyOutput:
        cache = asked.past_key_values
        positions = layout.columns(input_ids.device) + (0 if cache is None else cache.length)
        if asked.position_ids is not None:
            positions = pack_ids(asked.position_ids, layout, "position_ids")
        if cache is not None:
            layout = replace(layout, distance=cache.distances(layout.unpack(positions)))
        own, crossed = self.head_masks(asked.head_mask), self.head_masks(asked.cross_head_mask)
        seen = Seen() if asked.output_attentions else None

        def each(i: int) -> dict[str, Any]:
            return {
                "layout": layout,
                "source": memory.layout,
                "past": None if cache is None else cache[i],
                "head_mask": None if own is None else own[i],
                "cross_head_mask": None if crossed is None else crossed[i],
                "seen": seen,
            }

        states = list(self.through_layers(self.enter(input_ids, layout, positions), each, memory.rows))
        if cache is not None:
            cache.length += input_ids.shape[1]
        return replace(finished(states, layout, asked.output_hidden_states, seen), past_key_values=cache)

    def bare_step(self, copies: bare.Copies) -> Callable[..., Tensor] | None:
        """`run` for one token of every continuation (ids and positions B T), behind a cache, without its modules."""
        if self.training or bare.is_watched(self):
            return None
        layers = [layer.bare(copies) for layer in self.layer]
        finish = (lambda x: x) if self.LayerNorm is None else bare.norm(self.LayerNorm)

        def step(ids: Tensor, positions: Tensor, cache: Cache, mask: Tensor | None, source: Tensor | None) -> Tensor:
            batch, length = ids.shape
            cache.distances(positions)
            x = self.embeddings(ids.reshape(-1), positions.reshape(-1))  # N C
            for layer, kept in zip(layers, cache.layers, strict=True):
                x = layer(x, kept, mask, source, batch)
            cache.length += length
            return finish(x)

        return step


def finished(states: list[Tensor], layout: Layout, wants_states: bool, seen: Seen | None) -> BodyOutput:
    """What a half gives, from what went through its layers."""
    return BodyOutput(
        rows=states[-1],
        layout=layout,
        hidden_states=tuple(layout.unpack(state) for state in states) if wants_states else None,
        attentions=None if seen is None else tuple(seen.attentions),
        cross_attentions=tuple(seen.cross_attentions) or None if seen is not None else None,
    )
