"""Masking for masked language modeling: pure functions of ids and of a random generator."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ..errors import InputError
from ..nn.loss import IGNORED

SPACES = ("Ġ", "▁")  # before the words of byte-level BPE and of SentencePiece
MASKED, REPLACED = 0.8, 0.1  # of the chosen tokens: become the mask, become any word; the rest stays as it is


def mask_tokens(
    ids: np.ndarray,
    generator: np.random.Generator,
    *,
    mask_id: int,
    words: np.ndarray,
    allowed: np.ndarray,
    begins: np.ndarray | None = None,
    fraction: float = 0.15,
    masked: float = MASKED,
    replaced: float = REPLACED,
) -> tuple[np.ndarray, np.ndarray]:
    """Choose `fraction` of the tokens, at least one; 80 % of them become the mask, 10 % any word, 10 % stay, unless the
    shares `masked` and `replaced` say otherwise.

    `allowed` marks the positions that may be chosen, so that no special token is; `words` are the ids that may replace
    one. With `begins`, which marks where words begin, whole words are chosen. Returns the ids to read, and the labels:
    the token where it was chosen, else -100. Another call chooses anew; the same state of `generator` chooses the same.

    >>> ids, allowed = np.array([2, 7, 8, 9, 3]), np.array([False, True, True, True, False])
    >>> generator = np.random.default_rng(0)
    >>> read, labels = mask_tokens(ids, generator, mask_id=4, words=np.arange(5, 20), allowed=allowed)
    >>> int((labels != -100).sum()), bool(labels[0] == labels[4] == -100)
    (1, True)
    """
    if not 0 < fraction <= 1:
        raise InputError(f"the fraction of masked tokens must be between 0 and 1, got {fraction}")
    places = np.flatnonzero(allowed)
    labels = np.full(len(ids), IGNORED, dtype=np.int64)
    if not len(places):
        return ids, labels
    wanted = max(1, round(len(places) * fraction))
    chosen = places[generator.permutation(len(places))[:wanted]]
    if begins is not None:
        chosen = whole_words(places, begins, wanted, generator)
    labels[chosen] = ids[chosen]
    read = ids.copy()
    chance = generator.random(len(chosen))
    read[chosen[chance < masked]] = mask_id
    random = chosen[(chance >= masked) & (chance < masked + replaced)]
    read[random] = words[generator.integers(len(words), size=len(random))]
    return read, labels


def whole_words(places: np.ndarray, begins: np.ndarray, wanted: int, generator: np.random.Generator) -> np.ndarray:
    """The positions of whole words, about `wanted` in all: a word that would exceed the number is skipped.

    If every word is longer than `wanted`, the first sampled one is taken.
    """
    starts = np.flatnonzero(begins[places] | (np.diff(places, prepend=-2) != 1))
    edges = np.append(starts, len(places))
    sizes = np.diff(edges)
    order = generator.permutation(len(starts))
    taken, left = [], wanted
    for word in order.tolist():
        if sizes[word] <= left:
            taken.append(word)
            left -= int(sizes[word])
        if not left:
            break
    taken = taken or [int(order[0])]
    return np.concatenate([places[edges[word] : edges[word + 1]] for word in sorted(taken)])


def continues_word(vocabulary: Mapping[str, int]) -> np.ndarray:
    """Which ids are pieces inside a word: `##ing` in WordPiece, in others what has no space before it, `Ġ` or `▁`.

    >>> continues_word({"play": 0, "##ing": 1}).tolist(), continues_word({"Ġplay": 0, "ing": 1}).tolist()
    ([False, True], [False, True])
    """
    continues = np.zeros(max(vocabulary.values()) + 1, dtype=bool)
    marks_pieces = any(token.startswith("##") for token in vocabulary)
    marks_spaces = not marks_pieces and any(token.startswith(SPACES) for token in vocabulary)
    for token, number in vocabulary.items():
        continues[number] = (
            token.startswith("##") if marks_pieces else marks_spaces and not token.startswith((*SPACES, "Ċ"))
        )
    return continues


def plain_words(vocabulary: Mapping[str, int], special: Collection[int]) -> np.ndarray:
    """The ids that may stand for any word: all but special tokens."""
    left = set(special)
    return np.array(sorted(number for number in vocabulary.values() if number not in left), dtype=np.int64)
