"""Byte-pair encoding as one can read it: text -> parts -> bytes -> merges, each piece with its place in the text.

This is the original algorithm of GPT-2. The Rust engine does the same and is faster; this one is its oracle, explains
itself, and takes over wherever the two would differ (see `unicode_classes.py`).

1. The text is cut into parts, mostly a word with the space before it: nothing is ever merged across their borders.
2. A part becomes its UTF-8 bytes, each written as one printable character (a space is `Ġ`): its symbols.
3. Of all pairs of neighbouring symbols, the pair that stands first in the list of merges is joined wherever it occurs;
   again and again, until no pair is in the list. What is left are the tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ..engine.unicode_classes import LETTER_POINTS, NUMBER_POINTS

Pair = tuple[str, str]
WHITE_SPACE = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000").union(
    map(chr, range(0x2000, 0x200B))
)
CACHE_SIZE = 20_000  # words whose tokens are kept


class CharacterClasses(dict):
    """Translates each character to a letter that says what it is, and learns characters as they come.

    `L` is a letter, `N` a number, `W` white space, `O` anything else. A plain space, the apostrophe and the letters of
    English short forms stand for themselves, so that a pattern can find `'ll` and the one space before a word.
    """

    def __init__(self) -> None:
        super().__init__({ord(char): char for char in " 'stmdrevl"})

    def __missing__(self, point: int) -> str:
        if point in LETTER_POINTS:
            kind = "L"
        elif point in NUMBER_POINTS:
            kind = "N"
        else:
            kind = "W" if chr(point) in WHITE_SPACE else "O"
        self[point] = kind
        return kind


CHARACTER_CLASSES = CharacterClasses()
PART = re.compile(
    r"'(?:[stmd]|re|ve|ll)"  # a short form, in small letters only: 's 't 'm 'd 're 've 'll
    r"| ?[Lstmdrevl]+"  # letters, with one space before them
    r"| ?N+"  # a number, likewise
    r"| ?[O']+"  # signs, likewise
    r"|[W ]+(?![^W ])"  # white space at the end, or all but the last of it: that one belongs to what follows
    r"|[W ]+"
)


def parts(text: str) -> Iterator[tuple[int, int]]:
    """Where the parts of a text begin and end; together they are the whole text.

    >>> [" I'll  go 5km"[a:b] for a, b in parts(" I'll  go 5km")]
    [' I', "'ll", ' ', ' go', ' 5', 'km']
    """
    for found in PART.finditer(text.translate(CHARACTER_CLASSES)):
        yield found.span()


def byte_symbols() -> tuple[str, ...]:
    """For each byte the character that stands for it: itself where that is printable, or one from U+0100 on.

    >>> [byte_symbols()[byte] for byte in b"a \\n"]
    ['a', 'Ġ', 'Ċ']
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return tuple(chr(byte if byte in printable else next(others)) for byte in range(256))


SYMBOLS = byte_symbols()
BYTES = {symbol: byte for byte, symbol in enumerate(SYMBOLS)}


def symbols_of(part: str) -> str:
    """The bytes of a part, each as its symbol."""
    return "".join([SYMBOLS[byte] for byte in part.encode("utf-8")])


def bytes_of(tokens: Iterable[str]) -> bytes:
    """The bytes that tokens stand for; a character that stands for no byte gives its own."""
    raw = bytearray()
    for char in "".join(tokens):
        byte = BYTES.get(char)
        if byte is None:
            raw += char.encode("utf-8", "surrogatepass")
        else:
            raw.append(byte)
    return bytes(raw)


def byte_origins(part: str, start: int) -> Sequence[int]:
    """For each byte of a part the position of its character in the text."""
    if part.isascii():
        return range(start, start + len(part))
    return [start + i for i, char in enumerate(part) for _ in char.encode("utf-8")]


class Merge(NamedTuple):
    """One step: a pair of symbols, its rank in the list of merges, and how often it was joined."""

    left: str
    right: str
    rank: int
    times: int


class Merges:
    """The list of pairs that are joined, the most important first."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.ranks: dict[Pair, int] = {pair: rank for rank, pair in enumerate(pairs)}
        self._cache: dict[tuple[str, ...], list[str]] = {}

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def pairs(self) -> list[Pair]:
        """The pairs in their order."""
        return sorted(self.ranks, key=self.ranks.__getitem__)

    def in_order(self) -> bool:
        """Whether every symbol is made before the merges that use it, as in every list that training gives.

        The engine joins one pair at a time and might then find a better one; only in such a list it never does.
        """
        made = {left + right: rank for (left, right), rank in self.ranks.items()}
        return all(max(made.get(a, -1), made.get(b, -1)) < rank for (a, b), rank in self.ranks.items())

    def tokens(self, symbols: Sequence[str]) -> list[str]:
        """The tokens of a part, remembered if it is short."""
        key = tuple(symbols)
        known = self._cache.get(key)
        if known is None:
            known = self.apply(symbols)
            if len(key) < 64 and len(self._cache) < CACHE_SIZE:
                self._cache[key] = known
        return known

    def apply(self, symbols: Sequence[str], steps: list[Merge] | None = None) -> list[str]:
        """Join pairs until none is left that is in the list. Each step is written into `steps`, if a list is given.

        The candidates wait in a heap, by rank and place, and each symbol knows its neighbours: so a word of a million
        letters takes no longer per letter than a short one.
        """
        tokens = list(symbols)  # one that has been joined to the one before it is empty
        before = list(range(-1, len(tokens) - 1))
        after = list(range(1, len(tokens) + 1))
        end = len(tokens)
        rank_of = self.ranks.get
        waiting = [(r, i) for i in range(end - 1) if (r := rank_of((tokens[i], tokens[i + 1]))) is not None]
        heapify(waiting)
        while waiting:
            rank, times, new, left, right = waiting[0][0], 0, [], "", ""
            while waiting and waiting[0][0] == rank:  # everywhere, from left to right
                place = heappop(waiting)[1]
                other = after[place]
                if other == end or rank_of((tokens[place], tokens[other])) != rank:
                    continue  # one of the two has been joined to something else meanwhile
                left, right = tokens[place], tokens[other]
                tokens[place], tokens[other] = left + right, ""
                after[place] = after[other]
                if after[place] != end:
                    before[after[place]] = place
                    new.append(place)
                if before[place] >= 0:
                    new.append(before[place])
                times += 1
            for place in new:
                if tokens[place] and after[place] != end:
                    next_rank = rank_of((tokens[place], tokens[after[place]]))
                    if next_rank is not None:
                        heappush(waiting, (next_rank, place))
            if steps is not None and times:
                steps.append(Merge(left, right, rank, times))
        return [token for token in tokens if token]
