"""Making rows equally long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import InputError, suggests
from ..encoding import BatchEncoding, EncodedRow
from .encoding_options import Options
from .special_tokens import SpecialTokens
from .text_inputs import describe


class Padding(SpecialTokens):
    """The part of a tokenizer that pads."""

    @property
    def pad_token_type_id(self) -> int:
        return 0

    def _padded_length(self, lengths: Iterable[int], options: Options) -> int | None:
        """The length rows are filled up to, None if they are left alone."""
        if options.pads_to == "do_not_pad":
            return None
        if self.pad_token is None:
            use = "" if self.eos_token is None else ", for instance tokenizer.pad_token = tokenizer.eos_token"
            raise InputError(f"padding needs a pad_token and this tokenizer has none; set one first{use}")
        if options.pads_to == "longest":
            target = max(lengths, default=0)
        elif options.max_length is not None:
            target = options.max_length
        elif self.model_max_length < 10**20:
            target = self.model_max_length
        else:
            self._warn_once("padding='max_length' was requested, but neither max_length nor model_max_length is set")
            return None
        multiple = options.pad_to_multiple_of or 1
        return -(-target // multiple) * multiple

    def _pad_rows(self, rows: list[EncodedRow], options: Options) -> None:
        """Set how much padding each row has, and on which side."""
        target = self._padded_length(map(len, rows), options)
        if target is None:
            return
        for row in rows:
            missing = max(0, target - len(row))
            if (options.padding_side or self.padding_side) == "left":
                row.left = missing
            else:
                row.right = missing

    @suggests
    def pad(
        self,
        encoded_inputs: Mapping[str, Any] | list[Mapping[str, Any]],
        padding: bool | str = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        padding_side: str | None = None,
        return_attention_mask: bool | None = None,
        return_tensors: str | None = None,
        verbose: bool = True,
    ) -> BatchEncoding:
        """Pad what has been encoded row by row: a list of encodings, or one with several rows.

        >>> tokenizer.pad([tokenizer("one"), tokenizer("one two")], return_tensors="pt")     # doctest: +SKIP
        """
        options = Options(
            padding=padding,
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
            return_tensors=return_tensors,
            verbose=verbose,
        )
        columns, single = self._read_columns(encoded_inputs)
        lengths = [len(row) for row in columns["input_ids"]]
        if return_attention_mask or (
            return_attention_mask is None and "attention_mask" in self.model_input_names + list(columns)
        ):
            columns.setdefault("attention_mask", [[1] * n for n in lengths])
        target = self._padded_length(lengths, options)
        if target is not None:
            fillers = {
                "input_ids": self.pad_token_id,
                "attention_mask": 0,
                "token_type_ids": self.pad_token_type_id,
                "special_tokens_mask": 1,
                "offset_mapping": (0, 0),
            }
            left = (padding_side or self.padding_side) == "left"
            for key in columns.keys() & fillers.keys():
                columns[key] = [pad_row(row, target, fillers[key], left) for row in columns[key]]
        if single:
            columns = {key: values[0] for key, values in columns.items()}
        return BatchEncoding(columns, single=False).convert_to_tensors(return_tensors)

    def _read_columns(self, encoded: Any) -> tuple[dict[str, list], bool]:
        """Columns of rows, whatever they were given as; and whether it was one row alone."""
        if isinstance(encoded, list | tuple):
            if not encoded:
                raise InputError("nothing to pad: an empty list")
            for i, row in enumerate(encoded):
                if not isinstance(row, Mapping) or row.keys() != encoded[0].keys():
                    raise InputError(
                        f"encoding {i} must be a mapping with the same keys as encoding 0, got {describe(row)}"
                    )
            encoded = {key: [row[key] for row in encoded] for key in encoded[0]}
        if not isinstance(encoded, Mapping) or "input_ids" not in encoded:
            raise InputError(f"pad needs encodings with input_ids, got {describe(encoded)}")
        columns = {key: to_lists(value) for key, value in encoded.items()}
        single = not (columns["input_ids"] and isinstance(columns["input_ids"][0], list))
        return {key: [value] if single else value for key, value in columns.items()}, single


def to_lists(value: Any) -> Any:
    """Tensors and arrays as plain lists, also inside a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return [to_lists(each) for each in value] if isinstance(value, list) else value


def pad_row(row: list, length: int, filler: Any, left: bool) -> list:
    missing = [filler] * (length - len(row))
    return missing + row if left else row + missing
