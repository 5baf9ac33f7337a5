"""Masks: how many, which ones, by what; whole words whole; special tokens never."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.document_corpus import longest_words, words_of
from glassformer.data.masking import continues_word, mask_tokens, plain_words
from glassformer.errors import InputError
from glassformer.nn.loss import IGNORED

MASK, WORDS = 4, np.arange(10, 1000)


def masked(count: int = 300, length: int = 100, **others) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ids, those to read and labels of many rows with special tokens at both ends."""
    ids = np.random.default_rng(1).integers(10, 1000, size=(count, length))
    ids[:, 0], ids[:, -1] = 2, 3
    allowed = (ids >= 10)[0]
    made = [
        mask_tokens(row, np.random.default_rng((7, 0, i)), mask_id=MASK, words=WORDS, allowed=allowed, **others)
        for i, row in enumerate(ids)
    ]
    return ids, np.stack([read for read, _ in made]), np.stack([labels for _, labels in made]), allowed


def test_fifteen_percent_are_chosen_and_changed_as_bert_does():
    ids, read, labels, allowed = masked()
    chosen = labels != IGNORED
    assert (chosen.sum(1) == round(0.15 * allowed.sum())).all()
    assert not chosen[:, ~allowed].any()
    assert (labels[chosen] == ids[chosen]).all() and (read[~chosen] == ids[~chosen]).all()
    total = chosen.sum()
    assert (read[chosen] == MASK).sum() / total == pytest.approx(0.8, abs=0.02)
    assert (read[chosen] == ids[chosen]).sum() / total == pytest.approx(0.1, abs=0.015)
    places = chosen.sum(0)[allowed]  # every place is as likely as any other
    assert places.std() < 1.3 * np.sqrt(len(ids) * 0.15 * 0.85)


def test_the_same_generator_draws_the_same_and_another_one_not():
    ids = np.arange(10, 60)
    allowed = np.ones(50, bool)

    def labels(*seed: int) -> list[int]:
        return mask_tokens(ids, np.random.default_rng(seed), mask_id=MASK, words=WORDS, allowed=allowed)[1].tolist()

    assert labels(1, 0, 5) == labels(1, 0, 5)
    assert len({str(labels(*seed)) for seed in ((1, 0, 5), (1, 1, 5), (1, 0, 6), (2, 0, 5))}) == 4


def test_whole_words_stay_whole():
    begins = np.random.default_rng(3).random(100) < 0.5
    _, _, labels, allowed = masked(begins=begins)
    chosen = labels != IGNORED
    inside = ~begins & allowed
    inside[1] = False  # the first place of the text begins a word, whatever is said
    assert (chosen[:, inside] == chosen[:, np.flatnonzero(inside) - 1]).all()
    assert chosen.sum(1).mean() / allowed.sum() == pytest.approx(0.15, abs=0.01)
    assert not chosen[:, ~allowed].any()


def test_at_least_one_word_is_hidden():
    for length in (1, 2, 3):
        ids, allowed = np.arange(10, 10 + length), np.ones(length, bool)
        begins = np.arange(length) == 0  # one long word
        labels = mask_tokens(ids, np.random.default_rng(0), mask_id=MASK, words=WORDS, allowed=allowed, begins=begins)[
            1
        ]
        assert (labels != IGNORED).all()
    none = mask_tokens(np.array([2, 3]), np.random.default_rng(0), mask_id=MASK, words=WORDS, allowed=np.zeros(2, bool))
    assert (none[1] == IGNORED).all()
    with pytest.raises(InputError, match="between 0 and 1, got 0"):
        mask_tokens(ids, np.random.default_rng(0), mask_id=MASK, words=WORDS, allowed=allowed, fraction=0)


def test_the_vocabulary_tells_pieces_and_words():
    vocabulary = {"[CLS]": 0, "play": 1, "##ing": 2, "北": 3}
    assert continues_word(vocabulary).tolist() == [False, False, True, False]
    assert plain_words(vocabulary, [0]).tolist() == [1, 2, 3]
    assert continues_word({"▁the": 0, "cat": 1, "▁": 2, "s": 3}).tolist() == [False, True, False, True]
    assert continues_word({"a": 0, "b": 1}).tolist() == [False, False]


def test_a_segmenter_may_not_change_the_text():
    cut = longest_words(["北京", "北京大学", "大学"])
    assert cut("我在北京大学读 NLP 的书") == ["我", "在", "北京大学", "读", " ", "NLP", " ", "的", "书"]
    assert words_of("我在北京 大学", cut) == ["我", "在", "北京", "大学"]
    with pytest.raises(InputError, match="which is another text"):
        words_of("北京大学", lambda text: ["北京"])
