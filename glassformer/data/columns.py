"""The columns that a task wants: found in a file by name or number, present in every row, of the right type."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import DataError, InputError, nearest, spelt
from ..text.base.text_inputs import describe
from .file_row import Row

Wanted = dict[str, str | int]  # the name that a task uses -> the file's column, by name or number

TYPES = (str, int, float, bool, list, dict)
INTEGER = re.compile(r"[+-]?[0-9]+")
SHOWN_COLUMNS = 20
# Column names of one or two texts in GLUE and many other files.
USUAL = (
    ("sentence1", "sentence2"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("sentence",),
)


def read_wanted(columns: Mapping[str, str | int] | Sequence[str] | None) -> Wanted | None:
    """The wanted columns as a mapping; a list of names wants them as the file has them."""
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Mapping | Sequence):
        raise InputError(f"columns must map wanted names to the file's names or numbers, got {describe(columns)}")
    wanted = list(columns.items()) if isinstance(columns, Mapping) else [(name, name) for name in columns]
    if not wanted:
        raise InputError("columns names no column; leave it out to get all of them")
    for name, column in wanted:
        if not isinstance(name, str) or not isinstance(column, str | int) or isinstance(column, bool):
            raise InputError(f"columns must map names to names or numbers, got {describe(name)}: {describe(column)}")
    return dict(wanted)


def parse_column(setting: str) -> tuple[str, str | int]:
    """A wanted column as the command line has it: NAME=COLUMN, by name or number; NAME alone is both.

    >>> parse_column("text=sentence"), parse_column("text=2"), parse_column("label")
    (('text', 'sentence'), ('text', 2), ('label', 'label'))
    """
    name, equals, column = setting.partition("=")
    column = column if equals else name
    return name, int(column) if INTEGER.fullmatch(column) else column


def read_types(types: Mapping[str, type] | None) -> dict[str, type]:
    if types is not None and not isinstance(types, Mapping):
        raise InputError(f"types must map the names of columns to types, got {describe(types)}")
    types = dict(types or {})
    for name, kind in types.items():
        if kind not in TYPES:
            allowed = ", ".join(each.__name__ for each in TYPES)
            raise InputError(f"the type of {name!r} must be one of {allowed}, got {describe(kind)}")
    return types


def read_needed(needed: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(needed, Iterable):
        raise InputError(f"needed must be names of columns, got {describe(needed)}")
    return (needed,) if isinstance(needed, str) else tuple(needed)


def check_names(checked: Iterable[str], wanted: Wanted | None) -> None:
    """Refuse to check a column that no row will have."""
    for name in checked:
        if wanted is not None and name not in wanted:
            hint = nearest(str(name), wanted)
            raise InputError(f"needed= or types= names {name!r}, which is not among the wanted columns{hint}")


def find_positions(wanted: Wanted | None, names: Sequence[str | int], place: str) -> list[tuple[str | int, int]]:
    """For each column of a row its name and its position in the file; raises for a missing column."""
    if wanted is None:
        return [(name, position) for position, name in enumerate(names)]
    positions = []
    place_of = {column: position for position, column in reversed(list(enumerate(names)))}
    for name, column in wanted.items():
        if isinstance(column, str) and column in place_of:
            positions.append((name, place_of[column]))
        elif isinstance(column, int) and -len(names) <= column < len(names):
            positions.append((name, column % len(names)))
        else:
            raise DataError(f"{place}: {describe_missing_column(column, names)}")
    return positions


def first_duplicate(names: Iterable[Any]) -> Any:
    """The first name that stands twice, or None."""
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def select_columns(wanted: Wanted | None, row: Row) -> Row | DataError:
    """The wanted columns of a row with named values, such as a JSON object."""
    if wanted is None:
        return row
    selected = Row({}, row.file, row.line)
    for name, column in wanted.items():
        if column not in row:
            return row.fault(describe_missing_column(column, list(row)))
        selected[name] = row[column]
    return selected


def usual_names(row: Mapping[Any, Any], columns: Sequence[str]) -> dict[str, str]:
    """The columns of a row that stand for `text` and `text_pair`, if it has none of `columns` by their own names.

    >>> usual_names({"sentence": "so good", "label": 1}, ("text", "text_pair"))
    {'sentence': 'text'}
    """
    wanted = [name for name in ("text", "text_pair") if name in columns]
    if wanted[:1] != ["text"] or not row.keys().isdisjoint(columns):
        return {}
    usual = next((names for names in USUAL if len(names) <= len(wanted) and row.keys() >= {*names}), ())
    return dict(zip(usual, wanted, strict=False))


def describe_missing_column(column: str | int, names: Sequence[str | int]) -> str:
    """The part of an error that reports a missing column: what there is, and what may have been meant."""
    if names and all(isinstance(name, int) for name in names):
        here = f"its columns are 0 to {len(names) - 1}" + (", without names" if isinstance(column, str) else "")
        return f"there is no column {column!r}; {here}"
    hint = nearest(column, map(str, names)) if isinstance(column, str) else ""
    mark = next((mark for mark in "\t;,|" if len(names) == 1 and mark in str(names[0])), None)
    if mark is not None:
        option = {"\t": ("format", "tsv"), ",": ("format", "csv")}.get(mark, ("delimiter", mark))
        hint = f"; if {mark!r} stands between columns, say {spelt('reading', *option)}"
    listed = ", ".join(map(repr, names[:SHOWN_COLUMNS])) + (", ..." if len(names) > SHOWN_COLUMNS else "")
    return f"there is no column {column!r}{hint}; there is {listed or 'none at all'}"


def check(row: Row, needed: Iterable[str], types: Mapping[str, type], from_text: bool) -> DataError | None:
    """The error of an unusable row, or None; converts numbers that are written as text, in place."""
    for name in {**dict.fromkeys(needed), **types}:
        if name not in row:
            which = f"; say which of them it is: {spelt('column', name, '...', file=row.file)}" if row else ""
            return row.fault(describe_missing_column(name, list(row)) + which)
    for name in needed:
        value = row[name]
        if value is None or (isinstance(value, str) and not value.strip()) or value in ([], {}):
            return row.fault(f"{name!r} is empty")
    for name, kind in types.items():
        try:
            row[name] = parse_number(row[name], kind) if from_text else check_type(row[name], kind)
        except ValueError as error:
            return row.fault(f"{name!r} {error}")
    return None


def parse_number(text: Any, kind: type) -> Any:
    """A value of a text file, in which numbers are written as text."""
    if not isinstance(text, str) or kind not in (int, float):
        return check_type(text, kind)
    number = text.strip()
    try:
        if kind is int and not INTEGER.fullmatch(number):
            raise ValueError
        value = kind(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in number:
        what = "an integer" if kind is int else "a finite number"
        raise ValueError(f"must be {what}, got {describe(text)}")
    return value


def check_type(value: Any, kind: type) -> Any:
    """A value of a file with types; an integer is accepted where a float is wanted."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    is_other = not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    if is_other or (kind is float and not math.isfinite(value)):
        raise ValueError(f"must be {'finite' if not is_other else kind.__name__}, got {describe(value)}")
    return value
