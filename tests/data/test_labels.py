"""Counting labels, numbering them, weighing them."""

from __future__ import annotations

import random

import numpy
import pytest

from glassformer import DataError, InputError, class_weights, count_labels, make_label2id, read_rows
from glassformer.data import labels


def rows_of(*values, column="label"):
    return [{column: value} for value in values]


def test_counts():
    assert count_labels(rows_of("b", "a", "b")) == {"a": 1, "b": 2}
    assert count_labels(rows_of(["O", "B"], ["O"], [], column="tags"), "tags") == {"B": 1, "O": 2}
    assert count_labels([{0: "text", 1: "x"}], column=1) == {"x": 1}


def test_the_order_does_not_depend_on_the_rows():
    names = ["neutral", "Positive", "negative", "好", "O", "B-PER", "I-PER"]
    expected = {name: number for number, name in enumerate(sorted(names))}
    for seed in range(5):
        random.Random(seed).shuffle(names)
        made = make_label2id(rows_of(*names, *names[:3]))
        assert made == expected and list(made) == list(expected)


def test_integer_labels_are_sorted_by_value():
    assert list(make_label2id(rows_of(*map(str, range(12, -2, -1))))) == [str(i) for i in range(-1, 13)]
    assert list(make_label2id(rows_of(*range(11)))) == [str(i) for i in range(11)]
    assert list(make_label2id(rows_of("10", "9", "x"))) == ["10", "9", "x"]


def test_a_label_is_the_same_in_every_file(write):
    write("a.csv", "text,label\nx,1\ny,0\n")
    write("b.jsonl", '{"text": "z", "label": 1}')
    assert count_labels(read_rows(["a.csv", "b.jsonl"])) == {"0": 1, "1": 2}


@pytest.mark.parametrize(
    "value, message",
    [
        (None, "'label' must be a label, as text or an integer, got None"),
        (0.5, "got float 0.5; a number with a fraction is a score"),
        ({}, "got dict {}"),
        ("", "'label' is empty"),
        ("  ", "'label' is empty"),
        (["a", None], "got None"),
    ],
)
def test_what_is_no_label(write, value, message):
    with pytest.raises(DataError) as caught:
        count_labels(rows_of("a", value))
    assert str(caught.value).startswith("row 2: ") and message in str(caught.value)


def test_faults_name_file_and_line(write):
    rows = read_rows(write("a.csv", "text,label\nx,1\ny,\n"))
    with pytest.raises(DataError, match=r"^a\.csv, line 3: 'label' is empty"):
        make_label2id(rows)
    with pytest.raises(DataError, match=r"^a\.csv, line 2: there is no column 'lable', did you mean .*say which"):
        count_labels(rows, "lable")
    with pytest.raises(DataError, match=r"^a\.jsonl, line 1: there is no column 'label'; there is 'text'; say which"):
        count_labels(read_rows(write("a.jsonl", '{"text": "x"}\n')))
    with pytest.raises(DataError, match=r"read as lines of plain text: .* say format='conll' or format='tsv'"):
        count_labels(read_rows(write("a.txt", "Ada B-PER\nsat O\n")), "tags")


def test_texts_are_no_labels(monkeypatch):
    monkeypatch.setattr(labels, "MOST_LABELS", 3)
    assert len(count_labels(rows_of("a", "b", "c", "a"))) == 3
    with pytest.raises(DataError, match="row 4: more than 3 different values in 'label': these are no labels"):
        count_labels(rows_of("a", "b", "c", "d"))


def test_no_labels():
    for function in (count_labels, make_label2id):
        with pytest.raises(InputError, match="there are no labels in the column 'label'"):
            function([])
    with pytest.raises(InputError, match="there are no labels"):
        class_weights([])


def test_weights_are_those_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.utils.class_weight")
    chosen = random.Random(0).choices("abcd", [1, 2, 30, 4], k=500)
    expected = sklearn.compute_class_weight("balanced", classes=numpy.array(sorted(set(chosen))), y=numpy.array(chosen))
    weights = class_weights(chosen)
    assert list(weights) == sorted(set(chosen))
    assert list(weights.values()) == pytest.approx(expected, rel=1e-12)
    assert class_weights(count_labels(rows_of(*chosen))) == weights
    assert sum(weights[label] for label in chosen) == pytest.approx(len(chosen))


def test_a_label_that_occurs_once_has_a_weight():
    assert class_weights({"rare": 1, "often": 3}) == {"rare": 2.0, "often": 2 / 3}


@pytest.mark.parametrize("given", ["abc", None, 3, {"a": 0}, {"a": -1}, {"a": 1.5}, {"a": True}])
def test_weights_of_nothing(given):
    with pytest.raises(InputError):
        class_weights(given)
