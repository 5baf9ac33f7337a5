"""`read_rows`: rows from files of any kind, one at a time, and what becomes of the bad ones."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import DataError, InputError, suggests
from ..text.inputs import describe
from .columns import Wanted, check, pick, read_needed, read_types, read_wanted
from .conll import read_conll
from .json_rows import read_json, read_jsonl
from .lines import lines_of
from .parquet import read_parquet
from .row import Row, Skipped
from .sources import Source, find_sources
from .tables import Table, read_table

log = logging.getLogger("glassformer")

TABLES = ("csv", "tsv")
TEXT = ("txt", *TABLES)  # in these, numbers are written as text


@suggests
def read_rows(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    format: str | None = None,
    columns: Mapping[str, str | int] | Sequence[str] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    needed: str | Iterable[str] = (),
    types: Mapping[str, type] | None = None,
    on_bad: Literal["raise", "skip"] = "raise",
    cache_dir: str | os.PathLike | None = None,
    token: str | bool | None = None,
    local_files_only: bool = False,
    endpoint: str | Sequence[str] | None = None,
) -> Rows:
    """The rows of files, read one by one, so that files may be larger than the memory and standard input endless.

    >>> from pathlib import Path
    >>> _ = Path("train.tsv").write_text("sentence\\tlabel\\na fine film\\t1\\nand a dull one\\t0\\n")
    >>> rows = read_rows("train.tsv", columns={"text": "sentence", "label": "label"}, types={"label": int})
    >>> for row in rows:
    ...     print(row, row.place)
    {'text': 'a fine film', 'label': 1} train.tsv, line 2
    {'text': 'and a dull one', 'label': 0} train.tsv, line 3

    `source` is a file, a folder, a pattern such as `data/*.csv`, `-` for standard input, a file of a data set on a hub
    (`hf://datasets/OWNER/NAME/PATH`, `NAME@REVISION`, patterns too; the last four arguments are those of
    `from_pretrained`), or a list of these. A name that ends in .gz is unpacked on the way. Text is UTF-8.

    `format` is told by the suffix unless it is given:
      txt      one text in each line: `text`
      csv tsv  tables. In csv a field may be quoted, in tsv a quote is a character like any other; `quotes` and
               `delimiter` say otherwise. An empty line holds no row.
      jsonl    an object in each line
      json     a list of objects, one under "data", or objects one after the other; SQuAD's form is recognised
      squad    `id`, `question`, `context`, `answers`, `is_impossible`
      conll    sentences of `tokens` and `tags`, a token in each line, the tag in its last column
      parquet  with the extra `parquet`

    `columns` maps the names you want to those of the file, or to numbers, which count from 0 (and from the end: -1).
    The rows hold these columns alone. Without it they hold all; those of a table without a header are numbers.

    `header` says whether the first line of a table names its columns. If you do not say, it is a header when every
    field can be a name (short, with letters, no number, no end of a sentence, no two alike) and, besides, you want
    columns by name, or a field has a usual name such as text or label, or a word stands above a number. It is none when
    a field cannot be a name. In between you are asked.

    A bad row - not UTF-8, broken JSON, a wrong number of fields, a wanted column missing, one of `needed` empty, a
    value that is not of its type in `types` - raises a DataError that names file and line. With on_bad="skip" it is
    left out; `rows.skipped` counts such rows, keeps the first reasons, and is told in the log at the end. If all rows
    are bad, it raises nevertheless, and so does what spoils a whole file.
    """
    if on_bad not in ("raise", "skip"):
        raise InputError(f"on_bad must be 'raise' or 'skip', got {describe(on_bad)}")
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n'):
        raise InputError(f"delimiter must be one character, no quote and no line break, got {describe(delimiter)}")
    sources = find_sources(
        source, format, cache_dir=cache_dir, token=token, local_files_only=local_files_only, endpoint=endpoint
    )
    table = Table(header, delimiter, quotes)
    other = next((each for each in sources if each.format not in TABLES), None)
    if other and table != Table():
        raise InputError(f"header, delimiter and quotes are for csv and tsv; {other.name} is {other.format}")
    return Rows(sources, read_wanted(columns), table, read_needed(needed), read_types(types), on_bad)


@dataclass
class Rows:
    """Rows of files: iterate, as often as you like. Each time they are read anew, and `skipped` begins at zero."""

    sources: list[Source]
    wanted: Wanted | None
    table: Table
    needed: tuple[str, ...]
    types: dict[str, type]
    on_bad: str

    def __post_init__(self) -> None:
        self.skipped = Skipped()
        self._told = 0
        self._began = False

    def __iter__(self) -> Iterator[Row]:
        if self._began and any(source.path is None for source in self.sources):
            raise InputError("standard input can be read only once; make a list of its rows to keep them")
        self._began = True
        return self._rows()

    def _rows(self) -> Iterator[Row]:
        skipped = self.skipped = Skipped()
        good = 0
        try:
            for source in self.sources:
                for row in rows_and_faults(source, self.wanted, self.table):
                    fault = row if isinstance(row, DataError) else self._check(row, source)
                    if fault is None:
                        good += 1
                        yield row
                    elif self.on_bad == "raise":
                        raise fault
                    else:
                        skipped.add(fault)
            if skipped.count and not good:
                raise DataError(f"not one row could be used: {skipped}")
        finally:
            if skipped.count != self._told:  # not the same again in every epoch
                self._told = skipped.count
                log.warning("%s", skipped)

    def _check(self, row: Row, source: Source) -> DataError | None:
        return check(row, self.needed, self.types, source.format in TEXT)


def rows_and_faults(source: Source, wanted: Wanted | None, table: Table) -> Iterator[Row | DataError]:
    """Rows of one file, with a DataError in the place of each bad one; a file without any is one fault."""
    if source.format == "txt":
        rows = read_txt(source, wanted)
    elif source.format in TABLES:
        rows = read_table(source, wanted, table)
    else:
        read = {
            "jsonl": read_jsonl,
            "json": read_json,
            "squad": read_json,
            "conll": read_conll,
            "parquet": read_parquet,
        }
        rows = read[source.format](source, wanted)
    is_empty = True
    for row in rows:
        is_empty = False
        yield row
    if is_empty:
        yield DataError(f"{source.name} holds no rows")


def read_txt(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """One text in each line, an empty one too, so that answers can be laid beside the lines."""
    for number, line in lines_of(source):
        yield line if isinstance(line, DataError) else pick(wanted, Row({"text": line}, source.name, number))
