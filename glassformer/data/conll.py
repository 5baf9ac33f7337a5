"""CoNLL columns: one token in each line with its tags, an empty line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import DataError
from .columns import Wanted, find_positions
from .file_row import Row, fault_at
from .lines import read_lines
from .sources import Source

DOCUMENT_START = "-DOCSTART-"  # the line with which CoNLL-2003 begins a document; no sentence
NAMES = {"tokens": 0, "tags": -1}


def read_conll(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """The sentences of a file: `tokens` from its first column, `tags` from its last, or what `wanted` says.

    Columns stand between tabs, or between spaces in a line without a tab. In a file of Chinese the tokens are mostly
    single characters. A file of one column has no tags.
    """
    width, first, places = 0, 0, []
    sentence: list[list[str]] = []
    start, fault = 0, None
    for number, line in read_lines(source):
        if isinstance(line, str) and not line.strip(" \t"):
            yield from finish_sentence(sentence, fault, places, source, start)
            sentence, fault = [], None
            continue
        start = start if sentence or fault else number
        if isinstance(line, DataError):
            fault = fault or line
            continue
        fields = line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]
        if not width:
            width, first = len(fields), number
            places = resolve_columns(wanted, width, f"{source.name}, line {number}")
        if len(fields) != width:
            plural = "" if len(fields) == 1 else "s"
            fault = fault or fault_at(
                source.name, number, f"{len(fields)} column{plural}, but line {first} has {width}"
            )
        elif not all(fields[place] for _, place in places):
            fault = fault or fault_at(source.name, number, f"an empty column in {line!r}")
        sentence.append(fields)
    yield from finish_sentence(sentence, fault, places, source, start)


def finish_sentence(
    sentence: list[list[str]], fault: DataError | None, places: list[tuple[str, int]], source: Source, start: int
) -> Iterator[Row | DataError]:
    """The row of a complete sentence; of one with errors, the first error."""
    if fault is not None:
        yield fault
    elif sentence and [fields[0] for fields in sentence] != [DOCUMENT_START]:
        yield Row({name: [fields[place] for fields in sentence] for name, place in places}, source.name, start)


def resolve_columns(wanted: Wanted | None, width: int, place: str) -> list[tuple[str, int]]:
    """Which columns become which lists; `tokens` and `tags` are names, all columns have numbers."""
    known = NAMES if width > 1 else {"tokens": 0}
    by_number = {name: known.get(column, column) for name, column in (wanted or known).items()}
    return find_positions(by_number, range(width), place)
