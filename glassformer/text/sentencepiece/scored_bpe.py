"""Byte-pair encoding as SentencePiece has it: the pair of neighbours whose joined piece scores highest is joined first.

There is no list of merges: two pieces are joined if the vocabulary has the result. Of pairs with equal scores the one
that stands first is joined. User-defined symbols are never joined; unused pieces are taken apart again at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ..base.special_tokens import any_of
from .model_file import NORMAL, UNUSED, USER_DEFINED, Piece
from .normalizer import SPACE
from .unigram import CACHE_SIZE, LONGEST_WORD


class Merge(NamedTuple):
    """One step: the two pieces that were joined, where, and the score of the result."""

    start: int
    left: str
    right: str
    score: float


class ScoredBpe:
    """A vocabulary with scores that cuts normalised text into pieces.

    >>> pieces = [Piece("a", -3.0), Piece("b", -4.0), Piece("ab", -1.0)]
    >>> ScoredBpe(pieces, [0, 1, 2], unknown=3).segment("abac")
    [2, 0, 3]
    """

    def __init__(self, pieces: Sequence[Piece], ids: Sequence[int], unknown: int) -> None:
        self.unknown = unknown
        usable = [
            (each, index)
            for each, index in zip(pieces, ids, strict=True)
            if each.kind in (NORMAL, USER_DEFINED, UNUSED)
        ]
        self.scores = {piece.text: piece.score for piece, _ in usable}
        self.ids = {piece.text: index for piece, index in usable}
        self.lengths = {index: len(piece.text) for piece, index in zip(pieces, ids, strict=True)}
        self.lengths[unknown] = 1
        self._unused = {piece.text for piece, _ in usable if piece.kind == UNUSED}
        self._symbols = any_of(piece.text for piece, _ in usable if piece.kind == USER_DEFINED)
        self._divides_at_spaces = not any(SPACE in text[1:] for text in self.scores)
        self._known: dict[str, list[int]] = {}

    def segment(self, text: str) -> list[int]:
        """The ids of the pieces; of unknown characters, each by itself."""
        ids: list[int] = []
        for word in self._words(text):
            found = self._known.get(word)
            if found is None:
                found = [self.ids.get(piece, self.unknown) for piece in self.merge(word)]
                if len(self._known) >= CACHE_SIZE:
                    self._known.clear()
                if len(word) <= 2 * LONGEST_WORD:
                    self._known[word] = found
            ids += found
        return ids

    def _words(self, text: str) -> Iterable[str]:
        if not self._divides_at_spaces or SPACE not in text:
            return [text]
        first, *others = text.split(SPACE)
        return ([first] if first else []) + [SPACE + word for word in others]

    def merge(self, text: str, steps: list[Merge] | None = None) -> list[str]:
        """Join pieces until no two neighbours make one. Each step is written into `steps`, if a list is given."""
        tokens, is_fixed = self._characters(text)
        end = len(tokens)
        before = list(range(-1, end - 1))
        after = list(range(1, end + 1))
        places = [0]
        for token in tokens:
            places.append(places[-1] + len(token))
        made_of: dict[str, tuple[str, str]] = {}
        waiting: list[tuple[float, int, int, int]] = []

        def candidate(left: int, right: int) -> tuple[float, int, int, int] | None:
            if left < 0 or right >= end or is_fixed[left] or is_fixed[right]:
                return None
            piece = tokens[left] + tokens[right]
            score = self.scores.get(piece)
            if score is None:
                return None
            if piece in self._unused:
                made_of[piece] = tokens[left], tokens[right]
            return -score, left, right, len(piece)

        waiting = [found for i in range(end - 1) if (found := candidate(i, i + 1)) is not None]
        heapify(waiting)
        while waiting:
            score, left, right, length = heappop(waiting)
            if not tokens[left] or not tokens[right] or len(tokens[left]) + len(tokens[right]) != length:
                continue  # one of the two has been joined to something else meanwhile
            if steps is not None:
                steps.append(Merge(places[left], tokens[left], tokens[right], -score))
            tokens[left], tokens[right] = tokens[left] + tokens[right], ""
            after[left] = after[right]
            if after[left] < end:
                before[after[left]] = left
            for found in (candidate(before[left], left), candidate(left, after[left])):
                if found is not None:
                    heappush(waiting, found)
        return [part for token in tokens if token for part in self._apart(token, made_of)]

    def _characters(self, text: str) -> tuple[list[str], list[bool]]:
        """What the merging begins with: characters, and user-defined symbols, which stay as they are."""
        tokens: list[str] = []
        is_fixed: list[bool] = []
        place = 0
        while place < len(text):
            symbol = self._symbols.match(text, place) if self._symbols else None
            tokens.append(symbol.group() if symbol else text[place])
            is_fixed.append(symbol is not None)
            place += len(tokens[-1])
        return tokens, is_fixed

    def _apart(self, token: str, made_of: dict[str, tuple[str, str]]) -> list[str]:
        if token not in self._unused or token not in made_of:
            return [token]
        left, right = made_of[token]
        return [*self._apart(left, made_of), *self._apart(right, made_of)]
