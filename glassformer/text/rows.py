"""Pieces of texts -> rows: special tokens around them, cut to what fits, or spread over several windows."""

from __future__ import annotations

from ..errors import InputError
from .encoding import Pieces, Row, Slot
from .options import Options
from .windows import lengths_that_fit, pair_windows, windows


def bare_template(count: int) -> tuple[Slot, ...]:
    """One text or two, without special tokens."""
    return tuple(Slot(None, i, i) for i in range(count))


def special_count(slots: tuple[Slot, ...]) -> int:
    """How many special tokens a template has."""
    return sum(slot.token_id is not None for slot in slots)


def rows_of(
    sample: int, texts: tuple[Pieces, ...], slots: tuple[Slot, ...], limit: int | None, options: Options, side: str
) -> list[Row]:
    """One text or pair as a row, or as several when it does not fit and the rest is wanted too."""
    lengths = [len(text) for text in texts]
    extra = special_count(slots)
    if limit is None or sum(lengths) + extra <= limit:
        return [Row(slots, texts, tuple((0, n) for n in lengths), sample)]
    if limit < extra:
        raise InputError(f"max_length must be at least {extra}, the number of special tokens, got {limit}")
    kept = lengths_that_fit(lengths, limit - extra, options.truncates)
    stride = options.stride if options.return_overflowing_tokens else 0
    parts = [windows(n, size, stride, side) for n, size in zip(lengths, kept, strict=True)]
    spans = [(span,) for span in parts[0]] if len(parts) == 1 else pair_windows(*parts)
    if not options.return_overflowing_tokens:
        spans = spans[:1]
    return [Row(slots, texts, span, sample, truncated=True) for span in spans]
