"""Input rows of verbs: from files or standard input, numbered, with an error in the place of each bad one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from ...errors import DataError, GlassformerError, InputError, nearest
from ...text.base.character_encodings import has_plain_line_ends

if TYPE_CHECKING:
    from ...data.file_row import Row
    from ...data.readers import Rows
    from ...tasks.task import Task

TRISTATE = {"guess": None, "yes": True, "no": False}
LINE_FORMATS = ("txt", "jsonl")  # one row in each line, which can be counted beforehand
BLOCK = 2**20


@dataclass(frozen=True)
class RowFormat:
    """How the rows of a file are read.

    Attributes:
        columns: Which of the file's columns to read as what, by its name, text=sentence, or by its number from 0,
            text=2. Can be given several times; then only these columns are read. If not given, columns are found by
            their names.
        format: The format, if it does not follow from the suffix; standard input is txt if not given.
        header: Whether the first line of a csv or tsv file names its columns.
        delimiter: The separator of the columns of a csv or tsv file, if it is neither a comma nor a tab.
        quotes: Whether fields of a csv or tsv file may be quoted; guess: those of csv may.
        encoding: What the file is written in, such as gbk, big5 or utf-16; UTF-8 if not given.
    """

    columns: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=COLUMN")]] = ()
    format: Annotated[str, arg(metavar="FORMAT")] = ""
    header: Literal["guess", "yes", "no"] = "guess"
    delimiter: Annotated[str, arg(metavar="CHARACTER")] = ""
    quotes: Literal["guess", "yes", "no"] = "guess"
    encoding: Annotated[str, arg(metavar="NAME")] = ""

    def rows(self, file: str, known: Iterable[str]) -> Rows:
        """The rows of a file, or of standard input for `-`; `known` are the columns that can be named."""
        from ...data.readers import read_rows

        return read_rows(
            file,
            format=self.format or ("txt" if file == "-" else None),
            columns=self.wanted(list(known)),
            header=TRISTATE[self.header],
            delimiter=self.delimiter or None,
            quotes=TRISTATE[self.quotes],
            encoding=self.encoding or None,
        )

    def wanted(self, known: list[str]) -> dict[str, str | int] | None:
        from ...data.columns import parse_column

        columns: dict[str, str | int] = {}
        for setting in self.columns:
            name, column = parse_column(setting)
            if name not in known:
                raise InputError(
                    f"--columns takes NAME=COLUMN, such as {known[0]}={column}; NAME is one of {', '.join(known)}, "
                    f"got {name!r}{nearest(name, known)}"
                )
            if column == "" or name in columns:
                raise InputError(f"--columns takes each NAME=COLUMN once, got {setting!r}")
            columns[name] = column
        return columns or None

    def settings(self) -> dict[str, Any]:
        """The settings of reading, for the record of a run."""
        return {**vars(self), "columns": list(self.columns)}


@dataclass(frozen=True)
class RowInput:
    """Where rows come from.

    Attributes:
        input: A file of rows (txt, csv, tsv, jsonl, json, conll, parquet, these also as .gz), a folder of such files,
            a folder per class of texts, pictures or recordings, a pattern, or - for standard input. Every line of txt
            is a row, an empty one too; in the other formats an empty line is none.
    """

    input: Annotated[str, arg(metavar="FILE")] = ""
    row_format: Annotated[RowFormat, arg(name="")] = RowFormat()

    def rows(self, known: Iterable[str]) -> Rows:
        """What to read; `known` are the columns that can be named."""
        return self.row_format.rows(self.input, known)

    def settings(self) -> dict[str, Any]:
        """The settings of reading, for the record of a run."""
        return {"input": self.input, **self.row_format.settings()}


def rows_and_errors(rows: Rows) -> Iterator[Row | DataError]:
    """All rows, with a DataError in the place of each that cannot be used."""
    from ...data.readers import rows_and_faults

    for source in rows.sources:
        yield from rows_and_faults(source, rows.wanted, rows.table)


def known_count(rows: Rows) -> int | None:
    """The number of rows, if it is known without parsing them."""
    from ...data.class_folders import COLUMNS

    if all(source.format in COLUMNS for source in rows.sources):  # a file is a row
        return len(rows.sources)
    if any(not source.path or source.is_packed or source.format not in LINE_FORMATS for source in rows.sources):
        return None
    if not all(source.path.is_file() for source in rows.sources):  # a named pipe can be read only once
        return None
    if not all(has_plain_line_ends(source.encoding) for source in rows.sources):
        return None
    return sum(lines_in(source.path) for source in rows.sources)


def reads_standard_input(rows: Rows) -> bool:
    """Whether rows are read from standard input, where they may arrive one by one."""
    return any(source.path is None for source in rows.sources)


def lines_in(path: Any) -> int:
    """The number of lines of a file, including a last one without a line end."""
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            count += block.count(b"\n")
            last = block[-1:]
    return count + (last != b"\n")


class PendingRows:
    """Rows that are being answered: a queue of those without an answer, which stops at each bad one, and where the
    next row has not arrived yet."""

    def __init__(self, items: Iterable[Row | DataError], first: int, would_wait: Callable[[], bool] | None) -> None:
        self.items = iter(items)
        self.would_wait = would_wait
        self.next = first  # the number of the row to be read next
        self.queue: deque[tuple[int, Row]] = deque()
        self.fault: DataError | None = None
        self.read_error: GlassformerError | None = None  # what stopped the reading
        self.is_exhausted = False

    def until_bad_row(self) -> Iterator[Row]:
        """The rows up to the next bad one, or up to one that is awaited."""
        try:
            for item in self.items:
                self.next += 1
                if isinstance(item, DataError):
                    self.fault = item
                    return
                self.queue.append((self.next - 1, item))
                yield item
                if self.would_wait is not None and self.would_wait():
                    return
        except GlassformerError as error:
            self.read_error = error
        self.is_exhausted = True

    def drop_refused_row(self) -> None:
        """Drop the row that the task refused; rows read after it, and a fault among them, are read again."""
        _, *later = self.queue
        self.queue.clear()
        faults = [] if self.fault is None else [self.fault]
        self.items = chain([row for _, row in later], faults, self.items)
        self.next -= len(later) + len(faults)
        self.is_exhausted = False


def answer_rows(
    task: Task,
    items: Iterable[Row | DataError],
    on_bad: Callable[[DataError], None],
    *,
    first: int = 0,
    budget: int | None = None,
    would_wait: Callable[[], bool] | None = None,
) -> Iterator[tuple[int, Row, Any]]:
    """Every row with its number and its answer, in order. When the next row `would_wait`, those before it are answered.

    A bad row, whether the reader or the task refuses it, is passed to `on_bad` after the rows before it have been
    answered. Unless that raises, the rows after it follow.
    """
    from ...tasks.inference import BUDGET, answers

    pending = PendingRows(items, first, would_wait)
    while not pending.is_exhausted:
        pending.fault = None
        try:
            for answer in answers(task, pending.until_bad_row(), budget=budget or BUDGET, first=pending.next):
                yield *pending.queue.popleft(), answer
        except DataError as error:
            pending.drop_refused_row()  # the rows before the bad one have been answered
            pending.fault = error
        if pending.fault is not None:
            on_bad(pending.fault)
    if pending.read_error is not None:
        raise pending.read_error
