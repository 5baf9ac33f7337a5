"""Pairs of texts for pre-training: next-sentence prediction and sentence order."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from .document_corpus import Corpus

SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？；])(?![”’」』）])")
FOLLOWS, OTHER = 0, 1  # the labels of next-sentence pairs
IN_ORDER, SWAPPED = 0, 1  # the labels of sentence-order pairs


def split_sentences(text: str) -> list[str]:
    """A text cut after full stops, question and exclamation marks, English and Chinese; nothing is dropped but spaces.

    >>> split_sentences("It rained . We stayed in ! 下雨了。我们在家。")
    ['It rained .', 'We stayed in !', '下雨了。', '我们在家。']
    """
    return [part.strip() for part in SENTENCE_END.split(text) if part.strip()]


def gather_sentences(corpus: Corpus, limit: int) -> np.ndarray:
    """Neighbouring sentences (the lines of a corpus) that together fill `limit` tokens, and never cross a document.

    A group has two sentences or more where the document allows it, even if they are longer than `limit`: pairs are
    truncated later. The columns are first line, last line (the one after), document, 0.
    """
    if limit < 2:
        raise InputError(f"a pair needs at least two tokens, got {limit}")
    lines, table = corpus.lines.tolist(), []
    for document, (begin, end) in enumerate(
        zip(corpus.documents[:-1].tolist(), corpus.documents[1:].tolist(), strict=True)
    ):
        first = begin
        for line in range(begin, end):
            is_full = lines[line + 1] - lines[first] >= limit and line > first
            if is_full and end - line - 1 != 1:  # a last sentence is not left alone
                table.append((first, line + 1, document, 0))
                first = line + 1
        if first < end:
            table.append((first, end, document, 0))
    return np.array(table, dtype=np.int64).reshape(-1, 4)


@dataclass(frozen=True)
class Pair:
    """Two segments of a corpus, as tokens, and the label."""

    first: np.ndarray  # indices of tokens
    second: np.ndarray
    label: int


def next_sentence_pair(
    corpus: Corpus, first: int, last: int, document: int, limit: int, generator: np.random.Generator
) -> Pair:
    """Half of the time the sentences that follow, half of the time some of another document; at most `limit` tokens.

    Those of another document are no more tokens than those that follow, or, where none does, than the first.
    """
    cut = first + 1 + int(generator.integers(max(last - first - 1, 1))) if last - first > 1 else last
    others = len(corpus.documents) - 1
    follows = last - first > 1 and (others < 2 or generator.random() < 0.5)
    begin = token_indices(corpus, first, cut)
    if follows:
        return truncate_pair(begin, token_indices(corpus, cut, last), FOLLOWS, limit, generator)
    if others < 2:
        raise InputError("a pair needs two sentences, or a second document to take one from; the text has neither")
    other = int(generator.integers(others - 1))
    other += other >= document
    lines = range(int(corpus.documents[other]), int(corpus.documents[other + 1]))
    start = lines.start + int(generator.integers(len(lines)))
    most = (len(token_indices(corpus, cut, last)) or len(begin)) + len(begin)
    wanted = max(min(most, limit) - len(begin), 1)
    stop = start + 1
    while stop < lines.stop and corpus.lines[stop] - corpus.lines[start] < wanted:
        stop += 1
    second = token_indices(corpus, start, stop)
    return truncate_pair(begin, second if most > limit else second[:wanted], OTHER, limit, generator)


def sentence_order_pair(
    corpus: Corpus, first: int, last: int, document: int, limit: int, generator: np.random.Generator
) -> Pair:
    """Two neighbouring segments, half of the time the second one first; at most `limit` tokens."""
    if last - first > 1:
        cut = first + 1 + int(generator.integers(last - first - 1))
        one, two = token_indices(corpus, first, cut), token_indices(corpus, cut, last)
    else:  # one sentence alone is cut in the middle
        tokens = token_indices(corpus, first, last)
        if len(tokens) < 2:
            raise InputError("a sentence of one token has no order; join it with its neighbours in one document")
        one, two = tokens[: len(tokens) // 2], tokens[len(tokens) // 2 :]
    pair = truncate_pair(one, two, IN_ORDER, limit, generator)
    return Pair(pair.second, pair.first, SWAPPED) if generator.random() < 0.5 else pair


def token_indices(corpus: Corpus, first: int, last: int) -> np.ndarray:
    """The indices of the tokens of some lines."""
    return np.arange(corpus.lines[first], corpus.lines[last])


def truncate_pair(
    first: np.ndarray, second: np.ndarray, label: int, limit: int, generator: np.random.Generator
) -> Pair:
    """A pair of at most `limit` tokens: the longer one loses tokens first, at its beginning or at its end by chance."""
    sizes = [len(first), len(second)]
    excess = sum(sizes) - limit
    if excess > 0:
        longer = int(sizes[1] > sizes[0])
        alone = min(excess, abs(sizes[0] - sizes[1]))
        sizes[longer] -= alone
        half, odd = divmod(excess - alone, 2)
        sizes = [max(sizes[0] - half - odd, 1), max(sizes[1] - half, 1)]
    cut = []
    for text, size in zip((first, second), sizes, strict=True):
        lost = len(text) - size
        at_front = int(generator.binomial(lost, 0.5)) if lost else 0
        cut.append(text[at_front : at_front + size])
    return Pair(cut[0], cut[1], label)
