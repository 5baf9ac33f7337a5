"""Rows for the verbs that answer them: from files or standard input, numbered, each bad one in its place."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from ...errors import DataError, GlassformerError, InputError, nearest

if TYPE_CHECKING:
    from ...data.file_row import Row
    from ...data.readers import Rows
    from ...tasks.task import Task

SWITCH = {"guess": None, "yes": True, "no": False}
COUNTED = ("txt", "jsonl")  # formats with a row in each line, which can be counted beforehand
BLOCK = 2**20


@dataclass(frozen=True)
class RowFormat:
    """How the rows of a file are read.

    Attributes:
        column: Which of the file's columns to read as what, by its name, text=sentence, or by its number from 0,
            text=2. Can be given several times; then only these columns are read. If not given, columns are found by
            their names.
        format: The format, if it does not follow from the suffix; standard input is txt if not given.
        header: Whether the first line of a csv or tsv file names its columns.
        delimiter: What stands between the columns of a csv or tsv file, if it is neither a comma nor a tab.
        quotes: Whether fields of a csv or tsv file may stand in quotes; those of csv may, if nothing is said.
    """

    column: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=COLUMN")]] = ()
    format: Annotated[str, arg(metavar="FORMAT")] = ""
    header: Literal["guess", "yes", "no"] = "guess"
    delimiter: Annotated[str, arg(metavar="CHARACTER")] = ""
    quotes: Literal["guess", "yes", "no"] = "guess"

    def rows(self, file: str, known: Iterable[str]) -> Rows:
        """The rows of a file, or of standard input for `-`; `known` are the columns that can be named."""
        from ...data.readers import read_rows

        return read_rows(
            file,
            format=self.format or ("txt" if file == "-" else None),
            columns=self.wanted(list(known)),
            header=SWITCH[self.header],
            delimiter=self.delimiter or None,
            quotes=SWITCH[self.quotes],
        )

    def wanted(self, known: list[str]) -> dict[str, str | int] | None:
        columns: dict[str, str | int] = {}
        for given in self.column:
            name, equals, column = given.partition("=")
            column = column if equals else name
            if name not in known:
                raise InputError(
                    f"--column takes NAME=COLUMN, such as {known[0]}={column}; NAME is one of {', '.join(known)}, "
                    f"got {name!r}{nearest(name, known)}"
                )
            if not column or name in columns:
                raise InputError(f"--column takes each NAME=COLUMN once, got {given!r}")
            columns[name] = int(column) if column.isascii() and column.isdigit() else column
        return columns or None

    def settings(self) -> dict[str, Any]:
        """What decides how rows are read, for a note of it."""
        return {**vars(self), "column": list(self.column)}


@dataclass(frozen=True)
class RowInput:
    """Where rows come from.

    Attributes:
        input: A file of rows (txt, csv, tsv, jsonl, json, conll, parquet, these also as .gz), a folder of such files,
            a pattern, or - for standard input. Every line of txt is a row, an empty one too; in the other formats an
            empty line is none.
    """

    input: Annotated[str, arg(metavar="FILE")] = ""
    row_format: Annotated[RowFormat, arg(name="")] = RowFormat()

    def rows(self, known: Iterable[str]) -> Rows:
        """What to read; `known` are the columns that can be named."""
        return self.row_format.rows(self.input, known)

    def settings(self) -> dict[str, Any]:
        """What decides which rows are read, for a note of it."""
        return {"input": self.input, **self.row_format.settings()}


def items_of(rows: Rows) -> Iterator[Row | DataError]:
    """All rows, with a DataError in the place of each that cannot be used."""
    from ...data.readers import rows_and_faults

    for source in rows.sources:
        yield from rows_and_faults(source, rows.wanted, rows.table)


def count_of(rows: Rows) -> int | None:
    """How many rows there are, if that is known without reading them one by one."""
    if any(not source.path or source.is_packed or source.format not in COUNTED for source in rows.sources):
        return None
    if not all(source.path.is_file() for source in rows.sources):  # a named pipe can be read only once
        return None
    return sum(lines_in(source.path) for source in rows.sources)


def lines_in(path: Any) -> int:
    """The lines of a file, the last one also if nothing ends it."""
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


class Feed:
    """Rows on their way to their answers: remembers which are waiting, and stops at each bad one."""

    def __init__(self, items: Iterable[Row | DataError], first: int) -> None:
        self.items = iter(items)
        self.next = first  # the number of the row to be read next
        self.waiting: deque[tuple[int, Row]] = deque()
        self.fault: DataError | None = None
        self.spoilt: GlassformerError | None = None  # what ends the reading before its end
        self.is_over = False

    def good(self) -> Iterator[Row]:
        """The rows up to the next bad one."""
        try:
            for item in self.items:
                self.next += 1
                if isinstance(item, DataError):
                    self.fault = item
                    return
                self.waiting.append((self.next - 1, item))
                yield item
        except GlassformerError as error:
            self.spoilt = error
        self.is_over = True

    def put_back(self) -> None:
        """Take the row that the task refused out; those read behind it, and a fault among them, come again."""
        _, *behind = self.waiting
        self.waiting.clear()
        faults = [] if self.fault is None else [self.fault]
        self.items = chain([row for _, row in behind], faults, self.items)
        self.next -= len(behind) + len(faults)
        self.is_over = False


def answered(
    task: Task,
    items: Iterable[Row | DataError],
    bad: Callable[[DataError], None],
    *,
    first: int = 0,
    budget: int | None = None,
) -> Iterator[tuple[int, Row, Any]]:
    """Every row with its number and its answer, in order.

    A bad row, whether the reader or the task refuses it, is handed to `bad`, after the rows before it have been
    answered. If that does not raise, work goes on behind it.
    """
    from ...tasks.inference import BUDGET, answers

    feed = Feed(items, first)
    while not feed.is_over:
        feed.fault = None
        try:
            for answer in answers(task, feed.good(), budget=budget or BUDGET, first=feed.next):
                yield *feed.waiting.popleft(), answer
        except DataError as error:
            feed.put_back()  # the rows before the bad one have been answered
            feed.fault = error
        if feed.fault is not None:
            bad(feed.fault)
    if feed.spoilt is not None:
        raise feed.spoilt
