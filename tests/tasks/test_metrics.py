"""The formulas of evaluation agree with scikit-learn, scipy and seqeval."""

from __future__ import annotations

import random
import re
import string

import pytest

from glassformer.tasks import metrics


@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("seed", range(5))
def test_classification(labels, seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = random.Random(seed)
    mine, right = ([rng.randrange(labels) for _ in range(30)] for _ in range(2))
    ours = metrics.classification(mine, right, labels)
    assert ours["accuracy"] == pytest.approx(sklearn.accuracy_score(right, mine))
    average = "binary" if labels == 2 else "macro"
    assert ours["f1"] == pytest.approx(sklearn.f1_score(right, mine, average=average))
    assert ours["matthews"] == pytest.approx(sklearn.matthews_corrcoef(right, mine))


def test_classification_of_one_class_alone():
    assert metrics.classification([0, 0], [0, 0], 2) == {"accuracy": 1.0, "f1": 0.0, "matthews": 0.0}
    assert metrics.classification([], [], 3) == {"accuracy": 0.0, "f1": 0.0, "matthews": 0.0}


@pytest.mark.parametrize("seed", range(5))
def test_multi_label(seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = random.Random(seed)
    mine, right = ([[rng.randrange(2) for _ in range(4)] for _ in range(25)] for _ in range(2))
    right[0] = mine[0]
    ours = metrics.multi_label(mine, right)
    assert ours["accuracy"] == pytest.approx(sklearn.accuracy_score(right, mine))
    for average in ("micro", "macro"):
        assert ours[f"f1_{average}"] == pytest.approx(sklearn.f1_score(right, mine, average=average))


@pytest.mark.parametrize("seed", range(5))
def test_correlation(seed):
    stats = pytest.importorskip("scipy.stats")
    rng = random.Random(seed)
    mine, right = ([round(rng.random(), 1) for _ in range(40)] for _ in range(2))  # rounded, so that some are equal
    ours = metrics.correlation(mine, right)
    assert ours["pearson"] == pytest.approx(stats.pearsonr(mine, right).statistic)
    assert ours["spearman"] == pytest.approx(stats.spearmanr(mine, right).statistic)


def sentences(rng: random.Random, tags: list[str]) -> list[list[str]]:
    return [[rng.choice(tags) for _ in range(rng.randrange(1, 12))] for _ in range(40)]


@pytest.mark.parametrize("names", [("-PER", "-LOC"), ("",)])
@pytest.mark.parametrize("letters", ["BI", "I", "BIES"])
@pytest.mark.parametrize("seed", range(5))
def test_entities(names, letters, seed):
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = random.Random(seed)
    tags = ["O", "O", *(letter + name for letter in letters for name in names)]
    right = sentences(rng, tags)
    mine = [[tag if rng.random() < 0.8 else rng.choice(tags) for tag in sentence] for sentence in right]
    ours = metrics.entity_scores(mine, right)
    assert ours["f1"] == pytest.approx(seqeval.f1_score(right, mine))
    assert ours["precision"] == pytest.approx(seqeval.precision_score(right, mine))
    assert ours["recall"] == pytest.approx(seqeval.recall_score(right, mine))
    assert ours["accuracy"] == pytest.approx(seqeval.accuracy_score(right, mine))


def test_the_scheme_of_chinese_files():
    tags = ["B-NAME", "M-NAME", "E-NAME", "S-LOC", "S-LOC", "O", "M-ORG", "E-ORG", "M-ORG"]
    assert metrics.entities(tags) == [("NAME", 0, 2), ("LOC", 3, 3), ("LOC", 4, 4), ("ORG", 6, 7), ("ORG", 8, 8)]


@pytest.mark.parametrize(
    ("mine", "right", "exact", "f1"),
    [
        ("the Cat.", ["cat"], 1, 1),
        ("black cat", ["a cat"], 0, 2 / 3),
        ("cat", ["dog", "The cat!"], 1, 1),
        ("", [], 1, 1),
        ("cat", [], 0, 0),
        ("", ["cat"], 0, 0),
        ("1912年。", ["1912年"], 1, 1),
        ("北京市", ["北京"], 0, 0.8),
        ("cat cat", ["cat"], 0, 2 / 3),
    ],
)
def test_answers(mine, right, exact, f1):
    assert metrics.answer_scores([mine], [right]) == pytest.approx({"exact_match": exact, "f1": f1})


def official_words(text: str) -> list[str]:
    """`normalize_answer` of SQuAD's evaluation script, and `split`."""
    text = "".join(letter for letter in text.lower() if letter not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split()).split()


@pytest.mark.parametrize("seed", range(20))
def test_answers_are_cut_into_words_as_squad_does(seed):
    rng = random.Random(seed)
    parts = ["the", "The ", "a", "an ", "cat", " ", "'", "’s", "“", "”", "—", "–", "…", "-", "19", "·", "é", "\n"]
    text = "".join(rng.choice(parts) for _ in range(12))
    assert metrics.answer_words(text) == official_words(text)


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="2 predictions cannot be compared with 1 references"):
        metrics.classification([0, 1], [0], 2)
