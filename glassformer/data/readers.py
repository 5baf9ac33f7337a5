"""`read_rows`: rows from files of any kind, one at a time, and the handling of bad ones.

txt      one text in each line: `text`
csv tsv  tables. In csv a field may be quoted, in tsv a quote is a character like any other. Columns without a header
         are called 0, 1, 2, ...
jsonl    an object in each line
json     a list of objects, one under "data", or objects one after the other; SQuAD's form is recognised
squad    `id`, `question`, `context`, `answers`, `is_impossible`
conll    sentences of `tokens` and `tags`: a token in each line, its tag in the last column, an empty line between
parquet  with the extra `parquet`
document one text in each file: `text`
image    a picture in each file: `image`, its path
audio    a recording in each file: `audio`, its path

A folder with a folder for each class is read as documents, images or recordings with a `label`, the folder's name.

An empty line is a row in txt alone, where a line is the text itself, so that answers and vectors can be laid beside
the lines. In all other formats it holds no row.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import DataError, InputError, spelt, suggests
from ..text.base.text_inputs import describe
from .class_folders import COLUMNS
from .columns import Wanted, check, check_names, read_needed, read_types, read_wanted, select_columns
from .conll import read_conll
from .file_row import Row, Skipped, WholeFileRow
from .json_rows import read_json, read_jsonl
from .lines import read_document, read_lines
from .parquet import read_parquet
from .sources import Source, find_sources
from .tables import Table, read_table

log = logging.getLogger("glassformer")

TABLES = ("csv", "tsv")
TEXT = ("txt", *TABLES, *COLUMNS)  # in these, numbers are written as text


@suggests
def read_rows(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    format: str | None = None,
    columns: Mapping[str, str | int] | Sequence[str] | None = None,
    header: bool | None = None,
    delimiter: str | None = None,
    quotes: bool | None = None,
    encoding: str | None = None,
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
    `from_pretrained`), or a list of these. A name that ends in .gz is unpacked on the way. Text is UTF-8,
    with a byte order mark or without, or in another `encoding` of Python, such as gbk or utf-16.

    `format` is txt, csv, tsv, jsonl, json, squad, conll, parquet, document, image or audio; if not given, the suffix
    decides. An empty line is a row in txt, with an empty text, and no row in the other formats. In the last three every
    file is one row: its `text`, or the path of its `image` or `audio`. A folder without data files of its own, but with
    a folder for each class, such as aclImdb/train with neg and pos, is read so, each row with the folder's name as its
    `label`. `delimiter` and `quotes` (whether fields may
    stand in quotes) are for csv and tsv, and so is `header`. Without `header` the first line is one if it holds all
    columns that you want by name. Else it is one if every field can be a name (short, with letters, no number, no end
    of a sentence, no two alike) and, besides, you want columns by name, or a name is a usual one such as text or label,
    or one word stands above a number. It is none if a field cannot be a name. In between it raises, so that you decide.

    `columns` maps the names you want to those of the file, or to numbers, which count from 0, or from the end: -1. The
    rows hold these columns alone; without it, all.

    A bad row - broken JSON, bytes of another encoding, a wrong number of fields, a wanted column missing, one of
    `needed` empty, a value that is not of its type in `types` - raises a DataError that names file and line. With
    on_bad="skip" it is left out; `rows.skipped` counts such rows and keeps the first reasons, and the log reports them
    at the end. If all rows are bad it raises nevertheless, and so does what makes a complete file unusable.
    """
    wanted, needed, types = read_wanted(columns), read_needed(needed), read_types(types)
    check_names((*needed, *types), wanted)
    check_on_bad(on_bad)
    table = Table(header, delimiter, quotes)
    sources = find_sources(
        source, format, encoding, cache_dir=cache_dir, token=token, local_files_only=local_files_only, endpoint=endpoint
    )
    other = next((each for each in sources if each.format not in TABLES), None)
    if other and table != Table():
        raise InputError(f"header, delimiter and quotes are for csv and tsv; {other.name} is {other.format}")
    return Rows(sources, wanted, table, needed, types, on_bad)


