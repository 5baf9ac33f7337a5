"""BERT's layers: a stack of them, and what one is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor, nn

from ..errors import ConfigError, InputError
from ..nn import bare
from ..nn.attention import SelfAttention, prune_attention
from ..nn.cache import Room, own_and_crossed
from ..nn.feedforward import AddNorm, Intermediate, in_chunks
from ..nn.layout import Layout
from .body import LayerStack

if TYPE_CHECKING:
    from .bert import BertConfig


class BertEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: BertConfig):
        super().__init__([BertLayer(config) for _ in range(config.num_hidden_layers)])


class BertLayer(nn.Module):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        self.attention = BertAttention(config)
        if config.add_cross_attention:
            if not config.is_decoder:
                raise ConfigError("add_cross_attention=True is for decoders: set is_decoder=True too")
            self.crossattention = BertAttention(config, position_embedding_type="absolute")
        self.add_cross_attention = config.add_cross_attention
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_value: tuple | None = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        layout: Layout | None = None,
        source: Layout | None = None,
    ) -> tuple:
        """(hidden states, then self and cross weights if asked for, then the cache if `use_cache`)"""
        own, crossed = own_and_crossed(past_key_value)
        wanted = {"output_attentions": output_attentions, "use_cache": use_cache, "layout": layout}
        attended, *seen = self.attention(hidden_states, attention_mask, head_mask, past_key_value=own, **wanted)
        cache = seen.pop() if use_cache else ()
        if encoder_hidden_states is not None:
            if not self.add_cross_attention:
                raise InputError("encoder_hidden_states need a model with add_cross_attention=True")
            attended, *cross_seen = self.crossattention(
                attended,
                None,
                head_mask,
                encoder_hidden_states,
                encoder_attention_mask,
                past_key_value=crossed,
                source=source,
                **wanted,
            )
            cache += cross_seen.pop() if use_cache else ()
            seen += cross_seen
        on_stream = attended.dim() == 2
        rows = self.chunk_size_feed_forward * (layout.batch if on_stream else 1)
        return (
            in_chunks(self.feed_forward_chunk, rows, attended, dim=0 if on_stream else 1),
            *seen,
            *([cache] if use_cache else []),
        )

    def feed_forward_chunk(self, attention_output: Tensor) -> Tensor:
        return self.output(self.intermediate(attention_output), attention_output)

    def bare(self, copies: bare.Copies = bare.NO_COPIES) -> bare.Step | None:
        """`forward` for one token of every continuation, without its modules; None with relative positions."""
        if self.attention.self.position_embedding_type != "absolute":
            return None
        attend, project = bare.attention(self.attention.self, copies), bare.linear(self.attention.output.dense, copies)
        normalise, normalise_again = bare.norm(self.attention.output.LayerNorm), bare.norm(self.output.LayerNorm)
        widen, narrow = bare.linear(self.intermediate.dense, copies), bare.linear(self.output.dense, copies)
        activate = bare.activation(self.intermediate.intermediate_act_fn)

        def step(x: Tensor, room: Room, mask: Tensor | None, batch: int) -> Tensor:
            x = normalise(x + project(attend(x, room, mask, batch)))
            return normalise_again(x + narrow(activate(widen(x))))

        return step


class BertAttention(nn.Module):
    """Attention with its output projection; heads can be cut out of it."""

    def __init__(self, config: BertConfig, position_embedding_type: str | None = None):
        super().__init__()
        self.self = BertSelfAttention(config, position_embedding_type)
        self.output = BertSelfOutput(config)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_value: tuple | None = None,
        output_attentions: bool = False,
        use_cache: bool = False,
        layout: Layout | None = None,
        source: Layout | None = None,
    ) -> tuple:
        context, *seen = self.self(
            hidden_states,
            attention_mask,
            head_mask,
            encoder_hidden_states,
            encoder_attention_mask,
            past_key_value,
            output_attentions,
            use_cache,
            layout,
            source,
        )
        return self.output(context, hidden_states), *seen


class BertSelfAttention(SelfAttention):
    def __init__(self, config: BertConfig, position_embedding_type: str | None = None):
        super().__init__(
            config.hidden_size,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            position_embedding_type or config.position_embedding_type,
            config.max_position_embeddings,
        )


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
