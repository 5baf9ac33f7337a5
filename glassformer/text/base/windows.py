"""Rows that fit: special tokens around the texts, truncated to a length, or spread over several windows."""

from __future__ import annotations

from ...errors import InputError
from ..encoding import EncodedRow, Pieces, Slot
from .encoding_options import Options

Span = tuple[int, int]


def lengths_that_fit(lengths: list[int], available: int, strategy: str) -> list[int]:
    """How many tokens of each text (one or two) remain when together they may take `available`.

    >>> lengths_that_fit([7, 30], 13, "longest_first")
    [7, 6]
    """
    excess = sum(lengths) - available
    if excess <= 0:
        return lengths
    if strategy == "longest_first":
        if len(lengths) == 1:
            return [available]
        # Taking tokens off the longer text one by one (off the second, if equal) ends at one of these.
        first, second = lengths
        if first > second and available >= 2 * second:
            return [available - second, second]
        if second >= first and available >= 2 * first:
            return [first, available - first]
        return [available - available // 2, available // 2]
    which = 0 if strategy == "only_first" else 1
    if which == len(lengths):
        raise InputError("truncation='only_second' needs a second text, got one text only")
    if excess >= lengths[which]:
        raise InputError(
            f"truncation={strategy!r} cannot make the texts fit: {sum(lengths)} tokens, {available} fit, and only "
            f"{lengths[which]} of them may go; use truncation='longest_first' or a larger max_length"
        )
    return [n - excess if i == which else n for i, n in enumerate(lengths)]


def windows(length: int, size: int, stride: int, side: str) -> list[Span]:
    """Spans of at most `size` tokens that cover a text; each repeats `stride` tokens of the one before.

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
    """Rows for two texts: the first windows of both, then every combination with a further window."""
    combined = [(first[0], second[0])]
    for a in first[1:]:
        combined += [(a, b) for b in second]
    combined += [(first[0], b) for b in second[1:]]
    return combined


def template_without_special_tokens(count: int) -> tuple[Slot, ...]:
    """One text or two, without special tokens."""
    return tuple(Slot(None, i, i) for i in range(count))


def special_count(slots: tuple[Slot, ...]) -> int:
    """How many special tokens a template has."""
    return sum(slot.token_id is not None for slot in slots)


def rows_of(
    sample: int, texts: tuple[Pieces, ...], slots: tuple[Slot, ...], limit: int | None, options: Options, side: str
) -> list[EncodedRow]:
    """One text or pair as a row, or as several when it does not fit and the rest is wanted too."""
    lengths = [len(text) for text in texts]
    extra = special_count(slots)
    if limit is None or sum(lengths) + extra <= limit:
        return [EncodedRow(slots, texts, tuple((0, n) for n in lengths), sample)]
    if limit < extra:
        raise InputError(f"max_length must be at least {extra}, the number of special tokens, got {limit}")
    kept = lengths_that_fit(lengths, limit - extra, options.truncates)
    stride = options.stride if options.return_overflowing_tokens else 0
    parts = [windows(n, size, stride, side) for n, size in zip(lengths, kept, strict=True)]
    spans = [(span,) for span in parts[0]] if len(parts) == 1 else pair_windows(*parts)
    if not options.return_overflowing_tokens:
        spans = spans[:1]
    return [EncodedRow(slots, texts, span, sample, truncated=True) for span in spans]
