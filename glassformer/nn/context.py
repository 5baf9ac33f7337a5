"""What a forward pass carries besides the hidden states: `layer(x, context) -> x`.

A body makes one `Context` for a pass; its stack of layers derives the `Context` of each layer from it (`for_layer`).
What is recorded on the way (attention weights, keys and values) is stored in the layer's context. The tutorials call
layers and attentions directly on B T C and expect tuples back: `ContextModule` builds the context for such a call.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..errors import InputError
from .cache import AttentionCache, Cache, LayerCache, self_and_cross
from .layer_inputs import (
    additive_mask_of,
    attention_of,
    check_flags,
    check_head_mask,
    check_keys_and_values,
    check_vectors,
)
from .layout import Layout


class Source(NamedTuple):
    """What a cross-attention reads."""

    rows: Tensor | None  # M C; None when the cache holds its keys and values already
    layout: Layout
    state: Tensor | None = None  # B layers state: the final state of a recurrent encoder


@dataclass(slots=True)
class Context:
    """The inputs and recorded values of one forward pass, or of one layer of it.

    In the context of a pass `cache` and `head_mask` cover all layers; in that of a layer they are its own.
    """

    layout: Layout  # of the input rows
    source: Source | None = None  # what this attention reads in place of its own input
    cross: Context | None = None  # the context of the layer's cross-attention
    cache: Cache | AttentionCache | tuple | None = None
    head_mask: Tensor | None = None  # 1 H 1 1, or per position; of a pass: layers 1 H 1 1
    bias: Tensor | None = None  # added to the scores, broadcast to B H T S
    output_attentions: bool = False
    output_hidden_states: bool = False
    use_cache: bool = False  # record keys and values in `keys_and_values`
    extras: Any = None  # for architectures that need more
    number: int | None = None  # of a layer: its place in the stack
    positions: Tensor | None = None  # N: of every row in its text, for layers that read them

    weights: Tensor | None = None  # B H T S, recorded by the attention when `output_attentions`
    keys_and_values: tuple[Tensor, Tensor] | None = None  # each B H S D, recorded by the attention when `use_cache`
    layers: list[Context] = field(default_factory=list)  # of a pass: the context of each layer
    hidden_states: list[Tensor] | None = None  # of a pass, when `output_hidden_states`: each N C
    state: Tensor | None = None  # of a pass: the final state of a recurrent body, B layers state

    @classmethod
    def for_direct_call(
        cls,
        module: nn.Module,
        x: Tensor,
        mask: Tensor | None,
        source: Tensor | None,
        source_mask: Tensor | None,
        past: int = 0,
    ) -> Context:
        """The context of a direct call on B T C, with additive masks and perhaps a source, B S C."""
        check_vectors(x, "hidden_states", module)
        batch, length = x.shape[:2]
        heads = getattr(attention_of(module), "num_attention_heads", 1)
        if mask is not None:
            mask = additive_mask_of(mask, "attention_mask", (batch, heads, length, past + length), x)
        context = cls(Layout.full(batch, length, mask=mask))
        if source is not None:
            check_vectors(source, "encoder_hidden_states", module)
            if len(source) != batch:
                raise InputError(f"{batch} sequences need as many sources, got {len(source)}")
            if source_mask is not None:
                shape = (batch, heads, length, source.shape[1])
                source_mask = additive_mask_of(source_mask, "encoder_attention_mask", shape, x)
            read = Source(source, Layout.full(*source.shape[:2], mask=source_mask))
            context.cross = cls(context.layout.with_mask(None), read)
        return context

    @property
    def past(self) -> int:
        """Of a pass: how many tokens of each sequence its cache holds already."""
        if isinstance(self.cache, Cache):
            return self.cache.length
        return 0 if self.cache is None else self.cache[0][0].shape[2]

    def for_layer(self, layer: int) -> Context:
        """The context of one layer."""
        self_cache, cross_cache = self_and_cross(None if self.cache is None else self.cache[layer])
        context = Context(
            self.layout,
            cache=self_cache,
            head_mask=None if self.head_mask is None else self.head_mask[layer],
            bias=self.bias,
            output_attentions=self.output_attentions,
            use_cache=self.use_cache,
            extras=self.extras,
            number=layer,
            positions=self.positions,
        )
        if self.cross is not None:
            mask = self.cross.head_mask
            context.cross = Context(
                self.layout,
                self.cross.source,
                cache=cross_cache,
                head_mask=None if mask is None else mask[layer],
                output_attentions=self.output_attentions,
                use_cache=self.use_cache,
            )
        self.layers.append(context)
        return context

    def recorded(self) -> list[Any]:
        """What a layer recorded: its weights, those of its cross-attention, keys and values."""
        attentions = [self] if self.cross is None else [self, self.cross]
        values: list[Any] = [each.weights for each in attentions] if self.output_attentions else []
        if self.use_cache:
            values.append(sum((each.keys_and_values for each in attentions), ()))
        return values


class ContextModule(nn.Module):
    """A module that is called with a context inside a body, and can be called directly without one."""

    is_attention = False  # `encoder_hidden_states` of a direct call are for the module itself

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 and type(args[1]) is Context:
            return super().__call__(*args, **kwargs)
        return self.call_directly(*args, **kwargs)

    def run(self, x: Tensor, context: Context) -> Tensor:
        """`forward` with its hooks, on B T C."""
        return super().__call__(x, context)

    def call_directly(
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_value: tuple | None = None,
        output_attentions: bool = False,
        use_cache: bool = False,
    ) -> tuple:
        """(B T C, then self and cross weights if requested, then keys and values if `use_cache`)

        Masks are additive (0 where a key is visible), as `get_extended_attention_mask` makes them.
        """
        check_flags(output_attentions=output_attentions, use_cache=use_cache)
        check_vectors(hidden_states, "hidden_states", self)
        attention, batch, past = attention_of(self), len(hidden_states), 0
        if past_key_value is not None and not isinstance(past_key_value, LayerCache):
            past = check_keys_and_values(past_key_value, attention, batch, hidden_states, "past_key_value")
        self_cache, cross_cache = self_and_cross(past_key_value)
        context = Context.for_direct_call(
            self, hidden_states, attention_mask, encoder_hidden_states, encoder_attention_mask, past
        )
        if head_mask is not None:
            is_cross = self.is_attention and encoder_hidden_states is not None
            keys = encoder_hidden_states.shape[1] if is_cross else past + hidden_states.shape[1]
            check_head_mask(head_mask, attention, hidden_states, keys)
        for each, cache in ((context, self_cache), (context.cross, cross_cache)):
            if each is not None:
                each.cache, each.head_mask, each.use_cache = cache, head_mask, use_cache
                each.output_attentions = output_attentions
        if self.is_attention and context.cross is not None:
            context = replace(context.cross, cache=self_cache)
        return (self.run(hidden_states, context), *context.recorded())
