"""What a logits processor sees of a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class TokenSequence(NamedTuple):
    """The tokens of a sequence so far, how many of them are the prompt, and how many it may have."""

    tokens: list[int]
    prompt_length: int
    max_length: int

    @property
    def new(self) -> list[int]:
        """The tokens behind the prompt."""
        return self.tokens[self.prompt_length :]


LogitsProcessor = Callable[[list[TokenSequence], Tensor], Tensor]
