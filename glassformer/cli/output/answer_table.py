"""The answers to texts as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..verbs.generate import without_control_codes
from .terminal import print_table

MAX_TEXT = 60  # characters of a cell


def print_answers(columns: Sequence[str], given: Sequence[Any], answers: Sequence[Any]) -> None:
    """A line for each entry of each answer, after the texts of its row."""
    lines, names = [], {}
    for row, answer in zip(given, answers, strict=True):
        texts = [row] if isinstance(row, str) else [row[name] for name in columns]
        for each in entries(answer):
            lines.append((texts, each))
            names |= dict.fromkeys(each)
    cells = [(*map(short, texts), *(cell(each.get(name, "")) for name in names)) for texts, each in lines]
    print_table((*columns, *names), cells)


def entries(answer: Any) -> list[dict[str, Any]]:
    """The entries of an answer; those of several lists, such as one for each mask, are numbered.

    >>> entries([[{"label": "a"}], [{"label": "b"}]]), entries(0.5)
    ([{'#': 1, 'label': 'a'}, {'#': 2, 'label': 'b'}], [{'answer': 0.5}])
    """
    if not isinstance(answer, list):
        return [answer] if isinstance(answer, dict) else [{"answer": answer}]
    if answer and isinstance(answer[0], list):
        return [{"#": number, **entry} for number, each in enumerate(answer, 1) for entry in entries(each)]
    return [entry for each in answer for entry in entries(each)] or [{"answer": "nothing"}]


def cell(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(cell, value))
    return f"{value:.4f}" if isinstance(value, float) else without_control_codes(str(value)).replace("\n", "\\n")


def short(text: Any) -> str:
    text = cell(text)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
