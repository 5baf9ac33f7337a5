"""What a tokenizer gives back: rows of ids with all that belongs to them.

`Pieces` is one text as ids, `EncodedRow` puts one or two of them between special tokens, `BatchEncoding` is the mapping
the caller gets: `input_ids`, `token_type_ids`, `attention_mask` and what else was requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..errors import InputError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")
Offsets = list[tuple[int, int]]
Details = tuple[Offsets, list[int]]  # of each id, and the number of the word it belongs to


class Pieces:
    """One text as ids. Tokens, offsets and word numbers are computed when they are requested."""

    __slots__ = ("_details", "_tokens", "ids")

    def __init__(
        self,
        ids: list[int],
        details: Details | Callable[[], Details] | None = None,
        tokens: list[str] | Callable[[], list[str]] | None = None,  # only if not the vocabulary's names of the ids
    ) -> None:
        self.ids = ids
        self._tokens = tokens
        self._details = details

    def __len__(self) -> int:
        return len(self.ids)

    def __reduce__(self) -> tuple:
        return Pieces, (self.ids, None if self._details is None else self.details(), self.tokens)

    @property
    def tokens(self) -> list[str] | None:
        """The pieces themselves; None if they are the vocabulary's names of the ids."""
        if self._tokens is not None and not isinstance(self._tokens, list):
            self._tokens = self._tokens()
        return self._tokens

    @property
    def has_own_tokens(self) -> bool:
        return self._tokens is not None

    def details(self) -> Details:
        """Offsets into the original text, and for each id the number of the word it belongs to."""
        if self._details is None:
            raise InputError("offsets and word numbers are known only for text, this row was made from ids or tokens")
        if not isinstance(self._details, tuple):
            self._details = self._details()
        return self._details

    @property
    def offsets(self) -> Offsets:
        return self.details()[0]

    @property
    def words(self) -> list[int]:
        return self.details()[1]


def join_pieces(parts: list[tuple[int, Pieces]], names: Mapping[int, str]) -> Pieces:
    """One text from stretches of it, each with the place where it starts."""

    def details() -> Details:
        offsets: Offsets = []
        words: list[int] = []
        for start, part in parts:
            count = words[-1] + 1 if words else 0
            offsets += [(a + start, b + start) for a, b in part.offsets]
            words += [word + count for word in part.words]
        return offsets, words

    return Pieces([i for _, part in parts for i in part.ids], details, join_tokens([p for _, p in parts], names))


def join_words(parts: list[Pieces], names: Mapping[int, str]) -> Pieces:
    """One text from its words: offsets count from the start of each word."""

    def details() -> Details:
        offsets = [pair for part in parts for pair in part.offsets]
        return offsets, [number for number, part in enumerate(parts) for _ in part.ids]

    return Pieces([i for part in parts for i in part.ids], details, join_tokens(parts, names))


def join_tokens(parts: list[Pieces], names: Mapping[int, str]) -> Callable[[], list[str]] | None:
    if not any(part.has_own_tokens for part in parts):
        return None
    return lambda: [token for part in parts for token in (part.tokens or [names[i] for i in part.ids])]


class Slot(NamedTuple):
    """One place in a model's input: a special token, or (`token_id` None) all of a text."""

    token_id: int | None
    sequence: int  # 0 the first text, 1 the second
    type_id: int


