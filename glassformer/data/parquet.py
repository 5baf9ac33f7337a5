"""Parquet files, read a batch of rows at a time. They need pyarrow, which is an extra."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import DataError, InputError
from .columns import Wanted, find_positions
from .file_row import Row
from .sources import Source

BATCH = 1000


class NumberedRow(Row):
    """A row of a file that has no lines; it knows its number."""

    __slots__ = ()
    unit = "row"


def read_parquet(source: Source, wanted: Wanted | None) -> Iterator[Row | DataError]:
    """The rows of a file, counted from 1; only the wanted columns are unpacked."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            f"{source.name}: parquet files need pyarrow; install the extra: pip install 'glassformer[parquet]'"
        ) from None
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(source.path) as file:
            names = file.schema_arrow.names
            places = find_positions(wanted, names, source.name)
            taken = [names[position] for _, position in places]
            for batch in file.iter_batches(BATCH, columns=list(dict.fromkeys(taken))):
                for values in batch.to_pylist():
                    number += 1
                    row = {name: values[column] for (name, _), column in zip(places, taken, strict=True)}
                    yield NumberedRow(row, source.name, number)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0]
        raise DataError(f"{source.name}, after row {number}: damaged, or no parquet file ({reason})") from None