class FilteredRows:
    """Rows of which bad ones are raised, or skipped, counted and reported."""

    on_bad: str

    def __post_init__(self) -> None:
        self.skipped = Skipped()
        self._reported = 0

    def rows_or_errors(self) -> Iterator[Row | DataError]:
        """Every row, or in its place the error of an unusable one."""
        raise NotImplementedError(f"{type(self).__name__} must define rows_or_errors")

    def __iter__(self) -> Iterator[Row]:
        skipped = self.skipped = Skipped()
        good = 0
        try:
            for row in self.rows_or_errors():
                if not isinstance(row, DataError):
                    good += 1
                    yield row
                elif self.on_bad == "raise":
                    raise row
                else:
                    skipped.add(row)
            if skipped.count and not good:
                raise DataError(f"not one row could be used: {skipped}")
        finally:
            if skipped.count != self._reported:  # not the same again in every epoch
                self._reported = skipped.count
                log.warning("%s", skipped)


@dataclass
class Rows(FilteredRows):
    """Rows of files: iterate, as often as you like. Each time they are read anew, and `skipped` begins at zero."""

    sources: list[Source]
    wanted: Wanted | None
    table: Table
    needed: tuple[str, ...]
    types: dict[str, type]
    on_bad: str

    def __post_init__(self) -> None:
        super().__post_init__()
        self._began = False

    def __iter__(self) -> Iterator[Row]:
        if self._began and any(source.path is None for source in self.sources):
            raise InputError("standard input can be read only once; make a list of its rows to keep them")
        self._began = True
        return super().__iter__()

    def rows_or_errors(self) -> Iterator[Row | DataError]:
        for source in self.sources:
            for row in rows_and_faults(source, self.wanted, self.table):
                yield row if isinstance(row, DataError) else self._check(row, source) or row

    def _check(self, row: Row, source: Source) -> DataError | None:
        return check(row, self.needed, self.types, source.format in TEXT)


def check_on_bad(on_bad: str) -> None:
    if on_bad not in ("raise", "skip"):
        raise InputError(f"on_bad must be 'raise' or 'skip', got {describe(on_bad)}")


def rows_and_faults(source: Source, wanted: Wanted | None, table: Table) -> Iterator[Row | DataError]:
    """Rows of one file, with a DataError in the place of each bad one; a file without any is one fault."""
    rows = read_table(source, wanted, table) if source.format in TABLES else READERS[source.format](source, wanted)
    is_empty = True
    for row in rows:
        is_empty = False
        yield row
    if is_empty:
        yield DataError(f"{source.name} holds no rows")


def read_txt(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """One text in each line, an empty one too."""
    for number, line in read_lines(source):
        if number == 1 and isinstance(line, str) and is_object(line):
            message = "%s begins with a JSON object and is read as plain text; %s reads its columns"
            log.warning(message, source.name, spelt("reading", "format", "jsonl"))
        yield line if isinstance(line, DataError) else select_columns(wanted, Row({"text": line}, source.name, number))


def read_whole_file(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """The one row of a text, a picture or a recording: the text or the path, and the label of a class's folder."""
    value = str(source.path)
    if source.format == "document":
        try:
            value = read_document(source).replace("\r\n", "\n").removesuffix("\n")
        except DataError as error:
            yield error
            return
        if not value.strip():
            yield DataError(f"{source.name} is empty")
            return
    row = WholeFileRow({COLUMNS[source.format]: value}, source.name)
    if source.label is not None:
        row["label"] = source.label
    yield select_columns(wanted, row)


def is_object(line: str) -> bool:
    """Whether a line is an object of JSON."""
    try:
        return line.startswith("{") and isinstance(json.loads(line), dict)
    except ValueError:
        return False


READERS = {
    "txt": read_txt,
    "jsonl": read_jsonl,
    "json": read_json,
    "squad": read_json,
    "conll": read_conll,
    "parquet": read_parquet,
    **dict.fromkeys(COLUMNS, read_whole_file),
}
