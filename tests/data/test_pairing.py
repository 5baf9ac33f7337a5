"""Pairs of sentences: half of them true, from where they should be, and never too long."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.document_corpus import Corpus
from glassformer.data.pairing import gather_sentences, next_sentence_pair, sentence_order_pair, split_sentences
from glassformer.errors import InputError


def corpus(documents: int = 12, seed: int = 0) -> Corpus:
    """Documents of sentences; the id of a token is that of its document."""
    generator = np.random.default_rng(seed)
    counts = generator.integers(1, 12, size=documents)
    sizes = generator.integers(1, 20, size=counts.sum())
    lines = np.concatenate(([0], np.cumsum(sizes)))
    borders = np.concatenate(([0], np.cumsum(counts)))
    owners = np.searchsorted(borders, np.arange(counts.sum()), side="right") - 1
    return Corpus(np.repeat(owners, sizes).astype(np.int32), lines, borders, np.arange(documents))


def test_groups_are_the_sentences_of_documents():
    text = corpus()
    table = gather_sentences(text, 30).tolist()
    assert [line for first, last, *_ in table for line in range(first, last)] == list(range(len(text.lines) - 1))
    for first, last, document, _ in table:
        assert text.documents[document] <= first and last <= text.documents[document + 1]
        assert last - first > 1 or text.documents[document + 1] - text.documents[document] == 1
    with pytest.raises(InputError, match="at least two tokens, got 1"):
        gather_sentences(text, 1)


def test_half_of_the_next_sentences_are_of_another_document():
    text, limit = corpus(), 24
    labels = []
    for number, (first, last, document, _) in enumerate(gather_sentences(text, limit).tolist() * 30):
        pair = next_sentence_pair(text, first, last, document, limit, np.random.default_rng((1, 0, number)))
        assert len(pair.first) > 0 and len(pair.second) > 0 and len(pair.first) + len(pair.second) <= limit
        assert set(text.ids[pair.first].tolist()) == {document}
        owners = set(text.ids[pair.second].tolist())
        assert len(owners) == 1 and (owners == {document}) == (pair.label == 0)
        if pair.label == 0:
            assert pair.first[-1] < pair.second[0]
        if last - first > 1:
            labels.append(pair.label)
    assert np.mean(labels) == pytest.approx(0.5, abs=0.05)


def test_half_of_the_orders_are_swapped():
    text, limit = corpus(seed=1), 24
    labels = []
    for number, (first, last, document, _) in enumerate(gather_sentences(text, limit).tolist() * 30):
        if text.lines[last] - text.lines[first] < 2:
            continue
        pair = sentence_order_pair(text, first, last, document, limit, np.random.default_rng((1, 0, number)))
        assert len(pair.first) + len(pair.second) <= limit
        assert (pair.first[0] < pair.second[0]) == (pair.label == 0)
        labels.append(pair.label)
    assert np.mean(labels) == pytest.approx(0.5, abs=0.05)


def test_one_document_has_no_other():
    alone = Corpus(np.arange(4, dtype=np.int32), np.array([0, 4]), np.array([0, 1]), np.array([0]))
    with pytest.raises(InputError, match="two sentences, or a second document"):
        next_sentence_pair(alone, 0, 1, 0, 10, np.random.default_rng(0))


def test_sentences_end_where_people_end_them():
    assert split_sentences('He came . " Who ? " It was 3.5 km . ') == ["He came .", '" Who ?', '" It was 3.5 km .']
    assert split_sentences("他说：“好。”然后走了。真的吗？是") == ["他说：“好。”然后走了。", "真的吗？", "是"]
