"""Processors encode the values of rows as arrays, and collate the arrays of several rows to a batch.

Text is one kind of input. A processor for another kind, such as images or sound, subclasses `Processor`.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from torch import Tensor

from ..text.encoding import EncodedRow as Encoded
from ..text.tokenizer import PreTrainedTokenizer
from .batch import EncodedIds, pad_to_tensor


class Processor:
    """Turns values into arrays. An encoded value has a length (`len`), by which batches are filled, and for text states
    whether it was truncated (`truncated`)."""

    def collate(self, encoded: Sequence[Any]) -> dict[str, Tensor]:
        """Several inputs as one batch, by the argument names of the model's `forward`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement collate")

    def compact(self, encoded: Any) -> Any:
        """The same input in less memory, for training, which holds all inputs and reads them in every epoch."""
        return encoded

    def content(self, encoded: Any) -> Any:
        """A value whose `repr` changes when the input does."""
        raise NotImplementedError(f"{type(self).__name__} does not implement content")

    def is_empty(self, encoded: Any) -> bool:
        """Whether the input holds no data."""
        return False

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        """Write the files from which the same processor can be loaded, beside the model."""


class TextProcessor(Processor):
    """Texts as token ids, padded on the right."""

    def __init__(self, tokenizer: PreTrainedTokenizer) -> None:
        self.tokenizer = tokenizer

    def collate(self, encoded: Sequence[Encoded | EncodedIds], *, token_types: bool = True) -> dict[str, Tensor]:
        ids = [each.ids() for each in encoded]
        pad_id = 0 if self.tokenizer.pad_token is None else self.tokenizer.pad_token_id
        mask = [[1] * len(row) for row in ids]
        inputs = {"input_ids": pad_to_tensor(ids, pad_id), "attention_mask": pad_to_tensor(mask, 0)}
        if token_types and "token_type_ids" in self.tokenizer.model_input_names:
            inputs["token_type_ids"] = pad_to_tensor([each.type_ids() for each in encoded], 0)
        return inputs

    def compact(self, encoded: Encoded | EncodedIds) -> EncodedIds:
        return EncodedIds.compact(encoded.ids(), encoded.type_ids(), encoded.truncated)

    def content(self, encoded: Encoded | EncodedIds) -> list[int]:
        return encoded.ids()

    def is_empty(self, encoded: Encoded | EncodedIds) -> bool:
        """Whether one of the texts has no tokens."""
        return isinstance(encoded, Encoded) and not all(map(len, encoded.texts))

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        self.tokenizer.save_pretrained(folder)
