"""Rows of plain text as documents, for tasks that are trained on text without labels."""

from __future__ import annotations

import re
import unicodedata
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
from ...errors import GlassformerError, InputError, spelt
from ...text.base.text_inputs import describe
from ...text.bpe.bpe import SYMBOLS
from ...text.bpe.byte_level_tokenizer import ByteLevelTokenizer
from ...text.tokenizer import PreTrainedTokenizer
from ..task_options import TextOptions

if TYPE_CHECKING:
    from ..text_task import TextTask

LOOKED_AT, FEWEST_LINES = 1000, 8  # lines that decide whether a text is hard-wrapped


@dataclass(frozen=True, kw_only=True)
class DocumentOptions(TextOptions):
    """Which rows make a document; no example crosses its borders.

    Attributes:
        documents: Which rows make a document: "row": each is one, "blank": rows up to an empty one, "file": all
            rows of a file, "all": all rows of all files.
        document_start: A regular expression: the row in which it is found starts a document.
        line_end: Appended to every row in training, such as "<eos>"; None: what keeps words apart.
    """

    documents: str = "row"
    document_start: str | None = None
    line_end: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_documents(self.documents, self.document_start)
        if self.line_end is not None and not isinstance(self.line_end, str):
            raise InputError(f"line_end must be a text or None, got {describe(self.line_end)}")


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


def add_line_ends(task: TextTask, texts: Sequence[str], sentences: bool = False) -> list[str]:
    """Lines with what stands between them in a document; `sentences` were not lines, and have no line breaks to keep.

    Where the option line_end says nothing, this is the line break itself if the tokenizer has tokens for it, else a
    space, though none between Chinese characters; and nothing if the tokenizer separates the words of two lines anyway.
    """
    options = task.options
    if options.line_end is not None:
        return [text + options.line_end for text in texts]
    if options.documents == "row" and options.document_start is None and not sentences:
        if look_hard_wrapped(texts):
            message = "every line is a text of its own, though most end within a sentence; %s joins the lines of a file"
            task.warn_once("documents", message, spelt("option", "documents", "file"))
        return list(texts)
    end = default_line_end(task.tokenizer)
    if not end:
        return list(texts)
    end = " " if sentences else end
    what = "a space, none between Chinese characters" if end == " " else "the line break, which the tokenizer keeps"
    message = "lines of a document are joined by %s; %s joins them by a space, %s by nothing"
    ways = (spelt("option", "line_end", " "), spelt("option", "line_end", ""))
    task.warn_once("line_end", message, what, *ways)
    if end == " ":
        return join_by_spaces(texts)
    return [text if text.endswith(end) else text + end for text in texts]


def look_hard_wrapped(texts: Sequence[str]) -> bool:
    """Whether these are lines of a running text: alike in length, and most of them end within a sentence.

    >>> book = ["The keeper climbed the stairs at", "dusk, as he had climbed them every", "evening for thirty years."]
    >>> look_hard_wrapped(book * 5), look_hard_wrapped(["Good morning.", "A sentence that is much longer."] * 8)
    (True, False)
    """
    lines = [text.rstrip() for text in texts[:LOOKED_AT] if text.strip()]
    if len(lines) < FEWEST_LINES:
        return False
    open_ended = sum(line[-1].isalnum() or line[-1] in ",;:-，、；：" for line in lines)
    longest = max(map(len, lines))
    full = sum(len(line) > 0.7 * longest for line in lines)
    return 2 * open_ended > len(lines) and 2 * full > len(lines)


def default_line_end(tokenizer: PreTrainedTokenizer) -> str:
    """What keeps the last word of a line from the first one of the next: the first of these that has tokens."""
    for end in ("\n", " "):
        if isinstance(tokenizer, ByteLevelTokenizer) and SYMBOLS[ord(end)] not in tokenizer.vocab:
            continue
        ids = tokenizer.encode(end, add_special_tokens=False)
        decoded = tokenizer.decode(ids, clean_up_tokenization_spaces=False) if ids else ""
        if decoded == end or (end == "\n" and decoded.endswith(end)):  # some put a space before every text
            return end
    return ""


def join_by_spaces(texts: Sequence[str]) -> list[str]:
    """Texts with a space after those that need one before the next text that is not empty."""
    joined, after = [], ""
    for text in reversed(texts):
        joined.append(text + space_between(text, after))
        after = text or after
    return joined[::-1]


def space_between(text: str, after: str) -> str:
    """A space if two lines need one: not beside white space, and not between characters that are written without.

    >>> space_between("this", "lesson"), space_between("明月", "几时有"), space_between("用", "GPT")
    (' ', '', ' ')
    """
    if not text or not after or text[-1].isspace() or after[0].isspace():
        return ""
    return "" if is_unspaced(text[-1]) and is_unspaced(after[0]) else " "


def is_unspaced(char: str) -> bool:
    """Whether a character belongs to a script that is written without spaces: Chinese and Japanese, not Korean."""
    return unicodedata.east_asian_width(char) in "WF" and not unicodedata.name(char, "").startswith("HANGUL")


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
                line.split()[0] for line in Path(words).read_text("utf-8-sig").splitlines() if line.split()
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
