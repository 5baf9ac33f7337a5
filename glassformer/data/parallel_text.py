"""Texts that stand in several files, line beside line, as translations do."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import DataError, InputError, suggests
from ..text.base.text_inputs import describe
from .columns import check, check_names, read_needed
from .file_row import Row
from .readers import FilteredRows, Rows, check_on_bad, read_rows


@suggests
def read_parallel(
    files: Mapping[str, str | os.PathLike],
    *,
    encoding: str | None = None,
    needed: str | Iterable[str] = (),
    on_bad: Literal["raise", "skip"] = "raise",
) -> ParallelRows:
    """Rows whose columns come from one text file each; all files must have equally many lines.

    The files are UTF-8, or all in another `encoding`. A row in which one of `needed` is empty raises, or is left out
    and counted with on_bad="skip".

    >>> from pathlib import Path
    >>> _ = Path("train.de").write_text("Ein Hund.\\n"), Path("train.en").write_text("A dog.\\n")
    >>> list(read_parallel({"source": "train.de", "target": "train.en"}))
    [{'source': 'Ein Hund.', 'target': 'A dog.'}]
    """
    if not isinstance(files, Mapping) or len(files) < 2:
        raise InputError(f"files must map the names of two columns or more to a file each, got {describe(files)}")
    check_on_bad(on_bad)
    needed = read_needed(needed)
    check_names(needed, dict(files))
    read = {name: read_rows(file, format="txt", encoding=encoding) for name, file in files.items()}
    return ParallelRows(read, needed, on_bad)


@dataclass
class ParallelRows(FilteredRows):
    """Rows of files that are read side by side; iterate as often as you like. A row is named by its first file."""

    columns: dict[str, Rows]
    needed: tuple[str, ...]
    on_bad: str

    def rows_or_errors(self) -> Iterator[Row | DataError]:
        readers = [iter(rows) for rows in self.columns.values()]
        last: list[Row] = []
        while True:
            beside = [next(reader, None) for reader in readers]
            if None in beside:
                break
            last = beside
            texts = zip(self.columns, (row["text"] for row in beside), strict=True)
            row = Row(texts, beside[0].file, beside[0].line)
            yield check(row, self.needed, {}, from_text=True) or row
        longer = next((row for row in beside if row is not None), None)
        if longer is not None:
            ended = last[beside.index(None)]
            raise DataError(f"{ended.place} is the last of its file, but beside it {longer.place} follows")
