"""A row: plain values by the names of their columns, and where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import DataError

KEPT_FAULTS = 5


class Row(dict):
    """Values by the names of their columns; an ordinary dict that remembers its file and line.

    >>> row = Row({"text": "fine", "label": "1"}, "train.tsv", 7)
    >>> row["text"], row.place
    ('fine', 'train.tsv, line 7')
    """

    __slots__ = ("file", "line")
    unit = "line"

    def __init__(self, values: Mapping[Any, Any] = (), file: str = "", line: int = 0) -> None:
        super().__init__(values)
        self.file = file
        self.line = line

    @property
    def place(self) -> str:
        """Where the row came from, as errors name it."""
        return f"{self.file}, {self.unit} {self.line}"

    def but(self, values: Mapping[Any, Any]) -> Row:
        """Other values from the same place."""
        return type(self)(values, self.file, self.line)

    def fault(self, reason: str) -> DataError:
        """An error that names this row, for the caller to raise."""
        return DataError(f"{self.place}: {reason}")


class WholeFileRow(Row):
    """A row that is a file of its own, not a line of one."""

    __slots__ = ()

    @property
    def place(self) -> str:
        return self.file


def fault_at(file: str, line: int, reason: str) -> DataError:
    """An error that names a line which did not become a row."""
    return DataError(f"{file}, line {line}: {reason}")


@dataclass
class Skipped:
    """How many rows were left out, and why the first few of them were."""

    count: int = 0
    faults: list[DataError] = field(default_factory=list)

    def add(self, fault: DataError) -> None:
        self.count += 1
        if len(self.faults) < KEPT_FAULTS:
            self.faults.append(fault)

    @property
    def reasons(self) -> list[str]:
        return [str(fault) for fault in self.faults]

    def __str__(self) -> str:
        if not self.count:
            return "no rows skipped"
        more = ["..."] if self.count > len(self.faults) else []
        return f"{self.count} {'row' if self.count == 1 else 'rows'} skipped: {'; '.join(self.reasons + more)}"
