"""What the embeddings of every text model share: which ids they accept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...nn.layout import Layout
from ...nn.tensor_inputs import FLOATING, INDEXING, WHOLE, as_dtype, as_index, check_broadcast, check_ids, check_tensor


class Embeddings(nn.Module):
    """Vectors of tokens: `forward(input_ids, token_type_ids, position_ids, inputs_embeds)`, N -> N C.

    An architecture with other tables overrides the properties.
    """

    word_embeddings: nn.Embedding
    without_types = "this architecture has no token types: leave token_type_ids out"

    @property
    def type_count(self) -> int:
        """How many token types there are; 0 for an architecture without them."""
        return 0

    @property
    def position_count(self) -> int | None:
        """How many positions have a vector; None where nothing limits them."""
        table = getattr(self, "position_embeddings", None)
        return None if table is None else table.num_embeddings

    def check(
        self,
        ids: Tensor | None,
        types: Tensor | None,
        positions: Tensor,
        layout: Layout | None = None,
        name: str = "input_ids",
    ) -> None:
        """Refuse ids that the tables do not have."""
        if types is not None and not self.type_count:
            raise InputError(self.without_types)
        check_ids(ids, self.word_embeddings.num_embeddings, f"{name}: id", layout)
        check_ids(types, self.type_count, "token_type_ids: type", layout)
        if self.position_count is not None:
            check_ids(positions, self.position_count, "position_ids: position", layout)

    def __call__(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        past_key_values_length: int = 0,
        **extras: Any,
    ) -> Tensor:
        """A body passes rows N that it has checked, with their positions; a direct call is checked here."""
        inputs = inputs_embeds if input_ids is None else input_ids
        dimensions = 1 if input_ids is not None else 2
        are_rows = isinstance(inputs, Tensor) and inputs.dim() == dimensions and isinstance(position_ids, Tensor)
        if not are_rows or position_ids.dtype not in INDEXING or position_ids.shape != inputs.shape[:1]:
            self.check_direct_call(input_ids, token_type_ids, position_ids, inputs_embeds, **extras)
            input_ids, token_type_ids, position_ids = (
                None if ids is None else as_index(ids) for ids in (input_ids, token_type_ids, position_ids)
            )
            if position_ids is None:
                position_ids = self.default_positions(input_ids, inputs, past_key_values_length)
            self.check(input_ids, token_type_ids, position_ids)
        return super().__call__(input_ids, token_type_ids, position_ids, inputs_embeds, **extras)

    def check_direct_call(
        self,
        ids: Tensor | None,
        types: Tensor | None,
        positions: Tensor | None,
        vectors: Tensor | None,
        **extras: Tensor | None,
    ) -> None:
        """Refuse inputs of a direct call that do not fit each other."""
        weight = self.word_embeddings.weight
        if (ids is None) == (vectors is None):
            raise InputError("give either input_ids or inputs_embeds")
        inputs = vectors if ids is None else ids
        name, kind = ("inputs_embeds", FLOATING) if ids is None else ("input_ids", WHOLE)
        check_tensor(inputs, name, kind, "B T C" if ids is None else "", weight.device)
        shape = inputs.shape[:2] if ids is None else inputs.shape
        if not 1 <= len(shape) <= 2 or 0 in inputs.shape or (ids is None and inputs.shape[-1] != weight.shape[-1]):
            wanted = "B T" if vectors is None else f"B T {weight.shape[-1]}"
            raise InputError(f"{name} must have the shape {wanted}, got {list(inputs.shape)}")
        if vectors is not None:
            as_dtype(vectors, weight.dtype, name)
        for other, each in {"token_type_ids": types, "position_ids": positions, **extras}.items():
            if each is not None:
                check_tensor(each, other, WHOLE, device=weight.device)
                check_broadcast(each, tuple(shape), other)

    def default_positions(self, input_ids: Tensor | None, inputs: Tensor, past: int = 0) -> Tensor:
        """Positions 0, 1, ... for a direct call without `position_ids`, on ids or vectors: T."""
        return torch.arange(inputs.shape[-1 if input_ids is not None else -2], device=inputs.device) + past


def padding_index(pad_token_id: int | None, vocab_size: int) -> int | None:
    """The row of the word vectors that stays zero; files may name one that the vocabulary does not have."""
    return pad_token_id if (pad_token_id or 0) < vocab_size else None
