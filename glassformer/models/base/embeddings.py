"""What the embeddings of every text model share: which ids they accept."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...nn.layout import Layout
from ...nn.mask import check_ids


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

    def default_positions(
        self, input_ids: Tensor | None, token_type_ids: Tensor | None, inputs_embeds: Tensor | None, past: int = 0
    ) -> Tensor:
        """Positions 0, 1, ... for a direct call without `position_ids`, whose ids are checked here: T."""
        length = (input_ids if inputs_embeds is None else inputs_embeds[..., 0]).shape[-1]
        positions = torch.arange(length, device=self.word_embeddings.weight.device) + past
        self.check(input_ids, token_type_ids, positions)
        return positions


def padding_index(pad_token_id: int | None, vocab_size: int) -> int | None:
    """The row of the word vectors that stays zero; files may name one that the vocabulary does not have."""
    return pad_token_id if (pad_token_id or 0) < vocab_size else None
