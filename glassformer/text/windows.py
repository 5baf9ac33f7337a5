"""Making texts fit: how many tokens of each text stay, and the windows over what does not fit."""

from __future__ import annotations

from ..errors import InputError

Span = tuple[int, int]


def lengths_that_fit(lengths: list[int], room: int, strategy: str) -> list[int]:
    """How many tokens of each text (one or two) remain when together they may take `room`.

    >>> lengths_that_fit([7, 30], 13, "longest_first")
    [7, 6]
    """
    excess = sum(lengths) - room
    if excess <= 0:
        return lengths
    if strategy == "longest_first":
        if len(lengths) == 1:
            return [room]
        # Taking tokens off the longer text one by one (off the second, if equal) ends at one of these.
        first, second = lengths
        if first > second and room >= 2 * second:
            return [room - second, second]
        if second >= first and room >= 2 * first:
            return [first, room - first]
        return [room - room // 2, room // 2]
    which = 0 if strategy == "only_first" else 1
    if which == len(lengths):
        raise InputError("truncation='only_second' needs a second text, got one text only")
    if excess >= lengths[which]:
        raise InputError(
            f"truncation={strategy!r} cannot make the texts fit: {sum(lengths)} tokens, room for {room}, and only "
            f"{lengths[which]} of them may go; use truncation='longest_first' or a larger max_length"
        )
    return [n - excess if i == which else n for i, n in enumerate(lengths)]


def windows(length: int, size: int, stride: int, side: str) -> list[Span]:
    """Stretches of at most `size` tokens that cover a text; each repeats `stride` tokens of the one before.

    >>> windows(10, 4, 1, "right")
    [(0, 4), (3, 7), (6, 10)]
    """
    if length <= size:
        return [(0, length)]
    if size == 0:
        return [(0, 0), (0, length)]
    if stride >= size:
        raise InputError(f"stride must be smaller than the {size} tokens of text that a window holds, got {stride}")
    step = size - stride
    if side == "right":
        count = 1 + -(-(length - size) // step)
        return [(i * step, min(i * step + size, length)) for i in range(count)]
    return [(length - end, length - start) for start, end in windows(length, size, stride, "right")]


def pair_windows(first: list[Span], second: list[Span]) -> list[tuple[Span, Span]]:
    """Rows for two texts: what fits first, then every combination with a window that did not fit."""
    combined = [(first[0], second[0])]
    for a in first[1:]:
        combined += [(a, b) for b in second]
    combined += [(first[0], b) for b in second[1:]]
    return combined
