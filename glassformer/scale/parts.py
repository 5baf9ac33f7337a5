"""A folder of parquet files that grows part by part, so that a run that was killed goes on where it stopped.

    OUT/_run.json                    the settings; a run with others does not continue this one
    OUT/00003-00017.parquet          part 17 of the input's fourth file: complete, or not there

A part is a fixed range of a file's rows, so every row belongs to one part whoever computes it. Read in the
order of their names, the parts are in the order of the input; the columns `file` and `row` (its number there, from 0)
say so, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.files import make_folder, read_json, remove_stale_temporaries, replace_atomically, write_atomically
from ..data.readers import Rows, rows_and_faults
from ..errors import DataError, InputError
from .predictor import Predictor

if TYPE_CHECKING:
    from ..data.file_row import Row

RECORD = "_run.json"  # readers of folders pass over names that begin so
PART = re.compile(r"\d{5,}-\d{5,}\.parquet")
FILE, ROW = "file", "row"
BATCH = 2048  # rows that are answered together


@dataclass(frozen=True)
class Share:
    """What one process does: every `of`-th part of one file of the input, from number `first` on."""

    file: int
    first: int = 0
    of: int = 1


def shares(files: int, workers: int) -> list[Share]:
    """The work for so many processes: whole files, or parts of files if there are fewer files than processes."""
    of = -(-workers // files)
    return [Share(file, first, of) for file in range(files) for first in range(of)]


def start_or_resume(output: Path, about: Mapping[str, Any], restart: bool) -> None:
    """Make the folder, or check that what it holds was made with the same settings."""
    about = json.loads(json.dumps(about))
    make_folder(output)
    remove_stale_temporaries(output)
    parts = [path for path in output.iterdir() if PART.fullmatch(path.name)]
    record = output / RECORD
    if restart:
        record.unlink(missing_ok=True)
        for path in parts:
            path.unlink()
    elif record.exists():
        before = read_json(record, "the record of a run")
        changed = next((name for name in {**before, **about} if before.get(name) != about.get(name)), None)
        if changed is not None:
            was, now = (json.dumps(each.get(changed), ensure_ascii=False)[:80] for each in (before, about))
            raise InputError(
                f"{output} was started with other settings: {changed} was {was} and is {now}; "
                "the old settings resume it, --restart replaces it"
            )
    elif parts:
        raise InputError(f"{output} holds parts of a run whose record {RECORD} is gone; --restart replaces them")
    write_atomically(record, json.dumps(about, indent=2, ensure_ascii=False) + "\n")


class PartWriter:
    """Answers the rows of a share of the input and writes them part by part; can be pickled."""

    def __init__(self, predictor: Predictor, rows: Rows, output: Path, rows_per_part: int) -> None:
        self.predictor, self.rows, self.output, self.rows_per_part = predictor, rows, output, rows_per_part

    def __call__(self, share: Share | Mapping[str, int]) -> dict[str, Any]:
        """Write the parts of a share that are not there yet; how many rows were answered, and how many cut."""
        share = share if isinstance(share, Share) else Share(**{name: int(value) for name, value in share.items()})
        source = self.rows.sources[share.file]
        rows = self.checked_rows(share.file)
        part = answered = truncated = 0
        while True:
            path = self.output / f"{share.file:05d}-{part:05d}.parquet"
            if part % share.of != share.first or path.exists():
                read = sum(1 for _ in islice(rows, self.rows_per_part))
            else:
                block = list(islice(rows, self.rows_per_part))
                read = len(block)
                if block:
                    columns = self.answer(block, source.name, part * self.rows_per_part)
                    write_parquet(path, columns)
                    answered += read
                    truncated += sum(map(bool, columns.get("truncated", ())))
            if read < self.rows_per_part:
                return {"file": source.name, "rows": answered, "truncated": truncated}
            part += 1

    def checked_rows(self, file: int) -> Iterator[Row]:
        for row in rows_and_faults(self.rows.sources[file], self.rows.wanted, self.rows.table):
            if isinstance(row, DataError):
                raise row
            yield row

    def answer(self, block: list[Row], name: str, first: int) -> dict[str, Any]:
        """The columns of a part."""
        columns: dict[str, Any] = {FILE: [name] * len(block), ROW: list(range(first, first + len(block)))}
        found: dict[str, list[Any]] = {}
        for start in range(0, len(block), BATCH):
            batch = block[start : start + BATCH]
            names = dict.fromkeys(name for row in batch for name in row)
            answers = self.predictor({name: [row.get(name) for row in batch] for name in names})
            for name, values in answers.items():
                found.setdefault(name, [None] * start).extend(values)
            for name in found.keys() - answers.keys():
                found[name].extend([None] * len(batch))
        return {**columns, **found}


def write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    """A parquet file that is complete or not there; vectors are lists of float32."""
    import pyarrow
    import pyarrow.parquet

    arrays = {name: as_arrow(values) for name, values in columns.items()}
    with replace_atomically(path) as written:
        pyarrow.parquet.write_table(pyarrow.table(arrays), written)


def as_arrow(values: Any) -> Any:
    import numpy as np
    import pyarrow

    if len(values) and isinstance(values[0], np.ndarray):
        flat = np.concatenate(list(values)) if values[0].ndim else np.asarray(values)
        return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(flat), len(values[0]))
    return pyarrow.array(values)
