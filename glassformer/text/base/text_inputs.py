"""Reading what a caller passes to a tokenizer: one text or many, alone or in pairs, as strings or as words."""

from __future__ import annotations

from typing import Any

from ...errors import InputError

Text = str | list[str]  # a string, or the words of one


def read_texts(text: Any, pair: Any, words: bool) -> tuple[list[Text], list[Text] | None, bool]:
    """First texts, second texts (or None), and whether the caller gave one text instead of a batch."""
    if is_one(text, words):
        first = read_one(text, words, "text")
        return [first], None if pair is None else [read_one(pair, words, "text_pair")], True
    rows = read_rows(text, "text")
    if pair is not None:
        seconds = read_rows(pair, "text_pair")
        if len(seconds) != len(rows):
            raise InputError(f"text and text_pair must be equally many, got {len(rows)} and {len(seconds)}")
        firsts = [read_one(row, words, f"text {i}") for i, row in enumerate(rows)]
        return firsts, [read_one(row, words, f"text_pair {i}") for i, row in enumerate(seconds)], False
    if is_pair(rows[0], words):
        for i, row in enumerate(rows):
            if not is_pair(row, words):
                raise InputError(f"text {i} must be a pair like text 0, got {describe(row)}")
        firsts = [read_one(row[0], words, f"text {i}, first of the pair") for i, row in enumerate(rows)]
        return firsts, [read_one(row[1], words, f"text {i}, second of the pair") for i, row in enumerate(rows)], False
    return [read_one(row, words, f"text {i}") for i, row in enumerate(rows)], None, False


def is_one(text: Any, words: bool) -> bool:
    """Whether this is one text, and not a batch of them."""
    return isinstance(text, str) or (
        words and isinstance(text, list | tuple) and bool(text) and isinstance(text[0], str)
    )


def is_pair(row: Any, words: bool) -> bool:
    """Whether a row of a batch holds two texts."""
    if not isinstance(row, list | tuple) or len(row) != 2:
        return False
    return isinstance(row[0], list | tuple) if words else True


def read_rows(rows: Any, name: str) -> list | tuple:
    """Refuse what is no batch."""
    if not isinstance(rows, list | tuple):
        hint = "; make it a list first" if hasattr(rows, "__iter__") and not isinstance(rows, bytes) else ""
        raise InputError(f"{name} must be a string or a list of strings, got {describe(rows)}{hint}")
    if not rows:
        raise InputError(f"{name} is an empty list, there is nothing to encode")
    return rows


def read_one(text: Any, words: bool, name: str) -> Text:
    """Refuse what is not one text."""
    if words:
        if not isinstance(text, list | tuple):
            raise InputError(f"{name} must be a list of words (is_split_into_words=True), got {describe(text)}")
        if not text:
            raise InputError(f"{name} is an empty list of words")
        for i, word in enumerate(text):
            if not isinstance(word, str):
                raise InputError(f"{name}, word {i} must be a string, got {describe(word)}")
        return list(text)
    if not isinstance(text, str):
        hint = ""
        if isinstance(text, bytes):
            hint = "; decode it first, text.decode('utf-8')"
        elif isinstance(text, list | tuple):
            hint = "; for a text given as words pass is_split_into_words=True"
        raise InputError(f"{name} must be a string, got {describe(text)}{hint}")
    return text


def describe(value: Any) -> str:
    """The type of a value and what fits of it into a line."""
    shown = repr(value)
    return "None" if value is None else f"{type(value).__name__} {shown if len(shown) <= 60 else shown[:57] + '...'}"


def read_ids(ids: Any, name: str = "ids") -> list[int]:
    """Ids from a list, a tensor or an array; one number counts as a list of one."""
    if hasattr(ids, "tolist"):
        ids = ids.tolist()
    if isinstance(ids, int) and not isinstance(ids, bool):
        return [ids]
    if not isinstance(ids, list | tuple | range):
        raise InputError(f"{name} must be whole numbers in a list or a tensor, got {describe(ids)}")
    read = [int(i) if hasattr(i, "__index__") and not isinstance(i, bool) else i for i in ids]
    for position, value in enumerate(read):
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputError(f"{name} at position {position} must be a whole number, got {describe(value)}")
    return read