@dataclass(slots=True)
class EncodedRow:
    """One row of a batch: slots filled with a span of each text, and padding on either side."""

    slots: tuple[Slot, ...]
    texts: tuple[Pieces, ...]
    spans: tuple[tuple[int, int], ...]
    sample: int = 0
    truncated: bool = False
    left: int = 0
    right: int = 0

    def lay_out(self, special: Callable[[Slot], Any], text: Callable[[Slot, Pieces], Sequence[T]], pad: T) -> list[T]:
        """One value for each position, from a value for each kind of position."""
        values = [pad] * self.left
        for slot in self.slots:
            if slot.token_id is None:
                start, end = self.spans[slot.sequence]
                values += text(slot, self.texts[slot.sequence])[start:end]
            else:
                values.append(special(slot))
        return values + [pad] * self.right

    def ids(self, pad_id: int = 0) -> list[int]:
        return self.lay_out(lambda slot: slot.token_id, lambda slot, text: text.ids, pad_id)

    def type_ids(self, pad_id: int = 0) -> list[int]:
        return self.lay_out(lambda slot: slot.type_id, lambda slot, text: [slot.type_id] * len(text), pad_id)

    def attention_mask(self) -> list[int]:
        return [0] * self.left + [1] * len(self) + [0] * self.right

    def special_tokens_mask(self) -> list[int]:
        return self.lay_out(lambda slot: 1, lambda slot, text: [0] * len(text), 1)

    def offsets(self) -> Offsets:
        return self.lay_out(lambda slot: (0, 0), lambda slot, text: text.offsets, (0, 0))

    def words(self) -> list[int | None]:
        return self.lay_out(lambda slot: None, lambda slot, text: text.words, None)

    def sequences(self) -> list[int | None]:
        return self.lay_out(lambda slot: None, lambda slot, text: [slot.sequence] * len(text), None)

    def __len__(self) -> int:
        """Real positions: the padding does not count."""
        return sum(1 for slot in self.slots if slot.token_id is not None) + sum(
            end - start for start, end in self.spans
        )


