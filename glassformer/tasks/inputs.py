"""What a user hands in: rows, in all the ways in which people give them, and options."""

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
    """The columns of a row: those it must have, those it may have, and what training and evaluation need beside."""

    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()  # those that hold a list of texts, and not one text

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional, *self.targets)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional)


class RowReader:
    """The part of a task that takes calls apart and checks rows. It knows neither model nor tokenizer."""

    name: ClassVar[str]
    columns: ClassVar[Columns]
    Options: ClassVar[type[Options]] = Options
    nested_options: ClassVar[str | None] = None  # a dictionary of options that people pass under this name

    options: Any
    kept: dict[str, Any]  # what is worked out once, for all copies of the task

    # --- options -----------------------------------------------------------------------------------------------

    @classmethod
    def option_names(cls) -> list[str]:
        nested = [] if cls.nested_options is None else [cls.nested_options]
        return [*(spec.name for spec in fields(cls.Options)), *nested]

    def with_options(self: SomeReader, **options: Any) -> SomeReader:
        """The same task with other options; the model is shared."""
        options |= options.pop(self.nested_options, None) or {}
        refuse_unknown(options, self.option_names(), self.name)
        task = copy.copy(self)
        task.options = replace(self.options, **options)
        return task

    # --- rows --------------------------------------------------------------------------------------------------

    def take(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Take a call apart: what is to be answered, and the options."""
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
        return (inputs[0] if inputs else spread(columns, self.columns.lists)), options

    def is_one(self, given: Any) -> bool:
        """Whether this is one row, and not many."""
        pair = isinstance(given, tuple) and len(self.columns.inputs) > 1
        return isinstance(given, str | Mapping) or (pair and all(isinstance(each, str) for each in given))

    def read(self, given: Any) -> Row:
        """A row from what a user may hand in: a text, a tuple in the order of the columns, or a dictionary."""
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
            given = self.renamed(given)
        else:  # a file may hold more columns than one task reads
            refuse_unknown(given, self.columns.all, f"a row of {self.name}")
        row = {name: value for name, value in given.items() if name in self.columns.all}
        for name in self.columns.inputs:
            self.check_column(name, row.get(name))
        self.check_row(row, given)
        return row

    def read_unlabelled(self, given: Any) -> Row:
        """`read` for an answer: what only training and evaluation need is not looked at."""
        if isinstance(given, Mapping) and not given.keys().isdisjoint(self.columns.targets):
            kept = {name: value for name, value in given.items() if name not in self.columns.targets}
            given = given.but(kept) if isinstance(given, FileRow) else kept
        return self.read(given)

    def renamed(self, row: FileRow) -> FileRow:
        """A file's row with the names that this task reads, where it has usual ones in their place."""
        names = usual_names(row, self.columns.inputs)
        if names and "names" not in self.kept:
            self.kept["names"] = names
            told = " and ".join(f"{theirs!r} as {ours}" for theirs, ours in names.items())
            log.warning("%s has no column text: %s reads %s", row.file, self.name, told)
        return row.but({names.get(name, name): value for name, value in row.items()}) if names else row

    def check_row(self, row: Row, given: Mapping[str, Any]) -> None:
        """Refuse a row that lacks something."""
        for name in self.columns.needed:
            if name in row and row[name] is None:
                raise InputError(f"{self.name} needs {name}, and it is None")
            if name not in row:
                held = ", ".join(map(str, given)) or "nothing"
                hint = ""
                if isinstance(given, FileRow) and given:
                    close = difflib.get_close_matches(name, map(str, given.keys() - {*self.columns.all}), n=1)
                    column = spelt("column", name, close[0] if close else "...", file=given.file)
                    hint = f"; say which of them it is: {column}"
                raise InputError(f"{self.name} needs {name}; the row has {held}{hint}")

    def check_column(self, name: str, value: Any) -> None:
        """Refuse a value that this task cannot read; None is a column that is not there."""


def spread(columns: Row, lists: Sequence[str]) -> Row | list[Row]:
    """Columns given by name as a row; as rows when some are lists, with what is no list repeated in each."""
    many = {
        name: len(value)
        for name, value in columns.items()
        if isinstance(value, list) and (name not in lists or (value and all(isinstance(each, list) for each in value)))
    }
    if not many:
        return columns
    if len(set(many.values())) > 1:
        counts = ", ".join(f"{count} of {name}" for name, count in many.items())
        raise InputError(f"columns given as lists must be equally long, got {counts}")
    return [
        {name: value[i] if name in many else value for name, value in columns.items()}
        for i in range(next(iter(many.values())))
    ]
