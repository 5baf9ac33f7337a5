"""An evaluation by class: precision, recall and F1 of each label or type of entity, and which are confused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..models.base.tag_schemes import split_tag
from .metrics import by_label, check_lengths, entities, f1_of, ratio


@dataclass(frozen=True)
class ClassScores:
    """The figures of one class, or a mean over several."""

    name: str
    precision: float
    recall: float
    f1: float
    support: int  # how many belong to the class


@dataclass(frozen=True)
class Confusion:
    """How often each class was predicted where another one is right."""

    names: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]  # a row for each right class, a column for each predicted one
    unit: str  # what is counted

    def mistakes(self) -> list[tuple[str, str, int]]:
        """(right class, predicted class, how often) of all confusions that occur, the most frequent ones first."""
        found = [
            (right, predicted, count)
            for right, row in zip(self.names, self.counts, strict=True)
            for predicted, count in zip(self.names, row, strict=True)
            if count and predicted != right
        ]
        return sorted(found, key=lambda mistake: -mistake[2])


@dataclass(frozen=True)
class Breakdown:
    """The figures of every class, their means, and what the metric f1 means."""

    classes: tuple[ClassScores, ...]
    means: tuple[ClassScores, ...]
    note: str
    confusion: Confusion | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON.

        >>> label_breakdown([0, 1], [0, 0], ["bad", "good"]).to_dict()["confusion"]
        {'names': ['bad', 'good'], 'counts': [[1, 1], [0, 0]], 'unit': 'rows'}
        """
        found: dict[str, Any] = {
            "classes": [asdict(each) for each in self.classes],
            "means": [asdict(each) for each in self.means],
            "note": self.note,
        }
        if self.confusion is not None:
            counts = [list(row) for row in self.confusion.counts]
            found["confusion"] = {"names": list(self.confusion.names), "counts": counts, "unit": self.confusion.unit}
        return found


def label_breakdown(predictions: Sequence[int], references: Sequence[int], names: Sequence[str]) -> Breakdown:
    """The figures of labels of which every row has one; `names` are those of labels 0, 1, ..."""
    check_lengths(predictions, references)
    pairs = Counter(zip(references, predictions, strict=True))
    hits = Counter({label: count for (label, predicted), count in pairs.items() if label == predicted})
    scores = scores_of(hits, Counter(predictions), Counter(references), dict(enumerate(names)))
    counts = tuple(tuple(pairs[right, predicted] for predicted in range(len(names))) for right in range(len(names)))
    note = f"f1 is that of {names[1]!r}, the label with the number 1"
    if len(names) != 2:
        occurring = len({*predictions, *references})
        note = f"f1 is the mean over the labels that occur ({occurring} of {len(names)})"
    return Breakdown(scores, means_of(scores, {*predictions, *references}), note, Confusion((*names,), counts, "rows"))


def multi_label_breakdown(
    predictions: Sequence[Sequence[int]], references: Sequence[Sequence[int]], names: Sequence[str]
) -> Breakdown:
    """The figures of labels of which a row may have several, each given by 0 or 1."""
    check_lengths(predictions, references)
    columns = list(by_label(predictions, references))
    hits = Counter({i: sum(a and b for a, b in zip(*pair, strict=True)) for i, pair in enumerate(columns)})
    predicted, expected = (Counter({i: sum(pair[side]) for i, pair in enumerate(columns)}) for side in (0, 1))
    scores = scores_of(hits, predicted, expected, dict(enumerate(names)))
    micro = total_scores("micro mean", hits, predicted, expected)
    note = "f1_micro is over all labels together, f1_macro the mean over the labels"
    return Breakdown(scores, (micro, *means_of(scores, range(len(names)))), note)


def entity_breakdown(predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> Breakdown:
    """The figures of exactly matching entities by type, and which types the words of one are taken for."""
    check_lengths(predictions, references)
    hits, predicted, expected = Counter[Hashable](), Counter[Hashable](), Counter[Hashable]()
    words = Counter[tuple[str, str]]()
    for prediction, reference in zip(predictions, references, strict=True):
        found, right = set(entities(prediction)), set(entities(reference))
        for counter, each in ((hits, found & right), (predicted, found), (expected, right)):
            counter.update(name for name, *_ in each)
        words.update(zip(map(type_of, reference), map(type_of, prediction), strict=True))
    types = sorted({*predicted, *expected}, key=str)
    scores = scores_of(hits, predicted, expected, {name: str(name) or "entity" for name in types})
    names = sorted({name for pair in words for name in pair}, key=lambda name: (name != "O", name))
    counts = tuple(tuple(words[right, guess] for guess in names) for right in names)
    micro = total_scores("micro mean", hits, predicted, expected)
    note = "f1 is that of all entities together; one counts if its type and all of its words are right"
    confusion = Confusion(tuple(name or "entity" for name in names), counts, "words")
    return Breakdown(scores, (micro, *means_of(scores, range(len(scores)))), note, confusion)


def type_of(tag: str) -> str:
    """The type of entity that a word with this tag belongs to, O outside of all.

    >>> type_of("B-PER"), type_of("O")
    ('PER', 'O')
    """
    return split_tag(tag)[1]


def scores_of(
    hits: Counter, predicted: Counter, expected: Counter, names: Mapping[Any, str]
) -> tuple[ClassScores, ...]:
    """The figures of each class."""
    return tuple(class_scores(name, hits[key], predicted[key], expected[key]) for key, name in names.items())


def class_scores(name: str, hits: int, predicted: int, expected: int) -> ClassScores:
    return ClassScores(name, ratio(hits, predicted), ratio(hits, expected), f1_of(hits, predicted, expected), expected)


def total_scores(name: str, hits: Counter, predicted: Counter, expected: Counter) -> ClassScores:
    """The figures of all classes together."""
    return class_scores(name, hits.total(), predicted.total(), expected.total())


def means_of(scores: Sequence[ClassScores], occurring: Any) -> tuple[ClassScores, ...]:
    """The mean over the classes that occur, given by number, and the mean weighted by how many belong to each."""
    used = [scores[number] for number in sorted(occurring)]
    support = sum(each.support for each in used)
    figures = ("precision", "recall", "f1")
    plain = {name: ratio(sum(getattr(each, name) for each in used), len(used)) for name in figures}
    weighted = {name: ratio(sum(getattr(each, name) * each.support for each in used), support) for name in figures}
    return ClassScores("mean", **plain, support=support), ClassScores("weighted mean", **weighted, support=support)
