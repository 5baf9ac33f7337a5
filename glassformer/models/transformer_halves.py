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
from ..nn.mask import arrange, check_ids, check_tensor
from ..nn.position import PositionalEncoding
from ..nn.stream import Layout
from .body import pack_ids
from .outputs import BodyOutput
from .seq2seq import Half
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
            self.dropout = nn.Dropout(config.hidden_dropout_prob)

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
        check_ids(ids, self.embeddings.word_embeddings.num_embeddings, "input_ids: id", layout)
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


class TransformerEncoder(Stack):
    """Reads the source; every word sees every other."""

    def __init__(self, config: TransformerConfig):
        layers = [EncoderLayer(**layer_options(config)) for _ in range(config.num_hidden_layers)]
        super().__init__(config, config.source_words, layers)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        layout = self.arranged(input_ids, attention_mask)
        masks, seen = self.head_masks(head_mask), Seen() if output_attentions else None
        x = self.enter(input_ids, layout, layout.columns(input_ids.device))

        def each(i: int) -> dict[str, Any]:
            return {"layout": layout, "head_mask": None if masks is None else masks[i], "seen": seen}

        states = list(self.through_layers(x, each))
        return finished(states, layout, output_hidden_states, seen)


class TransformerDecoder(Stack):
    """Writes the target; every word sees those before it, and the whole source."""

    is_decoder = True

    def __init__(self, config: TransformerConfig):
        layers = [DecoderLayer(**layer_options(config)) for _ in range(config.decoder_layers)]
        super().__init__(config, config.vocab_size, layers)

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        memory: BodyOutput | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        """Rows that score the next word. The source is the `memory` that an encoder's `run` gave, or its vectors
        B S C with their mask. A `Cache` is read and filled in place; it keeps the source's keys and values too.
        """
        past = 0 if past_key_values is None else past_key_values.length
        layout = self.arranged(input_ids, attention_mask, causal=True, past=past)
        if memory is not None:
            rows, source = memory.rows, memory.layout
        else:
            source = self.arranged_source(encoder_hidden_states, encoder_attention_mask, len(input_ids), bool(past))
            rows = source.pack(encoder_hidden_states)  # M C
        if source.batch != layout.batch:
            raise InputError(f"{layout.batch} targets cannot be written beside {source.batch} sources")
        positions = layout.columns(input_ids.device) + past
        if position_ids is not None:
            positions = pack_ids(position_ids, layout, "position_ids")
        if past_key_values is not None:
            layout = replace(layout, distance=past_key_values.distances(layout.unpack(positions)))
        own, crossed = self.head_masks(head_mask), self.head_masks(cross_head_mask)
        seen = Seen() if output_attentions else None

        def each(i: int) -> dict[str, Any]:
            return {
                "layout": layout,
                "source": source,
                "past": None if past_key_values is None else past_key_values[i],
                "head_mask": None if own is None else own[i],
                "cross_head_mask": None if crossed is None else crossed[i],
                "seen": seen,
            }

        states = list(self.through_layers(self.enter(input_ids, layout, positions), each, rows))
        if past_key_values is not None:
            past_key_values.length += input_ids.shape[1]
        return replace(finished(states, layout, output_hidden_states, seen), past_key_values=past_key_values)

    def arranged_source(self, states: Tensor | None, mask: Tensor | None, batch: int, whole: bool) -> Layout:
        width = self.embeddings.word_embeddings.embedding_dim
        check_tensor(states, "encoder_hidden_states")
        if states.dim() != 3 or states.shape[0] != batch or states.shape[2] != width:
            raise InputError(
                f"encoder_hidden_states must have the shape [{batch}, positions, {width}], got {list(states.shape)}"
            )
        how = {"dtype": states.dtype, "device": states.device, "name": "encoder_attention_mask"}
        return arrange(*states.shape[:2], mask, whole=whole, **how)

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