class BatchEncoding(dict):
    """The encoded texts as a mapping that a model takes: `model(**encoding)`.

    Keys can be read as attributes (`encoding.input_ids`). `truncated` says for each row whether text was left out; it
    is an attribute and not a key, so it never reaches the model.
    """

    __slots__ = ("_names", "_pad_id", "_rows", "_single", "truncated")

    def __init__(
        self,
        data: Mapping[str, Any] | None = None,
        rows: Iterable[EncodedRow] = (),
        names: Mapping[int, str] | None = None,
        pad_id: int = 0,
        single: bool = False,
        tensor_type: str | None = None,
    ) -> None:
        super().__init__(data or {})
        self._rows = list(rows)
        self._names = names or {}
        self._pad_id = pad_id
        self._single = single
        self.truncated = [row.truncated for row in self._rows]
        if tensor_type is not None:
            self.convert_to_tensors(tensor_type)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this encoding has no {name!r}; it has {', '.join(self)}")

    def __reduce__(self) -> tuple:
        used = {i for row in self._rows for i in row.ids(self._pad_id)}
        names = {i: self._names[i] for i in used if i in self._names}  # and not the whole vocabulary
        return _rebuild, (dict(self), self._rows, names, self._pad_id, self._single, self.truncated)

    def copy(self) -> BatchEncoding:
        return _rebuild(dict(self), self._rows, self._names, self._pad_id, self._single, self.truncated)

    @property
    def data(self) -> dict[str, Any]:
        """The encoding itself; for code that expects the field of that name."""
        return self

    @property
    def encodings(self) -> list[EncodedRow]:
        """The rows as they were put together."""
        return self._rows

    def _row(self, index: int) -> EncodedRow:
        if not self._rows:
            raise InputError("this encoding was not made from text, it knows only its keys")
        if not -len(self._rows) <= index < len(self._rows):
            raise InputError(f"row {index} does not exist, the encoding has {len(self._rows)} rows")
        return self._rows[index]

    def tokens(self, batch_index: int = 0) -> list[str]:
        """The tokens of one row, special tokens and padding included."""
        return [self._names.get(i, f"<{i}>") for i in self._row(batch_index).ids(self._pad_id)]

    def word_ids(self, batch_index: int = 0) -> list[int | None]:
        """For each position of a row the number of its word, None for special tokens and padding."""
        return self._row(batch_index).words()

    def sequence_ids(self, batch_index: int = 0) -> list[int | None]:
        """For each position 0 or 1, the first or the second text; None for special tokens and padding."""
        return self._row(batch_index).sequences()

    def char_to_token(
        self, batch_or_char_index: int, char_index: int | None = None, sequence_index: int = 0
    ) -> int | None:
        """The position of the token that holds a character of the original text, None if no token does."""
        row = self._row(0 if char_index is None else batch_or_char_index)
        char = batch_or_char_index if char_index is None else char_index
        for position, (sequence, (start, end)) in enumerate(zip(row.sequences(), row.offsets(), strict=True)):
            if sequence == sequence_index and start <= char < end:
                return position
        return None

    def token_to_chars(self, batch_or_token_index: int, token_index: int | None = None) -> tuple[int, int] | None:
        """The characters (start, end) of the original text that a token stands for, None for a special token."""
        row, token = self._place(batch_or_token_index, token_index)
        return None if row.sequences()[token] is None else row.offsets()[token]

    def token_to_word(self, batch_or_token_index: int, token_index: int | None = None) -> int | None:
        """The number of the word that a token is part of, None for a special token."""
        row, token = self._place(batch_or_token_index, token_index)
        return row.words()[token]

    def token_to_sequence(self, batch_or_token_index: int, token_index: int | None = None) -> int | None:
        """0 or 1, the first or the second text that a token comes from, None for a special token."""
        row, token = self._place(batch_or_token_index, token_index)
        return row.sequences()[token]

    def word_to_tokens(
        self, batch_or_word_index: int, word_index: int | None = None, sequence_index: int = 0
    ) -> tuple[int, int] | None:
        """The positions (start, end) of a word's tokens, None if it has none."""
        row = self._row(0 if word_index is None else batch_or_word_index)
        wanted = (sequence_index, batch_or_word_index if word_index is None else word_index)
        held = [i for i, each in enumerate(zip(row.sequences(), row.words(), strict=True)) if each == wanted]
        return (held[0], held[-1] + 1) if held else None

    def _place(self, batch_or_token_index: int, token_index: int | None) -> tuple[EncodedRow, int]:
        """The row and the position that one index (of the first row) or two name."""
        row = self._row(0 if token_index is None else batch_or_token_index)
        token = batch_or_token_index if token_index is None else token_index
        if not -len(row.sequences()) <= token < len(row.sequences()):
            raise InputError(f"token {token} does not exist, the row has {len(row.sequences())} tokens")
        return row, token

    def to(self, device: str | int | torch.device) -> BatchEncoding:
        """Move all tensors to a device, in place."""
        for key, value in self.items():
            if hasattr(value, "to"):
                self[key] = value.to(device)
        return self

    def convert_to_tensors(self, tensor_type: str | None = None, prepend_batch_axis: bool = False) -> BatchEncoding:
        """Turn the lists into torch (`"pt"`) or numpy (`"np"`) arrays, in place."""
        if tensor_type is None:
            return self
        make = array_maker(tensor_type)
        for key, value in self.items():
            rows = [value] if self._single or prepend_batch_axis else value
            lengths = {len(row) for row in rows if isinstance(row, list)}
            if len(lengths) > 1:
                raise InputError(
                    f"{key} has rows of unequal length ({min(lengths)} to {max(lengths)}), which no tensor can hold; "
                    "pass padding=True, and truncation=True if some are too long"
                )
            self[key] = make(rows)
        self._single = False
        return self


def array_maker(tensor_type: str) -> Callable[[Any], Any]:
    """The function that makes arrays of the kind named."""
    if tensor_type == "pt":
        import torch

        return lambda rows: torch.tensor(rows, dtype=torch.long) if holds_whole_numbers(rows) else torch.tensor(rows)
    if tensor_type == "np":
        import numpy

        return lambda rows: numpy.array(rows, dtype=numpy.int64) if holds_whole_numbers(rows) else numpy.array(rows)
    raise InputError(f"return_tensors must be 'pt', 'np' or None, got {tensor_type!r}")


def holds_whole_numbers(rows: Any) -> bool:
    """Whether nested lists hold whole numbers, or nothing at all (then ids would have been whole numbers)."""
    while isinstance(rows, list | tuple):
        if not rows:
            return True
        rows = rows[0]
    return isinstance(rows, int) and not isinstance(rows, bool)


def _rebuild(
    data: dict, rows: list[EncodedRow], names: Mapping[int, str], pad_id: int, single: bool, truncated: list[bool]
) -> BatchEncoding:
    made = BatchEncoding(data, rows, names, pad_id, single)
    made.truncated = truncated
    return made
