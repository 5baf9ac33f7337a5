"""Plain text as compact arrays of ids: the lines of documents, and the blocks of them that a model is trained on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..text.base.text_inputs import describe
from ..text.tokenizer import PreTrainedTokenizer

BLOCK = 1024  # lines that are encoded at once
DOCUMENTS = ("row", "blank", "file", "all")

Segmenter = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Corpus:
    """All tokens in one array, and where lines and documents begin in it."""

    ids: np.ndarray  # int32: every token
    lines: np.ndarray  # int64: the token that each line begins with, and after the last one the number of tokens
    documents: np.ndarray  # int64: the line that each document begins with, and after the last one the number of lines
    numbers: np.ndarray  # int64: the caller's number of each document; documents without tokens are left out
    begins: np.ndarray | None = None  # whether a token begins a word; None: the vocabulary decides

    @property
    def bounds(self) -> np.ndarray:
        """The token that each document begins with, and after the last one the number of tokens."""
        return self.lines[self.documents]


class Piece(NamedTuple):
    """A block of a corpus, which a task reads as one row."""

    corpus: Corpus
    first: int  # token or line, as the task counts
    last: int  # exclusive
    document: int
    seen: int = 0  # tokens at the beginning that were predicted in the piece before


@dataclass(frozen=True)
class Pieces(Sequence):
    """The blocks of a corpus, indexed like rows."""

    corpus: Corpus
    table: np.ndarray  # int64: first, last, document, seen
    lengths: list[int]  # tokens that a model reads of each
    names: Callable[[int], str]  # where a document came from, by its number
    in_order: bool = False  # whether a block must be read after the one before it in its document

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, number: Any) -> Any:
        return Piece(self.corpus, *self.table[number].tolist())

    def name(self, number: int) -> str:
        return self.names(int(self.corpus.numbers[self.table[number][2]]))


def check_documents(documents: Any, start: Any) -> None:
    """Refuse settings that do not define where documents begin."""
    if documents not in DOCUMENTS:
        raise InputError(f"documents must be one of {', '.join(DOCUMENTS)}, got {describe(documents)}")
    if start is not None:
        try:
            re.compile(start)
        except (re.error, TypeError) as error:
            raise InputError(f"document_start must be a regular expression, got {describe(start)}: {error}") from None


def document_of_lines(
    texts: Sequence[str], documents: str, start: str | None = None, files: Sequence[str] = ()
) -> list[int]:
    """The number of the document that each line belongs to, -1 for an empty line that only stands between two.

    Every line is a "row", an empty line stands between documents ("blank"), a "file" is one, or "all" lines are one.
    Where a pattern is given for their `start`, a line in which it is found begins a new one instead.

    >>> document_of_lines(["a", "b", "", "c"], "blank"), document_of_lines(["a", "b", "", "c"], "file")
    ([0, 0, -1, 1], [0, 0, 0, 0])
    >>> document_of_lines(["= A", "b", "= B", "c"], "file", start="^=")
    [0, 0, 1, 1]
    """
    check_documents(documents, start)
    if start is not None:
        begins = re.compile(start).search
        numbers, now = [], 0
        for place, text in enumerate(texts):
            now += bool(place and begins(text))
            numbers.append(now)
        return numbers
    if documents == "row":
        return list(range(len(texts)))
    if documents == "all":
        return [0] * len(texts)
    numbers, now, fresh = [], -1, True
    for place, text in enumerate(texts):
        if documents == "blank" and not text.strip():
            numbers.append(-1)
            fresh = True
            continue
        if documents == "file" and files and place and files[place] != files[place - 1]:
            fresh = True
        now += fresh
        fresh = False
        numbers.append(now)
    return numbers


def encode_lines(
    tokenizer: PreTrainedTokenizer,
    texts: Sequence[str],
    numbers: Sequence[int],
    *,
    segmenter: Segmenter | None = None,
    split_special_tokens: bool = False,
) -> Corpus:
    """Lines of documents as a corpus, without special tokens around them; `numbers` holds the document of each.

    A line without tokens is none. A `segmenter` cuts a text into words where spaces do not; tokens then know which of
    them begin a word.
    """
    kept = [text for text, number in zip(texts, numbers, strict=True) if number >= 0]
    owners = np.array([number for number in numbers if number >= 0], dtype=np.int64)
    arrays: list[np.ndarray] = []
    begins: list[np.ndarray] = []
    for block in blocks(kept, BLOCK):
        given = [words_of(text, segmenter) for text in block] if segmenter else block
        encoded = tokenizer(
            given,
            add_special_tokens=False,
            is_split_into_words=segmenter is not None,
            split_special_tokens=split_special_tokens,
            verbose=False,
        )
        arrays += [np.array(ids, dtype=np.int32) for ids in encoded["input_ids"]]
        if segmenter is not None:
            words = [np.array(row.words(), dtype=np.int64) for row in encoded.encodings]
            begins += [np.diff(each, prepend=-1) != 0 for each in words]
    sizes = np.array([len(ids) for ids in arrays], dtype=np.int64)
    owners, sizes = owners[sizes > 0], sizes[sizes > 0]
    lines = np.concatenate(([0], np.cumsum(sizes)))
    firsts = np.flatnonzero(np.diff(owners, prepend=-1))
    return Corpus(
        np.concatenate(arrays) if arrays else np.zeros(0, np.int32),
        lines,
        np.append(firsts, len(owners)),
        owners[firsts],
        np.concatenate(begins) if segmenter and begins else None,
    )


def blocks(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def words_of(text: str, segmenter: Segmenter) -> list[str]:
    """The words of a text by a segmenter, after a check that nothing is left out."""
    words = [word for word in segmenter(text) if word.strip()]
    if "".join("".join(words).split()) != "".join(text.split()):
        raise InputError(f"the segmenter made {describe(words)} of {describe(text)}, which is another text")
    return words


def longest_words(words: Iterable[str]) -> Segmenter:
    """A segmenter by longest match in a list of words; unknown characters are words of their own.

    >>> longest_words(["北京", "天安门"])("我爱北京天安门")
    ['我', '爱', '北京', '天安门']
    """
    known = {word for word in words if word}
    longest = max(map(len, known), default=1)

    def cut(text: str) -> list[str]:
        found, place = [], 0
        while place < len(text):
            sizes = range(min(longest, len(text) - place), 0, -1)
            size = next((size for size in sizes if text[place : place + size] in known), 0)
            if not size:  # letters and digits of other scripts stay together
                match = OTHER.match(text, place)
                size = len(match.group()) if match else 1
            found.append(text[place : place + size])
            place += size
        return found

    return cut


OTHER = re.compile(r"[A-Za-z0-9\u00c0-\u024f]+|\s+")
