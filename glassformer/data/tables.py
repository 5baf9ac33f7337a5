"""csv and tsv: fields between delimiters, quoted or not, below a header or not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import DataError, InputError, spelt
from ..text.base.text_inputs import describe
from .columns import Wanted, find_positions, first_duplicate
from .file_row import Row, fault_at
from .lines import LONGEST_LINE, Line, read_lines
from .sources import Source

Record = tuple[int, list[str] | DataError]  # the number of its first line, and its fields or why there are none

# Names that columns of data sets have. One of them in the first line, among other names, makes it a header.
USUAL_NAMES = frozenset(
    """answer answers body category class comment content context description document gold_label headline hypothesis id
    idx index intent label labels language paragraph passage polarity premise prompt qid query question question1
    question2 rating response review score sentence sentence1 sentence2 sentiment similarity source stars summary tag
    tags target text text1 text2 text_a text_b title tokens topic translation tweet utterance
    标签 标题 类别 情感 评论 内容 文本 句子 正文 问题 答案 原文 译文 摘要 评分""".split()
)
NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)*|[.,]\d+)(e[+-]?\d+)?\s*%?", re.IGNORECASE)
LONGEST_NAME, WORDS_OF_A_NAME = 40, 3
LONGEST_FIELD = 1_000_000  # lines of a field in quotes
QUOTE = '"'


@dataclass(frozen=True)
class Table:
    """How a table is written; what is None is decided by the format, or guessed from the file (the header)."""

    header: bool | None = None
    delimiter: str | None = None
    quotes: bool | None = None

    def __post_init__(self) -> None:
        for name in ("header", "quotes"):
            if not isinstance(getattr(self, name), bool | None):
                raise InputError(f"{name} must be True, False or None, got {describe(getattr(self, name))}")
        one = self.delimiter
        if one is not None and (not isinstance(one, str) or len(one) != 1 or one in '"\r\n'):
            raise InputError(f"delimiter must be one character, no quote and no line break, got {describe(one)}")


def read_table(source: Source, wanted: Wanted | None, table: Table) -> Iterator[Row | DataError]:
    """The rows of a csv or tsv file. Without a header the columns are called 0, 1, 2, ..."""
    is_csv = source.format == "csv"
    delimiter = table.delimiter or ("," if is_csv else "\t")
    quotes = is_csv if table.quotes is None else table.quotes
    records = split_records(read_lines(source), delimiter, quotes, source.name)

    start = list(itertools.islice(records, 2 if table.header is None else 1))
    if not start:
        return
    names: Sequence[str | int] | None = None
    if table.header is not False and has_header(start, table.header, wanted, source.name):
        line, fields = start.pop(0)
        names = names_in(fields, source.name, line)
        places = find_positions(wanted, names, f"{source.name}, line {line}")
    for number, fields in itertools.chain(start, records):
        if isinstance(fields, DataError):
            yield fields
            continue
        if names is None:
            line, names = number, range(len(fields))
            places = find_positions(wanted, names, f"{source.name}, line {line}")
        if len(fields) == len(names):
            yield Row({name: fields[position] for name, position in places}, source.name, number)
        else:
            plural = "" if len(fields) == 1 else "s"
            yield fault_at(source.name, number, f"{len(fields)} field{plural}, but line {line} has {len(names)}")


# --- fields -----------------------------------------------------------------------------------------------------------


def split_records(lines: Iterator[Line], delimiter: str, quotes: bool, file: str) -> Iterator[Record]:
    """Lines cut at the delimiters. An empty line holds no record."""
    for number, line in lines:
        if isinstance(line, DataError):
            yield number, line
        elif quotes and QUOTE in line:
            yield number, parse_quoted_fields(number, line, lines, delimiter, file)
        elif line:
            yield number, line.split(delimiter)


def parse_quoted_fields(
    number: int, line: str, lines: Iterator[Line], delimiter: str, file: str
) -> list[str] | DataError:
    """The fields of a record in which quotes stand: a quoted field may hold delimiters, doubled quotes, line breaks."""
    fields: list[str] = []
    here, place = number, 0  # the line that is being read, and the place in it
    while True:
        if not line.startswith(QUOTE, place):  # a quote further on in such a field is a plain character
            end = line.find(delimiter, place)
            fields.append(line[place : end if end >= 0 else None])
            if end < 0:
                return fields
            place = end + len(delimiter)
            continue
        opened, parts, length = here, [], 0
        place += 1
        while (end := line.find(QUOTE, place)) < 0 or line.startswith(QUOTE, end + 1):
            if end >= 0:
                parts.append(line[place : end + 1])
                place = end + 2
                continue
            parts.append(line[place:] + "\n")
            length += len(line)
            here, line = next(lines, (here, None))
            if isinstance(line, DataError):
                return line
            if line is None or length > LONGEST_LINE or here - opened > LONGEST_FIELD:
                return fault_at(
                    file, opened, f"the quote of field {len(fields) + 1} is never closed{quote_hint(opened, here)}"
                )
            place = 0
        fields.append("".join(parts) + line[place:end])
        place = end + 1
        if place == len(line):
            return fields
        if not line.startswith(delimiter, place):
            return fault_at(
                file, opened, f"field {len(fields)} goes on behind its closing quote{quote_hint(opened, here)}"
            )
        place += len(delimiter)


def quote_hint(opened: int, here: int) -> str:
    read = f" (lines {opened} to {here} were read)" if here > opened else ""
    return f"{read}; with {spelt('reading', 'quotes', False)} a quote is a plain character"


# --- the header -------------------------------------------------------------------------------------------------------


def names_in(fields: list[str], file: str, line: int) -> list[str | int]:
    """The columns by their names; one without a name, as spreadsheets leave behind the others, by its number."""
    names = [field.strip() or number or "" for number, field in enumerate(fields)]
    twice = first_duplicate(names)
    if twice is not None:
        option = spelt("reading", "header", False)
        raise fault_at(file, line, f"two columns are called {twice!r}; {option} gives them numbers")
    return names


def has_header(start: list[Record], header: bool | None, wanted: Wanted | None, file: str) -> bool:
    """Whether the first line is a header. If the caller does not state it, it is one, it is none, or an error.

    It is one when it holds every column that is wanted by name. Else it is none when a field cannot be a name: a number
    or no letters at all, a long text, one that ends like a sentence, an empty one (but for the first, where pandas puts
    its index), or two alike. It is one when all can be names and, besides, columns are wanted by name, or one of the
    usual names is there, or one word stands above a number.
    """
    line, fields = start[0]
    if isinstance(fields, DataError):
        raise fields  # the names of the columns are unknown
    if header:
        return True
    names = [field.strip() for field in fields]
    called = [column for column in (wanted or {}).values() if isinstance(column, str)]
    if called and {*called} <= {*names}:
        return True
    if len(set(names)) < len(names) or not all(can_be_name(name) for name in (names if names[0] else names[1:])):
        return False
    if called or any(name.lower() in USUAL_NAMES for name in names):
        return True
    below = start[1][1] if len(start) > 1 and not isinstance(start[1][1], DataError) else []
    if any(is_number(field) and " " not in name for name, field in zip(names, below, strict=False)):
        return True
    shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
    ways = " or ".join(spelt("reading", "header", value) for value in (True, False))
    raise fault_at(file, line, f"is this a header or the first row? {shown}: say {ways}, or name the columns")


def can_be_name(field: str) -> bool:
    return (
        len(field) <= LONGEST_NAME
        and len(field.split()) <= WORDS_OF_A_NAME
        and any(character.isalpha() for character in field)
        and not is_number(field)
        and field[-1] not in ".!?。！？…"
    )


def is_number(field: str) -> bool:
    """Whether a field is a number, with or without a percent sign.

    >>> is_number(" 1,000.5 %"), is_number("1 of 2")
    (True, False)
    """
    return NUMBER.fullmatch(field.strip()) is not None
