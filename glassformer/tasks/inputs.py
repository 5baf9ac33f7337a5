"""Parsing of calls: rows, in all the forms in which users pass them, and options."""

from __future__ import annotations

import copy
import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from ..data.columns import usual_names
from ..data.file_row import Row as FileRow
from ..errors import InputError, refuse_unknown, spelt
from ..text.base.text_inputs import describe
from .task_options import Options

log = logging.getLogger("glassformer")

Row = dict[str, Any]
SomeReader = TypeVar("SomeReader", bound="RowReader")


@dataclass(frozen=True)
class Columns:
    """The columns of a row: required ones, optional ones, and the targets that training and evaluation need."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()  # those that hold a list of texts instead of one text
    target_texts: tuple[str, ...] = ()  # the targets that hold texts, which a new vocabulary needs too

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional, *self.targets)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional)


class RowReader:
    """The part of a task that parses calls and checks rows. It uses neither model nor tokenizer."""

    name: ClassVar[str]
    columns: ClassVar[Columns]
    column_aliases: ClassVar[Mapping[str, str]] = {}  # other names of columns -> ours
    Options: ClassVar[type[Options]] = Options
    nested_options: ClassVar[str | None] = None  # the argument that holds a dictionary of further options

    options: Any
    cache: dict[str, Any]  # values that are computed once, shared by all copies of the task
    warned: set[str]  # keys of the warnings that were logged, shared too

    def warn_once(self, key: str, message: str, *values: Any) -> None:
        """Log a warning, unless one with this key was logged before."""
        if key not in self.warned:
            self.warned.add(key)
            log.warning(message, *values)

    # --- options -----------------------------------------------------------------------------------------------

    @classmethod
    def option_names(cls) -> list[str]:
        nested = [] if cls.nested_options is None else [cls.nested_options]
        return [*(spec.name for spec in fields(cls.Options)), *nested]

    def with_options(self: SomeReader, **options: Any) -> SomeReader:
        """A copy of the task with changed options; the model is shared."""
        nested = options.pop(self.nested_options, None)
        if nested is not None and not (isinstance(nested, Mapping) and all(isinstance(name, str) for name in nested)):
            raise InputError(f"{self.nested_options} must be a dictionary of options, got {describe(nested)}")
        options |= nested or {}
        refuse_unknown(options, self.option_names(), self.name)
        task = copy.copy(self)
        task.options = replace(self.options, **options)
        return task

    # --- rows --------------------------------------------------------------------------------------------------

    def parse_call(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Split a call's arguments into the row or rows to answer, and the options."""
        columns = {name: value for name, value in named.items() if name in self.columns.all}
        options = {name: value for name, value in named.items() if name not in columns}
        refuse_unknown(
            options, ["inputs", "batch_size", "progress", *self.columns.all, *self.option_names()], self.name
        )
        if "inputs" in options and not inputs:
            inputs = (options.pop("inputs"),)
        placed = dict(zip(self.columns.needed, inputs, strict=False))
        if len(inputs) + len(columns) > 1 and len(placed) == len(inputs) and placed.keys().isdisjoint(columns):
            columns, inputs = {**placed, **columns}, ()
        if len(inputs) + bool(columns) != 1:
            raise InputError(
                f"{self.name} takes a row, a list of rows, or {' and '.join(self.columns.needed)} by name; "
                f"got {len(inputs)} values" + (f" and {', '.join(columns)}" if columns else "")
            )
        return (inputs[0] if inputs else rows_from_columns(columns, self.columns.lists)), options

    def is_single_row(self, given: Any) -> bool:
        """Whether this is one row, and not several."""
        pair = isinstance(given, tuple) and len(self.columns.inputs) > 1
        return isinstance(given, str | Mapping) or (pair and all(isinstance(each, str) for each in given))

    def read(self, given: Any) -> Row:
        """A checked row from a text, a tuple in the order of the columns, or a dictionary."""
        if isinstance(given, str):
            given = (given,)
        if isinstance(given, list | tuple):
            names = self.columns.inputs
            if len(given) > len(names):
                raise InputError(f"{self.name} reads {', '.join(names)}, got {len(given)} values: {describe(given)}")
            given = dict(zip(names, given, strict=False))
        if not isinstance(given, Mapping):
            raise InputError(f"{self.name} reads rows with {', '.join(self.columns.needed)}, got {describe(given)}")
        if isinstance(given, FileRow):
            given = self.rename_columns(given)
        else:  # only files may have columns that the task does not read
            refuse_unknown(given, self.columns.all, f"a row of {self.name}")
        row = {name: value for name, value in given.items() if name in self.columns.all}
        for name in self.columns.inputs:
            self.check_column(name, row.get(name))
        self.check_row(row, given)
        return row

    def read_without_targets(self, given: Any) -> Row:
        """`read` for prediction: the columns that only training and evaluation need are ignored."""
        if isinstance(given, FileRow):
            given = self.from_published(given)
        if isinstance(given, Mapping) and not given.keys().isdisjoint(self.columns.targets):
            inputs = {name: value for name, value in given.items() if name not in self.columns.targets}
            given = given.but(inputs) if isinstance(given, FileRow) else inputs
        return self.read(given)

    @classmethod
    def from_published(cls, row: FileRow) -> FileRow:
        """The columns of this task, from a file's row in the columns of a data set as it is published."""
        return row

    def rename_columns(self, row: FileRow) -> FileRow:
        """A file's row in which common alternative column names are replaced by those that this task reads."""
        row = self.from_published(row)
        names = usual_names(row, self.columns.inputs)
        if not names:
            return row
        mapping = " and ".join(f"{theirs!r} as {ours}" for theirs, ours in names.items())
        self.warn_once("column names", "%s has no column text: %s reads %s", row.file, self.name, mapping)
        return row.but({names.get(name, name): value for name, value in row.items()})

    def check_row(self, row: Row, given: Mapping[str, Any]) -> None:
        """Raise if a required column is missing."""
        for name in self.columns.needed:
            if name in row and row[name] is None:
                raise InputError(f"{self.name} needs {name}, and it is None")
            if name not in row:
                present = ", ".join(map(str, given)) or "nothing"
                hint = ""
                if isinstance(given, FileRow) and given:
                    close = difflib.get_close_matches(name, map(str, given.keys() - {*self.columns.all}), n=1)
                    column = spelt("column", name, close[0] if close else "...", file=given.file)
                    hint = f"; say which of them it is: {column}"
                raise InputError(f"{self.name} needs {name}; the row has {present}{hint}")

    def check_column(self, name: str, value: Any) -> None:
        """Raise if this task cannot read a value; None is a missing column."""


def rows_from_columns(columns: Row, lists: Sequence[str]) -> Row | list[Row]:
    """One row from columns given by name; several when some are lists, with the other values repeated in each row."""
    counts = {
        name: len(value)
        for name, value in columns.items()
        if isinstance(value, list) and (name not in lists or (value and all(isinstance(each, list) for each in value)))
    }
    if not counts:
        return columns
    if len(set(counts.values())) > 1:
        lengths = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise InputError(f"columns given as lists must be equally long, got {lengths}")
    return [
        {name: value[i] if name in counts else value for name, value in columns.items()}
        for i in range(next(iter(counts.values())))
    ]
