"""What stands between a row and the model: the values of a row become arrays, arrays of several rows one batch.

Text is one kind of input. A processor for another kind, such as images or sound, subclasses `Processor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from torch import Tensor

from ..text.encoding import EncodedRow as Encoded
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Ids, padded


class Processor:
    """Turns values into arrays. What it makes of a row's values states its own length (`len`), and whether it had to
    be cut (`truncated`): batches are filled by lengths."""

    def collate(self, encoded: Sequence[Any]) -> dict[str, Tensor]:
        """Several inputs as one batch, by the names that the model's `forward` takes."""
        raise NotImplementedError(f"{type(self).__name__} does not collate")

    def compact(self, encoded: Any) -> Any:
        """The same input in little memory, for training, which reads it in every epoch."""
        return encoded

    def content(self, encoded: Any) -> Any:
        """Something whose `repr` changes when the input does."""
        raise NotImplementedError(f"{type(self).__name__} does not tell inputs apart")

    def is_empty(self, encoded: Any) -> bool:
        """Whether there is nothing where something should be."""
        return False

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write what is needed to make the same processor again beside the model."""


class TextProcessor(Processor):
    """Texts as ids of a tokenizer's tokens, padded on the right."""

    def __init__(self, tokenizer: PreTrainedTokenizer) -> None:
        self.tokenizer = tokenizer

    def collate(self, encoded: Sequence[Encoded | Ids], *, token_types: bool = True) -> dict[str, Tensor]:
        ids = [each.ids() for each in encoded]
        pad_id = 0 if self.tokenizer.pad_token is None else self.tokenizer.pad_token_id
        inputs = {"input_ids": padded(ids, pad_id), "attention_mask": padded([[1] * len(row) for row in ids], 0)}
        if token_types and "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = padded([each.type_ids() for each in encoded], 0)
        return inputs

    def compact(self, encoded: Encoded | Ids) -> Ids:
        return Ids.compact(encoded.ids(), encoded.type_ids(), encoded.truncated)

    def content(self, encoded: Encoded | Ids) -> list[int]:
        return encoded.ids()

    def is_empty(self, encoded: Encoded | Ids) -> bool:
        """Whether there is no token where a text should be."""
        return isinstance(encoded, Encoded) and not all(map(len, encoded.texts))

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        self.tokenizer.save_pretrained(folder)
