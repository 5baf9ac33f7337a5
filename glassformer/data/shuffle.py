"""Rows in another order, and rows in two parts; always the same for the same seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from ..errors import InputError, suggests
from ..text.base.text_inputs import describe

Item = TypeVar("Item")


@suggests
def shuffled(rows: Iterable[Item], buffer: int = 10_000, seed: int = 0) -> Iterator[Item]:
    """The rows in random order, with no more than `buffer` of them in memory.

    If all fit into the buffer, every order is as likely as any other. If not, a row comes at most `buffer` places too
    early; so a file that is sorted by label wants a large buffer. For another order in each epoch pass another seed.

    >>> list(shuffled(range(8), seed=1))
    [1, 5, 4, 7, 6, 3, 2, 0]
    """
    check_rows(rows)
    if not is_integer(buffer) or buffer < 1:
        raise InputError(f"buffer must be an integer of at least 1, got {describe(buffer)}")
    check_seed(seed)
    return shuffle(rows, buffer, seed)


def shuffle(rows: Iterable[Item], buffer: int, seed: int) -> Iterator[Item]:
    # Of all methods of Random, only random() promises the same numbers in every release of Python.
    random = Random(seed).random
    held: list[Item] = []
    for row in rows:
        if len(held) < buffer:
            held.append(row)
            continue
        place = int(random() * buffer)
        yield held[place]
        held[place] = row
    while held:
        place = int(random() * len(held))
        held[place], held[-1] = held[-1], held[place]
        yield held.pop()


@suggests
def split(rows: Iterable[Item], fraction: float, seed: int = 0) -> tuple[Part, Part]:
    """Two parts of the rows, such as for training and validation; about `fraction` of them are in the second.

    Where a row goes depends on its number and the seed alone: the parts are the same in every run, and rows added at
    the end move no others. Both parts read the rows anew, so these must be a list, or what `read_rows` gives.

    >>> training, validation = split(["a", "b", "c", "d", "e", "f"], 0.3)
    >>> list(training), list(validation)
    (['a', 'b', 'c', 'e', 'f'], ['d'])
    """
    check_rows(rows)
    if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 < fraction < 1:
        raise InputError(f"fraction must be a number between 0 and 1, got {describe(fraction)}")
    if isinstance(rows, Iterator):
        raise InputError(f"rows must be readable twice, as a list or what read_rows gives is, got {describe(rows)}")
    check_seed(seed)
    return Part(rows, fraction, seed, is_second=False), Part(rows, fraction, seed, is_second=True)


@dataclass
class Part:
    """One of two parts of some rows; iterate as often as the rows allow."""

    rows: Iterable[Any]
    fraction: float
    seed: int
    is_second: bool

    def __iter__(self) -> Iterator[Any]:
        for number, row in enumerate(self.rows):
            if (chance(number, self.seed) < self.fraction) is self.is_second:
                yield row


def chance(number: int, seed: int) -> float:
    """A number from 0 up to 1 that belongs to a row's number."""
    digest = hashlib.blake2b(f"{seed}:{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def check_rows(rows: Any) -> None:
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | dict):
        raise InputError(f"rows must be a list of rows, or what read_rows gives, got {describe(rows)}")


def check_seed(seed: Any) -> None:
    if not is_integer(seed):
        raise InputError(f"seed must be an integer, got {describe(seed)}")


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
