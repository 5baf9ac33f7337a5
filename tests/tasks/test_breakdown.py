"""The figures of each class agree with scikit-learn and seqeval."""

from __future__ import annotations

import random

import pytest

from glassformer.tasks.breakdown import entity_breakdown, label_breakdown, multi_label_breakdown
from glassformer.tasks.metrics import classification, entity_scores, multi_label

NAMES = {"mean": "macro avg", "weighted mean": "weighted avg", "micro mean": "micro avg"}


def same_figures(ours, theirs) -> None:
    for each in (*ours.classes, *ours.means):
        right = theirs[NAMES.get(each.name, each.name)]
        assert (each.precision, each.recall, each.f1) == pytest.approx(
            (right["precision"], right["recall"], right["f1-score"])
        ), each.name
        assert each.support == right["support"]


@pytest.mark.parametrize("labels", [2, 3, 7])
@pytest.mark.parametrize("seed", range(3))
def test_labels(labels, seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = random.Random(seed)
    mine, right = ([rng.randrange(labels) for _ in range(40)] for _ in range(2))
    names = [f"label {i}" for i in range(labels)]
    ours = label_breakdown(mine, right, names)
    options = {"labels": range(labels), "target_names": names, "output_dict": True, "zero_division": 0.0}
    same_figures(ours, sklearn.classification_report(right, mine, **options))
    assert [list(row) for row in ours.confusion.counts] == sklearn.confusion_matrix(right, mine).tolist()
    f1 = classification(mine, right, labels)["f1"]
    if labels == 2:
        assert ours.note == "f1 is that of 'label 1', the label with the number 1" and ours.classes[1].f1 == f1
    else:
        assert ours.note == f"f1 is the mean over the labels that occur ({labels} of {labels})"
        assert ours.means[0].f1 == f1


def test_a_label_that_does_not_occur():
    ours = label_breakdown([0, 2], [0, 0], ["a", "b", "c"])
    assert [each.support for each in ours.classes] == [2, 0, 0]
    assert ours.note == "f1 is the mean over the labels that occur (2 of 3)"
    assert ours.means[0].f1 == classification([0, 2], [0, 0], 3)["f1"]
    assert ours.confusion.mistakes() == [("a", "c", 1)]


@pytest.mark.parametrize("seed", range(3))
def test_several_labels_of_a_row(seed):
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = random.Random(seed)
    mine, right = ([[rng.randrange(2) for _ in range(4)] for _ in range(25)] for _ in range(2))
    ours = multi_label_breakdown(mine, right, list("abcd"))
    options = {"target_names": list("abcd"), "output_dict": True, "zero_division": 0.0}
    same_figures(ours, sklearn.classification_report(right, mine, **options))
    metrics = multi_label(mine, right)
    assert (ours.means[0].f1, ours.means[1].f1) == (metrics["f1_micro"], metrics["f1_macro"])


@pytest.mark.parametrize("letters", ["BI", "BIES"])
@pytest.mark.parametrize("seed", range(3))
def test_entities(letters, seed):
    seqeval = pytest.importorskip("seqeval.metrics")
    rng = random.Random(seed)
    tags = ["O", "O", *(letter + name for letter in letters for name in ("-PER", "-LOC", "-ORG"))]
    right = [[rng.choice(tags) for _ in range(rng.randrange(1, 12))] for _ in range(40)]
    mine = [[tag if rng.random() < 0.8 else rng.choice(tags) for tag in sentence] for sentence in right]
    ours = entity_breakdown(mine, right)
    same_figures(ours, seqeval.classification_report(right, mine, output_dict=True))
    assert ours.means[0].f1 == entity_scores(mine, right)["f1"]
    sklearn = pytest.importorskip("sklearn.metrics")
    words = [[tag.partition("-")[2] or tag for sentence in each for tag in sentence] for each in (right, mine)]
    assert ours.confusion.names == ("O", "LOC", "ORG", "PER") and ours.confusion.unit == "words"
    expected = sklearn.confusion_matrix(*words, labels=ours.confusion.names).tolist()
    assert [list(row) for row in ours.confusion.counts] == expected


def test_entities_without_a_type():
    ours = entity_breakdown([["B", "I", "O"]], [["B", "I", "B"]])
    assert [(each.name, each.recall, each.support) for each in ours.classes] == [("entity", 0.5, 2)]
    assert ours.confusion.names == ("O", "entity") and ours.confusion.counts == ((0, 0), (1, 2))
