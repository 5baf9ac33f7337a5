"""The two halves of an encoder-decoder: one reads a text, the other writes another beside it.

Each has a `run` that gives rows of the stream. Its door stands here, the same for every architecture: layouts, shapes,
and the source in the form that a decoder works with. What happens behind the door an architecture says itself, in
`read` and in `write`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.cache import Cache
from ..nn.mask import arrange, check_ids, check_tensor
from ..nn.layout import Layout
from .outputs import BodyOutput


@dataclass(frozen=True)
class Asked:
    """How a text is to be run through, and what is wanted besides its rows."""

    head_mask: Tensor | None = None
    cross_head_mask: Tensor | None = None
    output_attentions: bool = False
    output_hidden_states: bool = False
    position_ids: Tensor | None = None
    past_key_values: Cache | None = None


class Half(nn.Module):
    """What encoders and decoders share: `embeddings`, and how long a text may be."""

    embeddings: nn.Module
    max_position_embeddings: int
    ids_name = "input_ids"  # what a user calls them

    @property
    def dtype(self) -> torch.dtype:
        return self.embeddings.word_embeddings.weight.dtype

    def arranged(self, input_ids: Tensor, attention_mask: Tensor | None, **how: Any) -> Layout:
        """The layout of ids B T."""
        check_tensor(input_ids, self.ids_name)
        if input_ids.dim() != 2 or 0 in input_ids.shape:
            told = f"must have the shape B T, neither of them 0, got {list(input_ids.shape)}"
            raise InputError(f"{self.ids_name} {told}")
        return arrange(*input_ids.shape, attention_mask, dtype=self.dtype, device=input_ids.device, **how)

    def check_words(self, ids: Tensor, layout: Layout) -> None:
        """Refuse an id that is no word's."""
        check_ids(ids, self.embeddings.word_embeddings.num_embeddings, f"{self.ids_name}: id", layout)

    def refuse_beyond(self, positions: int) -> None:
        if positions > self.max_position_embeddings:
            raise InputError(
                f"{positions} positions are more than max_position_embeddings {self.max_position_embeddings}"
            )


class EncoderHalf(Half):
    """Reads the source."""

    def read(self, input_ids: Tensor, layout: Layout, asked: Asked) -> BodyOutput:
        raise NotImplementedError(f"{type(self).__name__} does not say how it reads")

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        """Rows of the source B S; what is remembered of each text as a whole, if anything, is `pooled`."""
        layout = self.arranged(input_ids, attention_mask)
        return self.read(input_ids, layout, Asked(head_mask, None, output_attentions, output_hidden_states))


class DecoderHalf(Half):
    """Writes the target beside what an encoder read."""

    is_decoder = True
    ids_name = "decoder_input_ids"
    keeps_state = False  # between two words: a state, or keys and values

    def write(self, input_ids: Tensor, layout: Layout, memory: BodyOutput, asked: Asked) -> BodyOutput:
        raise NotImplementedError(f"{type(self).__name__} does not say how it writes")

    def run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        memory: BodyOutput | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        state: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        use_cache: bool = False,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BodyOutput:
        """Rows that score the word after each of `input_ids` B T.

        The source is the `memory` that an encoder's `run` gave, or its vectors B S C with their mask; a decoder that
        `keeps_state` goes on from the encoder's state, or from the one that it gave as `pooled` itself. Another is
        given a `Cache`, which is read and filled in place and keeps the source's keys and values too.
        """
        if self.keeps_state and (past_key_values is not None or position_ids is not None):
            raise InputError("a decoder that keeps a state has neither past_key_values nor position_ids")
        if state is not None and not self.keeps_state:
            raise InputError(f"a {type(self).__name__} keeps no state: give past_key_values")
        past = 0 if past_key_values is None else past_key_values.length
        layout = self.arranged(input_ids, attention_mask, causal=True, past=past)
        if memory is None:
            whole = self.keeps_state or past > 0
            source = self.arranged_source(encoder_hidden_states, encoder_attention_mask, len(input_ids), whole)
            memory = BodyOutput(rows=source.pack(encoder_hidden_states), layout=source, pooled=state)
        if memory.layout.batch != layout.batch:
            raise InputError(f"{layout.batch} targets cannot be written beside {memory.layout.batch} sources")
        looks = (head_mask, cross_head_mask, output_attentions, output_hidden_states)
        return self.write(input_ids, layout, memory, Asked(*looks, position_ids, past_key_values))

    def arranged_source(self, states: Tensor | None, mask: Tensor | None, batch: int, whole: bool) -> Layout:
        """The layout of vectors B S C."""
        width = self.embeddings.word_embeddings.embedding_dim
        check_tensor(states, "encoder_hidden_states")
        if states.dim() != 3 or states.shape[0] != batch or states.shape[2] != width:
            raise InputError(
                f"encoder_hidden_states must have the shape [{batch}, positions, {width}], got {list(states.shape)}"
            )
        how = {"dtype": states.dtype, "device": states.device, "name": "encoder_attention_mask"}
        return arrange(*states.shape[:2], mask, whole=whole, **how)
