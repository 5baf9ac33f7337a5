"""JSON: one object in each line (jsonl), or one document that holds them (json).

A document is read completely, but its rows are parsed one by one, so that each of them knows its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..errors import DataError, shown
from ..text.base.text_inputs import describe
from .columns import Wanted, first_duplicate, select_columns
from .file_row import Row, fault_at
from .lines import read_document, read_lines
from .sources import Source
from .squad import questions_of

SPACE = re.compile(r"[ \t\n\r]*")
EACH = object()  # in a path: every element of a list

SQUAD = ("data", EACH, "paragraphs", EACH)
LIST, DATA, STREAM = (EACH,), ("data", EACH), ()


def read_jsonl(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """One object in each line; a line of nothing but white space holds none."""
    for number, line in read_lines(source):
        if isinstance(line, DataError):
            yield line
        elif line.strip():
            try:
                value = STRICT.decode(line)
            except (ValueError, RecursionError) as error:
                yield fault_at(source.name, number, describe_json_error(error))
            else:
                yield make_row(value, source, number, wanted)


def read_json(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """A list of objects, one under the key "data", objects one after the other, or questions as SQuAD has them."""
    cursor = Cursor(read_document(source), source.name)
    path = SQUAD if source.format == "squad" else detect_row_path(Cursor(cursor.text, source.name))
    while cursor.next_character():  # once, but for objects one after the other
        for line, value in values_at(cursor, path):
            if path is SQUAD:
                yield from (
                    select_columns(wanted, row) if isinstance(row, Row) else row
                    for row in questions_of(value, source, line)
                )
            else:
                yield make_row(value, source, line, wanted)
        if path is not STREAM and cursor.next_character():
            raise cursor.fault("the document has ended, but more follows")


def make_row(value: Any, source: Source, line: int, wanted: Wanted | None) -> Row | DataError:
    if not isinstance(value, dict):
        return fault_at(source.name, line, f"a row must be an object, got {describe(value)}")
    return select_columns(wanted, Row(value, source.name, line))


def refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different; a duplicate key is ambiguous."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"the key {shown(first_duplicate(name for name, _ in pairs))} stands twice")
    return values


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


STRICT = json.JSONDecoder(object_pairs_hook=refuse_duplicate_keys, parse_constant=refuse_constant)


def describe_json_error(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON ({error.msg.lower()}, column {error.colno})"
    return f"broken JSON ({'nested too deeply' if isinstance(error, RecursionError) else error})"


class Cursor:
    """A position in a JSON text, for a parser that reads values and the punctuation between them."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.place = 0
        self._counted, self._line = 0, 1

    @property
    def line(self) -> int:
        self._line += self.text.count("\n", self._counted, self.place)
        self._counted = self.place
        return self._line

    def fault(self, reason: str) -> DataError:
        return fault_at(self.file, self.line, reason)

    def next_character(self) -> str:
        """Skip white space, and return the next character; an empty string at the end."""
        self.place = SPACE.match(self.text, self.place).end()
        return self.text[self.place : self.place + 1]

    def expect(self, marks: str) -> str:
        """Read one of these punctuation marks, or raise."""
        mark = self.next_character()
        if not mark or mark not in marks:
            raise self.fault(f"broken JSON ({' or '.join(marks)} must stand here, got {mark or 'the end'})")
        self.place += 1
        return mark

    def value(self) -> Any:
        """Read a complete value."""
        self.next_character()
        try:
            value, self.place = STRICT.raw_decode(self.text, self.place)
        except json.JSONDecodeError as error:
            raise fault_at(self.file, error.lineno, describe_json_error(error)) from None
        except (ValueError, RecursionError) as error:
            raise self.fault(describe_json_error(error)) from None
        return value

    def items(self) -> Iterator[None]:
        """Stop before each element of a list; the caller reads it."""
        self.expect("[")
        if self.next_character() == "]":
            self.expect("]")
            return
        yield
        while self.expect(",]") == ",":
            yield

    def members(self) -> Iterator[str]:
        """Stop before each value of an object, with its key; the caller reads it."""
        self.expect("{")
        if self.next_character() == "}":
            self.expect("}")
            return
        while True:
            if self.next_character() != '"':
                self.expect('"')
            key = self.value()
            self.expect(":")
            yield key
            if self.expect(",}") == "}":
                return


def values_at(cursor: Cursor, path: tuple) -> Iterator[tuple[int, Any]]:
    """The values at a path, with their lines; everything beside the path is skipped."""
    if not path:
        cursor.next_character()
        yield cursor.line, cursor.value()
    elif path[0] is EACH:
        for _ in cursor.items():
            yield from values_at(cursor, path[1:])
    else:
        for key in cursor.members():
            if key == path[0]:
                yield from values_at(cursor, path[1:])
            else:
                cursor.value()


def detect_row_path(cursor: Cursor) -> tuple:
    """The path to the rows of a document, detected from its beginning."""
    if cursor.next_character() not in "[{":  # false for an empty text, which has no rows, but is not broken
        raise cursor.fault(f"a list of objects or an object must stand here, got {cursor.next_character()}")
    if cursor.next_character() != "{":
        return LIST if cursor.next_character() else STREAM
    for key in cursor.members():
        if key != "data" or cursor.next_character() != "[":
            cursor.value()
            continue
        for _ in cursor.items():
            if cursor.next_character() != "{":
                break
            for inner in cursor.members():
                if inner == "paragraphs":
                    return SQUAD
                cursor.value()
            break
        return DATA
    return STREAM
