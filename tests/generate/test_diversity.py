"""The measures against values by hand, sacrebleu, and the loss of the model."""

from __future__ import annotations

import math
import random

import pytest
import torch

from glassformer import InputError
from glassformer.generate import diversity
from glassformer.generate.diversity import (
    bleu,
    distinct,
    log_probabilities,
    repeated_tail,
    repetition,
    self_bleu,
)


def test_distinct_counts_over_all_texts():
    texts = [[1, 2, 1, 2], [1, 2, 3]]
    assert distinct(texts, 1) == 3 / 7
    assert distinct(texts, 2) == 3 / 5  # 12 21 12, 12 23
    assert distinct(texts, 3) == 3 / 3
    assert distinct([[1, 2]], 3) is None
    assert distinct([], 1) is None


def test_repetition_counts_tokens_once():
    assert repetition([[1, 2, 3, 4, 5]]) == 0
    assert repetition([[7] * 6]) == 1
    assert repetition([[1, 2, 3, 4, 9, 1, 2, 3, 4]]) == 8 / 9
    assert repetition([[1, 2, 3, 4], [1, 2, 3, 4]]) == 0  # each text is judged by itself
    assert repetition([[1, 2, 1, 2, 5]], size=2) == 4 / 5
    assert repetition([[]]) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([], 0),
        ([1], 0),
        ([1, 2, 3], 0),
        ([1, 2, 2], 2),
        ([5, 1, 2, 3, 1, 2, 3], 6),
        ([1, 2, 3, 1, 2, 3, 1], 7),  # twice, and begun again
        ([1, 2, 3, 1, 2], 0),  # begun again, but not twice
        ([8, 9, 1, 2, 3, 1, 2], 0),
        ([9, 4, 4, 4, 4, 4], 5),
        ([1, 1, 2, 1, 1, 2], 6),
        ([1, 1, 2], 0),  # repeated, but not at the end
    ],
)
def test_repeated_tail(text, expected):
    assert repeated_tail(text) == expected


def test_bleu_equals_sacrebleu():
    sacrebleu = pytest.importorskip("sacrebleu")
    rng = random.Random(0)
    scores = set()
    for _ in range(300):
        words = rng.choice([3, 8, 30])
        text, *references = (
            [rng.randrange(words) for _ in range(rng.randrange(0 if i == 0 else 1, 14))]
            for i in range(rng.randrange(2, 5))
        )
        as_words = [" ".join(map(str, one)) for one in references]
        oracle = sacrebleu.sentence_bleu(" ".join(map(str, text)), as_words, tokenize="none").score / 100
        assert bleu(text, references) == pytest.approx(oracle, abs=1e-9)
        scores.add(round(oracle, 1))
    assert len(scores) > 5  # not all of them zero


def test_self_bleu():
    assert self_bleu([[1, 2, 3, 4, 5]] * 3) == pytest.approx(1)
    assert self_bleu([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]) == 0
    assert self_bleu([[1, 2, 3, 4]]) is None
    a, b, c = [1, 2, 3, 4, 5], [1, 2, 3, 6], [7, 2, 3, 4]
    assert self_bleu([a, b, c]) == pytest.approx((bleu(a, [b, c]) + bleu(b, [a, c]) + bleu(c, [a, b])) / 3)


def test_log_probabilities_equal_the_loss(tiny_model, monkeypatch):
    monkeypatch.setattr(diversity, "BATCH", 2)
    monkeypatch.setattr(diversity, "ROWS", 3)
    prompts = [[5, 9, 2], [7], [11, 12, 13, 14, 15]]
    continuations = [[8, 8, 30, 41, 3, 2, 1], [4, 60], []]
    log_probs = log_probabilities(tiny_model, prompts, continuations)
    assert [len(row) for row in log_probs] == [7, 2, 0]
    for prompt, new, row in zip(prompts[:2], continuations, log_probs, strict=False):
        ids = torch.tensor([prompt + new])
        labels = torch.tensor([[-100] * len(prompt) + new])
        loss = tiny_model(ids, labels=labels).loss.item()
        assert -sum(row) / len(row) == pytest.approx(loss, abs=1e-5)
        alone = tiny_model(ids).logits[0].log_softmax(-1)[len(prompt) - 1, new[0]].item()
        assert row[0] == pytest.approx(alone, abs=1e-5)
    assert all(math.isfinite(value) and value < 0 for row in log_probs for value in row)


def test_an_empty_prompt_is_refused(tiny_model):
    with pytest.raises(InputError, match="an empty prompt"):
        log_probabilities(tiny_model, [[]], [[1]])
