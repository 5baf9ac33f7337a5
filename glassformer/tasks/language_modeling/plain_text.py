"""Rows of plain text as documents, for tasks that are trained on text without labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...checkpoints.files import reason_of
from ...data.document_corpus import (
    Corpus,
    Segmenter,
    check_documents,
    document_of_lines,
    encode_lines,
    longest_words,
)
from ...data.file_row import Row as FileRow
from ...errors import GlassformerError, InputError
from ...text.base.text_inputs import describe
from ..task_options import TextOptions

if TYPE_CHECKING:
    from ..text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class DocumentOptions(TextOptions):
    """Which rows make a document; no example crosses its borders."""

    documents: str = "row"  # every row is one, "blank": rows up to an empty one, "file": all rows of a file
    document_start: str | None = None  # a regular expression: the row in which it is found starts a document

    def __post_init__(self) -> None:
        super().__post_init__()
        check_documents(self.documents, self.document_start)


def read_documents(task: TextTask, rows: Iterable[Any]) -> tuple[list[str], list[int], Callable[[int], str]]:
    """The texts of rows, the number of the document that each belongs to, and a function that names a document."""
    listed = list(rows)
    texts, files = [], []
    for number, given in enumerate(listed):
        try:
            texts.append(task.read(given)["text"])
        except GlassformerError as error:
            raise add_location(error, given, number) from None
        files.append(given.file if isinstance(given, FileRow) else "")
    options = task.options
    numbers = document_of_lines(texts, options.documents, options.document_start, files)
    firsts: dict[int, int] = {}
    for row, document in enumerate(numbers):
        firsts.setdefault(document, row)

    def name(document: int) -> str:
        row = firsts[document]
        given = listed[row]
        return given.place if isinstance(given, FileRow) else f"row {row}"

    return texts, numbers, name


def row_starts_document(task: TextTask, row: Any) -> bool:
    """Whether a row can be the first of a document; a document that is a file may be split anywhere."""
    options = task.options
    if options.document_start is not None:
        return re.search(options.document_start, task.read(row)["text"]) is not None
    return options.documents != "blank" or not task.read(row)["text"].strip()


def read_corpus(
    task: TextTask, texts: Sequence[str], numbers: Sequence[int], segmenter: Segmenter | None = None
) -> Corpus:
    """Texts of documents as arrays of ids."""
    return encode_lines(
        task.tokenizer,
        texts,
        numbers,
        segmenter=segmenter,
        split_special_tokens=task.options.split_special_tokens,
    )


def make_segmenter(words: Any) -> Segmenter | None:
    """The function that splits a text into words: at "spaces", by a file that lists words, or given by the caller."""
    if words is None or callable(words):
        return words
    if words == "spaces":
        return str.split
    if isinstance(words, str | Path):
        try:
            return longest_words(
                line.split()[0] for line in Path(words).read_text("utf-8").splitlines() if line.split()
            )
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else str(error)
            raise InputError(f"words names a file with a word in each line; {words} cannot be read: {reason}") from None
    raise InputError(f"words must be 'spaces', a file with a word in each line or a function, got {describe(words)}")


def add_location(error: GlassformerError, given: Any, number: int) -> GlassformerError:
    """The same error with the row's location: its file and line, or its number."""
    if isinstance(given, FileRow):
        return given.fault(str(error))
    return type(error)(f"row {number}: {error}")
