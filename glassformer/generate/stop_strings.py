"""Strings that end a text wherever they occur in it."""

from __future__ import annotations

from collections.abc import Callable

MARGIN = 8  # more tokens than the bytes of a stop string, since its first token may begin earlier


def stop_string_check(strings: str | list[str] | None, tokenizer) -> Callable[[list[int]], bool]:
    """A function that says whether new tokens contain one of the strings; it reads only as many as the last token can
    have completed."""
    if not strings:
        return lambda tokens: False
    strings = [strings] if isinstance(strings, str) else list(strings)
    tail = max(len(string.encode()) for string in strings) + MARGIN

    def ends_with_stop_string(tokens: list[int]) -> bool:
        text = tokenizer.decode(tokens[-tail:], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return any(string in text for string in strings)

    return ends_with_stop_string
