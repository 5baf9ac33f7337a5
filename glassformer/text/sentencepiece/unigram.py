"""Unigram segmentation: of all ways to cut a text into pieces of the vocabulary, the one with the highest score.

Each piece has a score, the logarithm of its probability, and the score of a segmentation is their sum. Viterbi's
algorithm finds the best: from left to right it keeps, for each place of the text, the best way to get there. Where no
piece is a single character, that character can be an unknown piece, at a score below all others.

The sums are those of the original, in single precision and in its order, so that near ties are decided alike. A place
that no piece goes across divides the text: what stands between two such places is cut by itself and remembered, unless
two ways through it are so close that rounding could decide; then it is cut again with the sum that leads to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, compress
from operator import add, itemgetter, not_
from typing import NamedTuple, cast

from .model_file import NORMAL, USER_DEFINED, Piece
from .normalizer import SPACE

UNKNOWN_PENALTY = 10.0  # how far an unknown character is below the least score
CACHE_SIZE = 100_000  # stretches of text whose pieces are kept
LONGEST_WORD = 24  # characters; a longer one is divided where no piece goes across
PRECISION = 2.0**23  # a float has so many steps between a number and its double


class Step(NamedTuple):
    """A piece that could end at a place, and the score of the best segmentation that ends with it."""

    start: int
    end: int
    piece: str
    token_id: int
    score: float  # of the piece
    total: float  # of the segmentation up to its end
    is_best: bool  # whether no other is better at this place


class Unigram:
    """A vocabulary with scores that cuts normalised text into pieces.

    >>> pieces = [Piece("a", -1.0), Piece("b", -2.0), Piece("ab", -2.5)]
    >>> Unigram(pieces, [0, 1, 2], unknown=3).segment("abac")
    [2, 0, 3]
    """

    def __init__(self, pieces: Sequence[Piece], ids: Sequence[int], unknown: int) -> None:
        """`ids` are the numbers of the pieces in the result, `unknown` that of a character without a piece."""
        self.unknown = unknown
        least = min((piece.score for piece in pieces if piece.kind == NORMAL), default=0.0)
        self.unknown_score = rounded(least - UNKNOWN_PENALTY)
        self.pieces: dict[str, tuple[float, int]] = {}
        for piece, index in zip(pieces, ids, strict=True):
            if piece.kind == NORMAL:
                self.pieces[piece.text] = piece.score, index
            elif piece.kind == USER_DEFINED:  # above all others, so that it is always chosen
                self.pieces[piece.text] = 0.0, index
        self.lengths = {index: len(piece.text) for piece, index in zip(pieces, ids, strict=True)}
        self.lengths[unknown] = 1
        self._scores = {index: score for score, index in self.pieces.values()} | {unknown: self.unknown_score}
        self._steepest = max(abs(self.unknown_score), *map(abs, self._scores.values()))  # a character costs no more
        self._longest: dict[str, int] = {}  # the longest piece that begins with two characters
        for text in self.pieces:
            self._longest[text[:2]] = max(len(text), self._longest.get(text[:2], 1))
        self._divides_at_spaces = not any(SPACE in text[1:] for text in self.pieces)
        self._pairs: set[str] = set()  # of neighbours within a piece
        self._known: dict[str, tuple[float, list[int]]] = {}

    def segment(self, text: str) -> list[int]:
        """The ids of the pieces of the best segmentation; of unknown characters, each by itself."""
        parts = self._parts(text)
        found = list(map(self._known.get, parts))
        if None in found:
            found = [cut or self._remember(part) for cut, part in zip(found, parts, strict=True)]
        cuts = cast("list[tuple[float, list[int]]]", found)
        steepest = len(text) * self._steepest
        if not cuts or min(map(itemgetter(0), cuts)) >= steepest:
            return list(chain.from_iterable(map(itemgetter(1), cuts)))
        ids: list[int] = []
        done, total = 0, array("f", [0.0])
        for part, (limit, cut) in zip(parts, cuts, strict=True):
            if limit < steepest:  # near ties are decided by the rounding of the sum so far
                for index in ids[done:]:
                    total[0] += self._scores[index]
                done = len(ids)
                cut = [step.token_id for step in best_path(self.steps(part, total[0]))]
            ids += cut
        return ids

    def _parts(self, text: str) -> list[str]:
        """The text, divided at places that no piece goes across."""
        if not self._divides_at_spaces or not text:
            words = [text]
        elif text[0] == SPACE:
            words = [SPACE + word for word in text[1:].split(SPACE)]
        else:
            first, *others = text.split(SPACE)
            words = [first, *(SPACE + word for word in others)]
        if len(text) <= LONGEST_WORD or max(map(len, words)) <= LONGEST_WORD:
            return words
        return [part for word in words for part in (self._divide(word) if len(word) > LONGEST_WORD else [word])]

    def _divide(self, word: str) -> list[str]:
        if not self._pairs:
            self._pairs = {text[i : i + 2] for text in self.pieces for i in range(len(text) - 1)} or {""}
        is_inside = map(self._pairs.__contains__, map(add, word, word[1:]))
        places = list(compress(range(1, len(word)), map(not_, is_inside)))
        return [word[start:end] for start, end in zip([0, *places], [*places, len(word)], strict=True)]

    def _remember(self, part: str) -> tuple[float, list[int]]:
        """The pieces of a part, and how large sums may be before their rounding could decide otherwise."""
        end = len(part)
        best = [0.0] + [-float("inf")] * end
        second = [-float("inf")] * (end + 1)
        came = [0] * (end + 1)
        indices = [0] * (end + 1)
        longest, pieces = self._longest, self.pieces
        for start in range(end):
            total = best[start]
            is_single = False
            for stop in range(start + 1, min(start + longest.get(part[start : start + 2], 1), end) + 1):
                piece = pieces.get(part[start:stop])
                if piece is None:
                    continue
                candidate = piece[0] + total
                if candidate > best[stop]:
                    second[stop], best[stop] = best[stop], candidate
                    came[stop], indices[stop] = start, piece[1]
                elif candidate > second[stop]:
                    second[stop] = candidate
                if stop == start + 1:
                    is_single = True
            if not is_single:
                candidate, stop = self.unknown_score + total, start + 1
                if candidate > best[stop]:
                    second[stop], best[stop] = best[stop], candidate
                    came[stop], indices[stop] = start, self.unknown
                elif candidate > second[stop]:
                    second[stop] = candidate
        ids, margin, place = [], float("inf"), end
        while place:
            margin = min(margin, best[place] - second[place])
            ids.append(indices[place])
            place = came[place]
        found = margin * PRECISION / (end + 1), ids[::-1]
        if len(self._known) >= CACHE_SIZE:
            self._known.clear()
        if end <= 2 * LONGEST_WORD:
            self._known[part] = found
        return found

    def steps(self, text: str, total: float = 0.0) -> list[Step]:
        """The lattice: every piece that can stand somewhere in a text, as the original considers them."""
        totals = array("f", [total]) + array("f", bytes(4 * len(text)))
        best: dict[int, int] = {}  # the number of the step that is best at a place
        steps: list[Step] = []
        for start in range(len(text)):
            found = []
            for end in range(start + 1, min(start + self._longest.get(text[start : start + 2], 1), len(text)) + 1):
                piece = self.pieces.get(text[start:end])
                if piece is not None:
                    found.append((end, rounded(piece[0] + totals[start]), *piece))
            if not found or found[0][0] > start + 1:
                unknown = rounded(self.unknown_score + totals[start])
                found.append((start + 1, unknown, self.unknown_score, self.unknown))
            for end, candidate, score, index in found:
                is_best = end not in best or candidate > totals[end]
                if is_best:
                    if end in best:
                        steps[best[end]] = steps[best[end]]._replace(is_best=False)
                    best[end], totals[end] = len(steps), candidate
                steps.append(Step(start, end, text[start:end], index, score, candidate, is_best))
        return steps


def best_path(steps: Sequence[Step]) -> list[Step]:
    """The best segmentation, followed back from the end."""
    ending = {step.end: step for step in steps if step.is_best}
    place = max(ending, default=0)
    path = []
    while place in ending:
        path.append(ending[place])
        place = ending[place].start
    return path[::-1]


def rounded(value: float) -> float:
    """A number in single precision."""
    return array("f", [value])[0]
