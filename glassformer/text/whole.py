"""What every part of a tokenizer may count on: the vocabulary, the settings that all kinds share, and a voice."""

from __future__ import annotations

import warnings
from typing import Any

from .options import Side


class Whole:
    """The tokenizer as its parts see it."""

    model_input_names: list[str] = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side, truncation_side = Side(), Side()

    vocab: dict[str, int]  # before additions
    ids_to_tokens: dict[int, str]  # with additions
    model_max_length: int
    clean_up_tokenization_spaces: bool
    name_or_path: str
    kept_settings: dict[str, Any]  # keys of tokenizer_config.json that nobody here reads
    _said: set[str]

    def _say(self, message: str, key: str = "") -> None:
        """Warn, but of each thing only once."""
        if (key or message) not in self._said:
            self._said.add(key or message)
            warnings.warn(message, UserWarning, stacklevel=7)
