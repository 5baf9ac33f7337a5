"""The body of every architecture: inputs -> embeddings -> stack of layers -> finish.

`encode` is the entry point: it checks a padded batch, packs it into a stream of real tokens, builds the context of the
pass and returns rows of the stream, as the heads read them. Encoders, decoders and both parts of an encoder-decoder are
such bodies; an architecture overrides a method where it differs (positions of tokens, maximum length, final
normalisation).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ...errors import InputError, refuse_unknown
from ...nn.cache import Cache
from ...nn.context import Context, ContextModule, Source
from ...nn.layer_inputs import check_flags, check_head_masks, check_past_of_layers, check_vectors
from ...nn.layout import Layout
from ...nn.mask import make_layout
from ...nn.random_features import FeatureRedraw
from ...nn.tensor_inputs import (
    FLOATING,
    WHOLE,
    as_dtype,
    as_index,
    check_finite,
    check_flag,
    check_tensor,
)
from .outputs import BaseModelOutputWithPastAndCrossAttentions, BodyOutput

log = logging.getLogger("glassformer")


class LayerStack(ContextModule):
    """Layers, one after the other."""

    def __init__(self, layers: list[nn.Module], embeddings: nn.Module | None = None):
        super().__init__()
        if embeddings is not None:  # of an encoder or a decoder that is a stack itself
            self.embeddings = embeddings
        self.layer = nn.ModuleList(layers)
        self.gradient_checkpointing = False
        self.feature_redraw: FeatureRedraw | None = None  # of layers with random features

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """N C -> N C; hidden states are recorded in the context of the pass."""
        states = [x] if context.output_hidden_states else None
        if self.feature_redraw is not None:
            self.feature_redraw.before_pass(self)
        for i, layer in enumerate(self.layer):
            layer_context = context.for_layer(i)
            if self.gradient_checkpointing and self.training:
                x = checkpoint(layer, x, layer_context, use_reentrant=False)
            else:
                x = layer(x, layer_context)
            if states is not None:
                states.append(x)
        x = self.finish(x)
        if states is not None:
            states[-1] = x
            context.hidden_states = states
        return x

    def finish(self, x: Tensor) -> Tensor:
        """After the last layer: nothing, or a final normalisation."""
        return x

    def call_directly(  # type: ignore[override]
        self,
        hidden_states: Tensor,
        attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: tuple | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        return_dict: bool = True,
    ) -> BaseModelOutputWithPastAndCrossAttentions | tuple:
        """The layers on B T C, with additive masks, as the tutorials call `model.encoder`."""
        check_flags(use_cache=use_cache, output_attentions=output_attentions, output_hidden_states=output_hidden_states)
        check_vectors(hidden_states, "hidden_states", self)
        batch = len(hidden_states)
        past = 0 if past_key_values is None else check_past_of_layers(past_key_values, self.layer, batch, hidden_states)
        context = Context.for_direct_call(
            self, hidden_states, attention_mask, encoder_hidden_states, encoder_attention_mask, past
        )
        if head_mask is not None:
            check_head_masks(head_mask, self.layer, past, hidden_states)
        context.cache, context.use_cache, context.output_attentions = past_key_values, use_cache, output_attentions
        context.output_hidden_states = output_hidden_states
        context.head_mask = head_mask
        if context.cross is not None:
            context.cross.head_mask = head_mask
        rows = self.run(hidden_states, context)
        states = context.hidden_states
        out = BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=rows,
            hidden_states=None if states is None else tuple(states),
            **recorded_by_layers(context),
        )
        return out.as_returned(return_dict)


def recorded_by_layers(context: Context) -> dict[str, Any]:
    """The values that the layers of a pass recorded in their contexts, by the names of outputs."""
    layers = context.layers
    wants_weights, has_cross = context.output_attentions, context.cross is not None
    return {
        "past_key_values": tuple(layer.recorded()[-1] for layer in layers) if context.use_cache else None,
        "attentions": tuple(layer.weights for layer in layers) if wants_weights else None,
        "cross_attentions": tuple(layer.cross.weights for layer in layers) if wants_weights and has_cross else None,
    }


class Body(nn.Module):
    """Embeddings and layers, run on the stream of real tokens."""

    is_body = True  # what surrounds it is a head
    ids_name = "input_ids"  # in error messages
    is_decoder: bool  # causal, and can keep keys and values between calls
    embeddings: nn.Module
    keeps_state = False  # between two tokens: a recurrent state, or keys and values
    extra_inputs: tuple[str, ...] = ()  # arguments of a forward that only this architecture has
    feature_inputs: tuple[str, ...] = ()  # what the embeddings read in place of ids: pictures or sound come first
    has_reported_padding = False
    masks_cross_heads = True  # whether `head_mask` applies to the cross-attention too, if that has none of its own

    # -- overridden by architectures ---------------------------------------------------------------------------

    @property
    def stack(self) -> LayerStack:
        """The module that holds the layers."""
        return self.encoder

    @property
    def max_length(self) -> int | None:
        """The maximum number of tokens of a sequence; None without a limit."""
        return getattr(self.config, "max_position_embeddings", None)

    @property
    def layer_count(self) -> int:
        return len(self.stack.layer)

    def positions(self, places: Tensor, layout: Layout, input_ids: Tensor | None = None, past: int = 0) -> Tensor:
        """The positions (N) of the tokens in these columns of the batch, a past included, counted from 0.

        `input_ids` (B T) are the batch, if ids are given, behind a past of so many tokens; a decode step passes none.
        `position_ids` that a caller gives are positions already.
        """
        return places

    def embed(
        self, ids: Tensor | None, types: Tensor | None, positions: Tensor, vectors: Tensor | None, extras: Any
    ) -> Tensor:
        """The vectors that enter the first layer (N C), from ids (N) or vectors, and the packed extras."""
        return self.embeddings(ids, types, positions, vectors)

    def embed_features(self, features: dict[str, Any]) -> Tensor:
        """The vectors that enter the first layer, laid out B T C, from the `feature_inputs` (None where not given).

        Such embeddings add positions themselves: how many there are is known only behind them.
        """
        first = self.feature_inputs[0]
        if features[first] is None:
            raise InputError(f"give {first}, which {type(self).__name__} reads")
        if hasattr(features[first], "keys"):
            raise InputError("what a processor returns is passed with two stars: model(**inputs)")
        return self.embeddings(**features)

    def pack_extras(self, extras: dict[str, Any], layout: Layout) -> Any:
        """What layers find in `context.extras`, from the `extra_inputs` that were given."""
        return extras or None

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        """From the embeddings to the rows that the heads read: N C -> N C"""
        return self.stack(x, context)

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        """One vector for each sequence (N C -> B C), where the architecture has one."""
        return None

    # -- the pass ----------------------------------------------------------------------------------------------

    def encode(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        head_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        past_key_values: Cache | tuple | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        cross_head_mask: Tensor | None = None,
        memory: BodyOutput | None = None,
        state: Tensor | None = None,
        keep_padding: bool = False,
        **extras: Any,
    ) -> BodyOutput:
        """The pass from a padded batch to rows of the stream and their layout, as the heads read them.

        The source of a decoder is `encoder_hidden_states` with their mask, or the `memory` that an encoder's `encode`
        returned. A `Cache` is read and filled in place; tuples of an earlier call are read and new ones returned.
        `keep_padding` computes padded positions too.
        """
        if self.keeps_state and (past_key_values is not None or position_ids is not None):
            raise InputError("a decoder that keeps a state has neither past_key_values nor position_ids")
        if state is not None and not self.keeps_state:
            raise InputError(f"a {type(self).__name__} keeps no state: give past_key_values")
        if self.feature_inputs:
            self.refuse_tokens(input_ids=input_ids, inputs_embeds=inputs_embeds, position_ids=position_ids)
            inputs = self.embed_features({name: extras.pop(name, None) for name in self.feature_inputs})  # B T C
        else:
            inputs = self.check_inputs(input_ids, inputs_embeds)
        if input_ids is None:
            inputs_embeds = as_dtype(inputs, self.stream_dtype, "inputs_embeds")
        else:
            input_ids = as_index(inputs)
            if attention_mask is None and past_key_values is None and not self.has_reported_padding:
                self.report_padding(input_ids)
        batch, length = inputs.shape[:2]
        past = 0 if past_key_values is None else self.check_past(past_key_values, batch)
        cache = past_key_values if isinstance(past_key_values, Cache) else None
        if cache is not None:
            cache.check_capacity(past + length)
        if not self.is_decoder and (encoder_hidden_states is not None or past_key_values is not None):
            raise InputError("encoder_hidden_states and past_key_values are for decoders: set is_decoder=True")
        if cache is None or position_ids is None:
            self.check_length(past + length)
        head_mask = self.head_masks(head_mask)
        follows = self.masks_cross_heads and cross_head_mask is None
        cross_head_mask = head_mask if follows else self.head_masks(cross_head_mask)
        per_position = head_mask is not None and max(head_mask.shape[-2:]) > 1

        layout = make_layout(
            batch,
            length,
            attention_mask,
            causal=self.is_decoder,
            past=past,
            keep_padding=keep_padding or per_position,
            dtype=self.stream_dtype,
            device=inputs.device,
        )
        source = self.source_of(
            memory, encoder_hidden_states, encoder_attention_mask, state, batch, keep_padding=bool(past) or per_position
        )
        refuse_unknown(extras, (*self.feature_inputs, *self.extra_inputs), type(self).__name__)
        packed_extras = self.pack_extras(extras, layout)
        vectors = None if inputs_embeds is None else layout.pack(inputs_embeds)
        x, positions = vectors, None  # N C: those of features have their positions
        if not self.feature_inputs:
            positions = self.positions(layout.columns(inputs.device) + past, layout, input_ids, past)
            if position_ids is not None:
                positions = pack_ids(position_ids, layout, "position_ids", inputs.device)
            if cache is not None:
                layout = replace(layout, distance=cache.distances(layout.unpack(positions)))
            ids = None if input_ids is None else layout.pack(input_ids)
            types = pack_ids(token_type_ids, layout, "token_type_ids", inputs.device)
            self.embeddings.check(ids, types, positions, layout, self.ids_name)
            x = self.embed(ids, types, positions, vectors, packed_extras)  # N C
        context = Context(
            layout,
            cache=past_key_values,
            extras=packed_extras,
            head_mask=head_mask,
            output_attentions=self.resolve_flag("output_attentions", output_attentions),
            output_hidden_states=self.resolve_flag("output_hidden_states", output_hidden_states),
            use_cache=cache is None and self.is_decoder and self.resolve_flag("use_cache", use_cache),
            positions=positions,
        )
        if source is not None:
            context.cross = Context(layout, source, head_mask=cross_head_mask)
        out = self.as_body_output(self.run_layers(x, context), context)
        if cache is not None:
            cache.length += length
            out.past_key_values = cache
        return out

    def decode_step(
        self, ids: Tensor, places: Tensor, cache: Cache, mask: Tensor | None, source: Source | None = None
    ) -> Tensor:
        """`encode` for one token of every continuation (ids, and their places in the text, B T) behind a cache: the
        rows, N C.

        Ids and places are the engine's own and are not checked; `mask` is additive, B 1 T S.
        """
        layout = Layout.full(*ids.shape, mask=mask)
        positions = self.positions(places.reshape(-1), layout)
        layout = replace(layout, distance=cache.distances(layout.unpack(positions)))
        context = Context(layout, cache=cache, positions=positions)
        if source is not None:
            context.cross = Context(layout, source)
        x = self.embed(ids.reshape(-1), None, positions, None, None)  # N C
        x = self.run_layers(x, context)
        cache.length += layout.length
        return x

    def as_body_output(self, rows: Tensor, context: Context) -> BodyOutput:
        """The result of a pass: its rows, and the values that were recorded on the way."""
        layout, states = context.layout, context.hidden_states
        return BodyOutput(
            rows=rows,
            layout=layout,
            pooled=self.pool(rows, layout),
            hidden_states=None if states is None else tuple(layout.unpack(state) for state in states),
            **recorded_by_layers(context),
        )

    def resolve_flag(self, name: str, value: bool | None) -> bool:
        """The value of a call, else that of the config."""
        check_flag(value, name)
        return getattr(self.config, name, False) if value is None else bool(value)

    # -- checks ------------------------------------------------------------------------------------------------

    def check_inputs(self, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
        """Whichever of the two is given, after a check of its shape."""
        if (input_ids is None) == (inputs_embeds is None):
            both = ", not both" if input_ids is not None else ""
            raise InputError(f"give either {self.ids_name} or inputs_embeds{both}")
        inputs = input_ids if inputs_embeds is None else inputs_embeds
        if hasattr(inputs, "keys"):
            raise InputError("an encoding is passed with two stars: model(**batch)")
        device = self.embeddings.word_embeddings.weight.device
        name = self.ids_name if inputs_embeds is None else "inputs_embeds"
        if inputs_embeds is None:
            check_tensor(inputs, name, WHOLE, "B T", device)
        else:
            check_tensor(inputs, name, FLOATING, "B T C", device)
        if 0 in inputs.shape:
            raise InputError(f"the batch is empty: {name} has the shape {list(inputs.shape)}")
        width = self.embeddings.word_embeddings.embedding_dim
        if inputs_embeds is not None and inputs.shape[-1] != width:
            raise InputError(f"inputs_embeds have {inputs.shape[-1]} columns, not {width}")
        return inputs

    def refuse_tokens(self, **inputs: Tensor | None) -> None:
        """Refuse what only tokens have, in a body that reads features."""
        for name, value in inputs.items():
            if value is not None:
                raise InputError(f"{type(self).__name__} reads {self.feature_inputs[0]}: leave {name} out")

    def report_padding(self, ids: Tensor) -> None:
        """Warn, once for a model, if tokens of padding are at an end of ids without a mask: they are read as words."""
        config = self.config
        pad = config.pad_token_id
        others = [getattr(config, f"{name}_token_id", None) for name in ("bos", "eos", "sep")]
        if pad is None or ids.shape[1] < 2:
            return
        width = 2 if pad in others else 1  # a single one may end a text
        ends = [ids[:, -width:]] if self.is_decoder and config.is_encoder_decoder else [ids[:, :width], ids[:, -width:]]
        if any(bool((end == pad).all(1).any()) for end in ends):
            self.has_reported_padding = True
            message = "%s have padding (token %d) at an end, which is read as words: an attention_mask leaves it out"
            log.warning(message, self.ids_name, pad)

    def check_length(self, positions: int) -> None:
        limit = self.max_length
        if limit is not None and positions > limit:
            is_field = limit == getattr(self.config, "max_position_embeddings", None)
            name = "max_position_embeddings" if is_field else "the model's maximum of"
            raise InputError(f"{positions} positions are more than {name} {limit}")

    def check_past(self, past_key_values: Cache | tuple, batch: int) -> int:
        """How many tokens a cache of an earlier call holds."""
        weight = self.embeddings.word_embeddings.weight
        return check_past_of_layers(past_key_values, self.stack.layer, batch, weight)

    def head_masks(self, head_mask: Tensor | None) -> Tensor | None:
        """H, or layers H -> layers 1 H 1 1 (or five dimensions already)."""
        if head_mask is None:
            return None
        layers = self.layer_count
        check_tensor(head_mask, "head_mask", device=self.device)
        if head_mask.dim() == 1:
            head_mask = head_mask[None, None, :, None, None].expand(layers, -1, -1, -1, -1)
        elif head_mask.dim() == 2:
            head_mask = head_mask[:, None, :, None, None]
        heads = {layer.attention.self.num_attention_heads for layer in self.stack.layer}
        if head_mask.dim() != 5 or head_mask.shape[0] != layers or {head_mask.shape[2]} != heads:
            counts = " or ".join(map(str, sorted(heads)))
            raise InputError(
                f"head_mask must have the shape heads or layers x heads, with {layers} layers of {counts} heads"
            )
        head_mask = head_mask.to(self.stream_dtype)
        check_finite(head_mask, "head_mask")
        return head_mask

    def source_of(
        self,
        memory: BodyOutput | None,
        states: Tensor | None,
        mask: Tensor | None,
        state: Tensor | None,
        batch: int,
        keep_padding: bool,
    ) -> Source | None:
        """The source of a decoder: the `memory` of an encoder, or vectors B S C with their mask."""
        if memory is not None:
            if memory.layout.batch != batch:
                raise InputError(f"{batch} targets need as many sources, got {memory.layout.batch}")
            return Source(memory.rows, memory.layout, memory.pooled)
        if states is None:
            return None
        if self.layer_count and not hasattr(self.stack.layer[0], "crossattention"):
            raise InputError("encoder_hidden_states need a model with add_cross_attention=True")
        layout = self.source_layout(states, mask, batch, keep_padding or self.keeps_state)
        states = as_dtype(states, self.stream_dtype, "encoder_hidden_states")
        return Source(layout.pack(states), layout, state)

    def source_layout(self, states: Tensor, mask: Tensor | None, batch: int, keep_padding: bool) -> Layout:
        """The layout of the source of a decoder, B S C."""
        device = self.embeddings.word_embeddings.weight.device
        check_tensor(states, "encoder_hidden_states", FLOATING, device=device)
        shape, width = list(states.shape), self.config.hidden_size
        if len(shape) != 3 or shape[0] != batch or shape[2] != width or not shape[1]:
            raise InputError(f"encoder_hidden_states must have the shape [{batch}, positions, {width}], got {shape}")
        settings = {"dtype": states.dtype, "device": states.device, "name": "encoder_attention_mask"}
        return make_layout(batch, shape[1], mask, keep_padding=keep_padding, **settings)


def pack_ids(ids: Tensor | None, layout: Layout, name: str, device: torch.device | None = None) -> Tensor | None:
    """B T, or 1 T for all sequences alike -> N."""
    if ids is None:
        return None
    check_tensor(ids, name, WHOLE, device=device)
    if ids.dim() == 1:
        ids = ids[None]
    if ids.dim() != 2 or ids.shape[0] not in (1, layout.batch) or ids.shape[1] != layout.length:
        raise InputError(f"{name} must have shape {[layout.batch, layout.length]}, got {list(ids.shape)}")
    return layout.pack(as_index(ids).expand(layout.batch, -1))
