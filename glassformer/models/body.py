"""What the bodies of all architectures share: the door, the stack of layers, and what the heads get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from ..nn.bare import Copies, is_watched
from ..nn.cache import Cache
from ..nn.mask import arrange, check_ids, check_tensor
from ..nn.layout import Layout
from .base import PreTrainedModel
from .outputs import BaseModelOutputWithPastAndCrossAttentions, BodyOutput


class Body(PreTrainedModel):
    """A model made of `embeddings`, `encoder` and perhaps a pooler, run on the stream of real tokens."""

    is_body = True
    is_decoder: bool  # sees only what comes before, and can keep keys and values between calls

    @property
    def layer_count(self) -> int:
        return len(self.encoder.layer)

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        """One vector for each sequence (N C -> B C), where the architecture has one."""
        return None

    def run(
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
        whole: bool = False,
    ) -> BodyOutput:
        """The forward pass up to its exit: rows of the stream and their layout, as the heads read them.

        A `Cache` is read and filled in place; tuples of an earlier call are read and new ones returned.
        """
        given = self.check_inputs(input_ids, inputs_embeds)
        batch, length = given.shape[:2]
        config = self.config
        past = 0 if past_key_values is None else self.check_past(past_key_values, batch)
        cache = past_key_values if isinstance(past_key_values, Cache) else None
        use_cache = cache is None and self.is_decoder and (config.use_cache if use_cache is None else use_cache)
        if not self.is_decoder and (encoder_hidden_states is not None or past_key_values is not None):
            raise InputError("encoder_hidden_states and past_key_values are for decoders: set is_decoder=True")
        if (cache is None or position_ids is None) and past + length > config.max_position_embeddings:
            raise InputError(
                f"{past + length} positions are more than max_position_embeddings {config.max_position_embeddings}"
            )
        head_mask = self.get_head_mask(head_mask)
        per_position = head_mask is not None and max(head_mask.shape[-2:]) > 1

        layout = arrange(
            batch,
            length,
            attention_mask,
            causal=self.is_decoder,
            past=past,
            whole=whole or per_position,
            dtype=self.dtype,
            device=given.device,
        )
        source = None
        if encoder_hidden_states is not None:
            source = self.arrange_source(
                encoder_hidden_states, encoder_attention_mask, batch, bool(past) or per_position
            )
            encoder_hidden_states = source.pack(encoder_hidden_states)  # M C

        columns = layout.columns(given.device) + past
        positions = columns if position_ids is None else pack_ids(position_ids, layout, "position_ids")
        if cache is not None:
            layout = replace(layout, distance=cache.distances(layout.unpack(positions)))
        ids = None if input_ids is None else layout.pack(input_ids)
        if ids is not None:
            check_ids(ids, self.get_input_embeddings().num_embeddings, "input_ids: id", layout)
        hidden = self.embeddings(  # N C
            ids,
            pack_ids(token_type_ids, layout, "token_type_ids"),
            positions,
            None if inputs_embeds is None else layout.pack(inputs_embeds),
        )
        encoded = self.encoder(
            hidden,
            head_mask=head_mask,
            encoder_hidden_states=encoder_hidden_states,
            past_key_values=past_key_values,
            use_cache=use_cache,
            output_attentions=config.output_attentions if output_attentions is None else output_attentions,
            output_hidden_states=config.output_hidden_states if output_hidden_states is None else output_hidden_states,
            layout=layout,
            source=source,
        )
        out = BodyOutput.of(encoded, layout, self.pool(encoded.last_hidden_state, layout))
        if cache is not None:
            cache.length += length
            out.past_key_values = cache
        return out

    def bare_step(self, copies: Copies) -> Callable[[Tensor, Tensor, Cache, Tensor | None], Tensor] | None:
        """`run` for one token of every continuation (ids and positions B T), behind a cache, without its modules: the
        rows that a head reads. None where a layer has no such way, or a hook wants to see what passes.
        """
        if self.training or is_watched(self):
            return None
        layers = [layer.bare(copies) for layer in self.encoder.layer]
        if not all(layers):
            return None

        def step(ids: Tensor, positions: Tensor, cache: Cache, mask: Tensor | None) -> Tensor:
            batch, length = ids.shape
            cache.distances(positions)
            x = self.embeddings(ids.reshape(-1), None, positions.reshape(-1))  # N C
            for layer, kept in zip(layers, cache.layers, strict=True):
                x = layer(x, kept.own, mask, batch)
            cache.length += length
            return self.encoder.finish(x)

        return step

    def check_past(self, past_key_values: Cache | tuple, batch: int) -> int:
        """How many tokens a cache of an earlier call holds."""
        if isinstance(past_key_values, Cache) and len(past_key_values) == len(self.encoder.layer):
            return past_key_values.length
        try:
            shapes = {tuple(layer[0].shape[i] for i in (0, 2)) for layer in past_key_values}
        except (TypeError, IndexError, AttributeError):
            raise InputError("past_key_values are the ones an earlier call returned: one pair for each layer") from None
        if len(past_key_values) != len(self.encoder.layer) or len(shapes) != 1 or next(iter(shapes))[0] != batch:
            raise InputError(
                f"past_key_values must hold {len(self.encoder.layer)} layers for a batch of {batch}, "
                f"got {len(past_key_values)} layers for batches of {sorted({b for b, _ in shapes})}"
            )
        return next(iter(shapes))[1]

    def arrange_source(self, states: Tensor, mask: Tensor | None, batch: int, whole: bool) -> Layout:
        """The layout of what a decoder looks at, B S C."""
        check_tensor(states, "encoder_hidden_states")
        shape, width = list(states.shape), self.config.hidden_size
        if len(shape) != 3 or shape[0] != batch or shape[2] != width:
            raise InputError(f"encoder_hidden_states must have the shape [{batch}, positions, {width}], got {shape}")
        settings = {"dtype": self.dtype, "device": states.device, "name": "encoder_attention_mask"}
        return arrange(batch, shape[1], mask, whole=whole, **settings)


def pack_ids(ids: Tensor | None, layout: Layout, name: str) -> Tensor | None:
    """B T, or 1 T for all sequences alike -> N."""
    if ids is None:
        return None
    check_tensor(ids, name)
    if ids.dim() == 1:
        ids = ids[None]
    if ids.shape[0] not in (1, layout.batch) or ids.shape[1] != layout.length:
        raise InputError(f"{name} must have shape {[layout.batch, layout.length]}, got {list(ids.shape)}")
    return layout.pack(ids.expand(layout.batch, -1))


class LayerStack(nn.Module):
    """Layers, one after the other, and what was seen on the way."""

    def __init__(self, layers: list[nn.Module]):
        super().__init__()
        self.layer = nn.ModuleList(layers)
        self.gradient_checkpointing = False

    def finish(self, hidden_states: Tensor) -> Tensor:
        """What comes after the last layer: nothing, or a last normalisation."""
        return hidden_states

    def forward(
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
        layout: Layout | None = None,
        source: Layout | None = None,
    ) -> BaseModelOutputWithPastAndCrossAttentions | tuple:
        states, weights, cross_weights, presents = [hidden_states], [], [], []
        for i, layer in enumerate(self.layer):
            arguments = (
                hidden_states,
                attention_mask,
                None if head_mask is None else head_mask[i],
                encoder_hidden_states,
                encoder_attention_mask,
                None if past_key_values is None else past_key_values[i],
                output_attentions,
                use_cache,
                layout,
                source,
            )
            if self.gradient_checkpointing and self.training:
                hidden_states, *seen = checkpoint(layer, *arguments, use_reentrant=False)
            else:
                hidden_states, *seen = layer(*arguments)
            states.append(hidden_states)
            if output_attentions:
                weights.append(seen.pop(0))
                if encoder_hidden_states is not None:
                    cross_weights.append(seen.pop(0))
            if use_cache:
                presents.append(seen.pop(0))
        states[-1] = hidden_states = self.finish(hidden_states)
        out = BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=hidden_states,
            past_key_values=tuple(presents) or None,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(weights) or None,
            cross_attentions=tuple(cross_weights) or None,
        )
        return out.given_as(return_dict)
