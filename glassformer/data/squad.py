"""Questions on a text, as SQuAD and its kin (XQuAD, CMRC, DRCD) write them: articles > paragraphs > questions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import DataError
from ..text.base.text_inputs import describe
from .file_row import Row, fault_at
from .sources import Source


def questions_of(paragraph: Any, source: Source, line: int) -> Iterator[Row | DataError]:
    """One row for each question of a paragraph: id, question, context, answers, is_impossible.

    `answers` is {"text": [...], "answer_start": [...]}, empty where the file has none; a start counts characters of
    the context. The starts are the file's own: CMRC has -1 where an answer does not stand in the text. Every question
    has the line of its paragraph.
    """
    try:
        context = get_typed(paragraph, "context", str, "a paragraph")
        questions = get_typed(paragraph, "qas", list, "a paragraph")
    except ValueError as error:
        yield fault_at(source.name, line, str(error))
        return
    for number, question in enumerate(questions):
        try:
            yield Row(question_columns(question, context), source.name, line)
        except ValueError as error:
            known_as = question.get("id", number) if isinstance(question, dict) else number
            yield fault_at(source.name, line, f"question {known_as!r}: {error}")


def question_columns(question: Any, context: str) -> dict[str, Any]:
    text = get_typed(question, "question", str, "it")
    answers = get_typed(question, "answers", list, "it") if question.get("answers") is not None else []
    return {
        "id": question.get("id"),
        "question": text,
        "context": context,
        "answers": {
            "text": [get_typed(answer, "text", str, "an answer") for answer in answers],
            "answer_start": [get_typed(answer, "answer_start", int, "an answer") for answer in answers],
        },
        "is_impossible": get_typed(question, "is_impossible", bool, "it") if "is_impossible" in question else False,
    }


def get_typed(value: Any, key: str, kind: type, owner: str) -> Any:
    """The value of a key, which must exist and be of this type."""
    if not isinstance(value, dict):
        raise ValueError(f"{owner} must be an object, got {describe(value)}")
    if key not in value:
        raise ValueError(f"{owner} has no {key!r}; it has {', '.join(map(repr, value)) or 'nothing'}")
    part = value[key]
    if not isinstance(part, kind) or (kind is int and isinstance(part, bool)):
        raise ValueError(f"{key!r} must be {kind.__name__}, got {describe(part)}")
    return part
