"""Rows of a text and its possible endings, in the columns of the published data sets.

SWAG          `sent1`, `sent2` (how every ending begins), `ending0`, `ending1`, ... and `label`, counted from 0
HellaSwag     `ctx`, `endings`, `label`, counted from 0
Story Cloze   `InputSentence1` to `InputSentence4`, `RandomFifthSentenceQuiz1` and `2`, `AnswerRightEnding`, which is
              counted from 1 (ROCStories)
"""

from __future__ import annotations

from typing import Any

from ..text.base.text_inputs import describe
from .file_row import Row

STORY = tuple(f"InputSentence{number}" for number in range(1, 5))
QUIZZES = ("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2")
RIGHT_ENDING = "AnswerRightEnding"


def read_choices(row: Row) -> Row:
    """A row's `prompt`, `choices` and `label`, if it has the columns of one of these data sets; else the row itself.

    >>> read_choices(Row({"sent1": "He is.", "sent2": "He", "ending0": "sits.", "ending1": "flies.", "label": "0"}))
    {'prompt': 'He is.', 'choices': ['He sits.', 'He flies.'], 'label': '0'}
    """
    if "prompt" in row or "choices" in row:
        return row
    if {"sent1", "sent2", "ending0", "ending1"} <= row.keys():
        endings = [name for name in row if isinstance(name, str) and name.startswith("ending") and name[6:].isdecimal()]
        endings.sort(key=lambda name: int(name[6:]))
        texts = texts_of(row, ("sent1", *endings))
        begin = row["sent2"].strip() if isinstance(row["sent2"], str) else ""  # a few rows have none
        return made(row, texts[0], [f"{begin} {ending}".strip() for ending in texts[1:]], row.get("label"))
    if {"ctx", "endings"} <= row.keys():
        return made(row, row["ctx"], row["endings"], row.get("label"))
    if {*STORY, *QUIZZES} <= row.keys():
        texts = texts_of(row, (*STORY, *QUIZZES))
        return made(row, " ".join(texts[:4]), texts[4:], right_ending(row))
    return row


def texts_of(row: Row, names: tuple[str, ...]) -> list[str]:
    """The texts in some columns, none of which may be empty."""
    for name in names:
        if not isinstance(row[name], str) or not row[name].strip():
            raise row.fault(f"{name!r} must be a text, got {describe(row[name])}")
    return [row[name].strip() for name in names]


def right_ending(row: Row) -> int | None:
    """The number of the right ending from 0; the file counts from 1."""
    value = row.get(RIGHT_ENDING)
    if value is None or value == "":
        return None
    if str(value).strip() not in ("1", "2"):
        raise row.fault(f"{RIGHT_ENDING!r} must be 1 or 2, got {describe(value)}")
    return int(value) - 1


def made(row: Row, prompt: Any, choices: Any, label: Any) -> Row:
    """The row that the task reads; one without an answer, as in a hidden test set, has no label."""
    answer = {} if label is None or label == "" else {"label": label}
    return row.but({"prompt": prompt, "choices": choices, **answer})
