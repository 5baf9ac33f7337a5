"""JSON: one object in each line (jsonl), or one document that holds them (json).

A document is read completely, but its rows are parsed one by one, so that each of them knows its line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..errors import DataError
from ..text.base.text_inputs import describe
from .columns import Wanted, pick
from .file_row import Row, fault_at
from .lines import document_of, lines_of
from .sources import Source
from .squad import questions_of

SPACE = re.compile(r"[ \t\n\r]*")
EACH = object()  # in a path: every element of a list

SQUAD = ("data", EACH, "paragraphs", EACH)
LIST, DATA, STREAM = (EACH,), ("data", EACH), ()


def read_jsonl(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """One object in each line; a line of nothing but white space holds none."""
    for number, line in lines_of(source):
        if isinstance(line, DataError):
            yield line
        elif line.strip():
            try:
                value = STRICT.decode(line)
            except (ValueError, RecursionError) as error:
                yield fault_at(source.name, number, broken(error))
            else:
                yield row_of(value, source, number, wanted)


def read_json(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """A list of objects, one under the key "data", objects one after the other, or questions as SQuAD has them."""
    cursor = Cursor(document_of(source), source.name)
    form = SQUAD if source.format == "squad" else form_of(Cursor(cursor.text, source.name))
    while cursor.peek():  # once, but for objects one after the other
        for line, value in elements(cursor, form):
            if form is SQUAD:
                yield from (
                    pick(wanted, row) if isinstance(row, Row) else row for row in questions_of(value, source, line)
                )
            else:
                yield row_of(value, source, line, wanted)
        if form is not STREAM and cursor.peek():
            raise cursor.fault("the document has ended, but more follows")


def row_of(value: Any, source: Source, line: int, wanted: Wanted | None) -> Row | DataError:
    if not isinstance(value, dict):
        return fault_at(source.name, line, f"a row must be an object, got {describe(value)}")
    return pick(wanted, Row(value, source.name, line))


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different; of two values for one key, neither is known to be the one meant."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return made


def no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


STRICT = json.JSONDecoder(object_pairs_hook=unique, parse_constant=no_number)


def broken(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"broken JSON ({error.msg.lower()}, column {error.colno})"
    return f"broken JSON ({'nested too deeply' if isinstance(error, RecursionError) else error})"


class Cursor:
    """A place in a JSON text, which moves on by values and by the marks between them."""

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

    def peek(self) -> str:
        """The next character that is no white space; nothing at the end."""
        self.place = SPACE.match(self.text, self.place).end()
        return self.text[self.place : self.place + 1]

    def take(self, marks: str) -> str:
        """Move on over one of these marks."""
        mark = self.peek()
        if not mark or mark not in marks:
            raise self.fault(f"broken JSON ({' or '.join(marks)} must stand here, got {mark or 'the end'})")
        self.place += 1
        return mark

    def value(self) -> Any:
        """Move on over a complete value."""
        self.peek()
        try:
            value, self.place = STRICT.raw_decode(self.text, self.place)
        except json.JSONDecodeError as error:
            raise fault_at(self.file, error.lineno, broken(error)) from None
        except (ValueError, RecursionError) as error:
            raise self.fault(broken(error)) from None
        return value

    def items(self) -> Iterator[None]:
        """Stop before each element of a list; whoever iterates moves on over it."""
        self.take("[")
        if self.peek() == "]":
            self.take("]")
            return
        yield
        while self.take(",]") == ",":
            yield

    def members(self) -> Iterator[str]:
        """Stop before each value of an object, with its key; whoever iterates moves on over it."""
        self.take("{")
        if self.peek() == "}":
            self.take("}")
            return
        while True:
            if self.peek() != '"':
                self.take('"')
            key = self.value()
            self.take(":")
            yield key
            if self.take(",}") == "}":
                return


def elements(cursor: Cursor, path: tuple) -> Iterator[tuple[int, Any]]:
    """The values at the end of a path, with their lines; what stands beside the path is passed over."""
    if not path:
        cursor.peek()
        yield cursor.line, cursor.value()
    elif path[0] is EACH:
        for _ in cursor.items():
            yield from elements(cursor, path[1:])
    else:
        for key in cursor.members():
            if key == path[0]:
                yield from elements(cursor, path[1:])
            else:
                cursor.value()


def form_of(cursor: Cursor) -> tuple:
    """The path to the rows of a document, recognised by how it begins."""
    if cursor.peek() not in "[{":  # of the empty text too this holds: it has no rows, but is not broken
        raise cursor.fault(f"a list of objects or an object must stand here, got {cursor.peek()}")
    if cursor.peek() != "{":
        return LIST if cursor.peek() else STREAM
    for key in cursor.members():
        if key != "data" or cursor.peek() != "[":
            cursor.value()
            continue
        for _ in cursor.items():
            if cursor.peek() != "{":
                break
            for inner in cursor.members():
                if inner == "paragraphs":
                    return SQUAD
                cursor.value()
            break
        return DATA
    return STREAM
