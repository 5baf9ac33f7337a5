"""Span corruption, the pre-training of T5: sentinels replace some spans, and the target holds these."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InputError


def corrupt_spans(
    ids: np.ndarray,
    generator: np.random.Generator,
    *,
    sentinels: Sequence[int],
    end_id: int,
    fraction: float = 0.15,
    mean_length: float = 3.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Mask `fraction` of the tokens in spans of `mean_length` on average; the input and the target of a seq2seq model.

    Every span is replaced by a sentinel of its own; the target is every sentinel with its span, one more sentinel and
    the end. Both end in `end_id`. At least one span is masked, and two spans are never adjacent.

    >>> hidden, target = corrupt_spans(np.arange(10, 20), np.random.default_rng(1), sentinels=[99, 98, 97], end_id=1)
    >>> hidden.tolist(), target.tolist()
    ([10, 11, 12, 13, 14, 15, 16, 17, 99, 1], [99, 18, 19, 98, 1])
    """
    count = len(ids)
    if count < 2:
        raise InputError(f"span corruption needs at least two tokens, got {count}")
    if not 0 < fraction < 1 or mean_length < 1:
        raise InputError(f"fraction must be between 0 and 1 and mean_length at least 1, got {fraction}, {mean_length}")
    hidden, spans = count_spans(count, fraction, mean_length)
    if spans >= len(sentinels):
        raise InputError(f"{spans} spans need {spans + 1} sentinels, got {len(sentinels)}; cut the text into pieces")
    lengths = random_partition(hidden, spans, generator)
    gaps = random_partition(count - hidden, spans, generator)  # what stands before each span: never nothing
    text: list[int] = []
    target: list[int] = []
    place = 0
    for gap, length, sentinel in zip(gaps, lengths, sentinels, strict=False):
        text += [*ids[place : place + gap].tolist(), sentinel]
        target += [sentinel, *ids[place + gap : place + gap + length].tolist()]
        place += gap + length
    return np.array([*text, end_id]), np.array([*target, sentinels[spans], end_id])


def count_spans(count: int, fraction: float = 0.15, mean_length: float = 3.0) -> tuple[int, int]:
    """How many of so many tokens are masked, and in how many spans.

    >>> count_spans(568)
    (85, 28)
    """
    hidden = min(max(round(count * fraction), 1), count - 1)
    return hidden, min(max(round(hidden / mean_length), 1), hidden, count - hidden)


def lengths_of_pair(count: int, fraction: float = 0.15, mean_length: float = 3.0) -> tuple[int, int]:
    """How long the input and the target of so many tokens are, with sentinels and ends.

    >>> lengths_of_pair(568)
    (512, 115)
    """
    hidden, spans = count_spans(count, fraction, mean_length)
    return count - hidden + spans + 1, hidden + spans + 2


def longest_block(context: int, fraction: float = 0.15, mean_length: float = 3.0) -> int:
    """How many tokens make an input of at most `context`, once their spans are masked.

    >>> longest_block(512)
    568
    """
    count = 2
    while lengths_of_pair(count + 1, fraction, mean_length)[0] <= context:
        count += 1
    return count


def random_partition(total: int, count: int, generator: np.random.Generator) -> list[int]:
    """`total` as a sum of `count` numbers of at least one, uniformly sampled.

    >>> sum(random_partition(10, 3, np.random.default_rng(0)))
    10
    """
    cuts = np.sort(generator.permutation(total - 1)[: count - 1]) + 1
    return np.diff([0, *cuts.tolist(), total]).tolist()


def restore_spans(hidden: Sequence[int], target: Sequence[int], sentinels: Sequence[int], end_id: int) -> list[int]:
    """The ids that `corrupt_spans` was given: every sentinel of the input replaced by what the target has for it.

    >>> restore_spans([10, 99, 12, 1], [99, 11, 98, 1], [99, 98], 1)
    [10, 11, 12]
    """
    known, spans, now = set(sentinels), {}, []
    for token in target:
        if token in known:
            now = spans.setdefault(token, [])
        elif token != end_id:
            now.append(token)
    restored: list[int] = []
    for token in hidden:
        if token in known and token not in spans:
            raise InputError(f"the target does not contain what sentinel {token} hides")
        restored += spans[token] if token in known else [token] if token != end_id else []
    return restored
