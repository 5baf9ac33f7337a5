"""The labels of rows: their counts, their ids for a model, and class weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import DataError, InputError, spelt, suggests
from ..text.base.text_inputs import describe
from .columns import INTEGER, describe_missing_column
from .file_row import Row
from .sources import FORMAT_OF, suffix_of

MOST_LABELS = 10_000


@suggests
def count_labels(rows: Iterable[Mapping[Any, Any]], column: str | int = "label") -> dict[str, int]:
    """How often each label occurs, in the order of `label2id`; every tag counts where a row has a list of them.

    A label's name is a string whatever the file has: 1 and "1" are the same label.

    >>> count_labels([{"label": "bad"}, {"label": "good"}, {"label": "bad"}])
    {'bad': 2, 'good': 1}
    """
    counts: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        if column not in row:
            raise row_fault(row, number, describe_missing_column(column, list(row)) + column_hint(column, row))
        value = row[column]
        try:
            counts.update(map(label_name, value) if isinstance(value, list | tuple) else (label_name(value),))
        except ValueError as error:
            raise row_fault(row, number, f"{column!r} {error}") from None
        if len(counts) > MOST_LABELS:
            raise row_fault(row, number, f"more than {MOST_LABELS} different values in {column!r}: these are no labels")
    if not counts:
        raise InputError(f"there are no labels in the column {column!r}, because there are no rows")
    return {label: counts[label] for label in sort_labels(counts)}


@suggests
def make_label2id(rows: Iterable[Mapping[Any, Any]], column: str | int = "label") -> dict[str, int]:
    """Labels to numbers, in an order that does not depend on that of the rows: integers by size, names by name.

    >>> make_label2id([{"tags": ["O", "B-PER"]}, {"tags": ["O", "I-PER"]}], "tags")
    {'B-PER': 0, 'I-PER': 1, 'O': 2}
    """
    return {label: number for number, label in enumerate(count_labels(rows, column))}


@suggests
def class_weights(labels: Iterable[Any] | Mapping[str, int]) -> dict[str, float]:
    """A weight for each label, so that all labels together weigh the same in a loss, and rows weigh 1 on average.

    `labels` are the labels themselves, one for each row, or their counts.

    >>> class_weights(["bad", "bad", "bad", "good"])
    {'bad': 0.6666666666666666, 'good': 2.0}
    """
    if not isinstance(labels, Iterable) or isinstance(labels, str | bytes):
        raise InputError(f"class_weights takes labels or their counts, got {describe(labels)}")
    counts = labels if isinstance(labels, Mapping) else count_labels({"label": label} for label in labels)
    for label, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InputError(f"the label {label!r} must occur at least once to have a weight, got {describe(count)}")
    total = sum(counts.values())
    return {label: total / (len(counts) * count) for label, count in counts.items()}


def label_name(value: Any) -> str:
    """The name of a label: text as it is, an integer as it is written."""
    if isinstance(value, str):
        if not value.strip():
            raise ValueError("is empty, so there is no label")
        return value
    if isinstance(value, bool | int):
        return str(value)
    hint = "; a number with a fraction is a score, which needs no labels" if isinstance(value, float) else ""
    raise ValueError(f"must be a label, as text or an integer, got {describe(value)}{hint}")


def find_label(label: Any, numbers: Mapping[str, int]) -> int | None:
    """The number of a label that a row gives by its name or by its number; where names are numbers, it is a name.

    >>> find_label("good", {"bad": 0, "good": 1}), find_label(1, {"bad": 0, "good": 1}), find_label(3, {"2": 0, "4": 1})
    (1, 1, None)
    """
    name = str(label)
    if name in numbers or isinstance(label, bool) or not name.isdecimal() or any(map(INTEGER.fullmatch, numbers)):
        return numbers.get(name)
    return int(name) if int(name) < len(numbers) else None


def column_hint(column: str | int, row: Mapping[Any, Any]) -> str:
    """A hint at the option that names the column of the labels."""
    if not isinstance(row, Row) or not isinstance(column, str):
        return ""
    if list(row) == ["text"] and FORMAT_OF.get(suffix_of(row.file), "txt") == "txt":
        ways = " or ".join(spelt("reading", "format", format) for format in ("conll", "tsv"))
        return f"; the file was read as lines of plain text: if it is written otherwise, say {ways}"
    return f"; say which of them it is: {spelt('column', column, '...', file=row.file)}"


def sort_labels(names: Iterable[str]) -> list[str]:
    """Names in a stable order: by size if all are integers, else by their characters."""
    names = list(names)
    if all(name.isascii() and name.removeprefix("-").isdigit() for name in names):
        return sorted(names, key=lambda name: (int(name), name))
    return sorted(names)


def row_fault(row: Mapping[Any, Any], number: int, reason: str) -> DataError:
    return row.fault(reason) if isinstance(row, Row) else DataError(f"row {number}: {reason}")
