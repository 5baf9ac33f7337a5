"""When a text is finished although no token says so."""

from __future__ import annotations

from collections.abc import Callable

MARGIN = 8  # tokens beyond the letters of a stop string in which its beginning may hide


def stop_strings(strings: str | list[str] | None, tokenizer) -> Callable[[list[int]], bool]:
    """Whether new tokens contain one of the strings, looked for where the last token can have finished it."""
    if not strings:
        return lambda tokens: False
    wanted = [strings] if isinstance(strings, str) else list(strings)
    tail = max(len(string.encode()) for string in wanted) + MARGIN

    def says_stop(tokens: list[int]) -> bool:
        text = tokenizer.decode(tokens[-tail:], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return any(string in text for string in wanted)

    return says_stop
