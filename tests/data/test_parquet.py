"""Parquet files through pyarrow, and what is said without it."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

from glassformer import DataError, InputError, read_rows

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROWS = [{"text": f"text {i}", "label": i % 3, "answers": {"text": ["a"] * (i % 2), "n": None}} for i in range(2500)]


@pytest.fixture
def file(here):
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), "a.parquet", row_group_size=700)
    return "a.parquet"


def test_rows_come_back(file):
    rows = list(read_rows(file))
    assert rows == ROWS
    assert (rows[0].place, rows[2499].place) == ("a.parquet, row 1", "a.parquet, row 2500")


def test_columns_by_name_and_number(file):
    rows = read_rows(file, columns={"label": 1, "sentence": "text", "again": "text", "last": -1})
    first = next(iter(rows))
    assert first == {"label": 0, "sentence": "text 0", "again": "text 0", "last": {"text": [], "n": None}}
    assert list(first) == ["label", "sentence", "again", "last"]


def test_only_the_wanted_columns_are_unpacked(file, monkeypatch):
    requested = []
    iter_batches = parquet.ParquetFile.iter_batches
    monkeypatch.setattr(
        parquet.ParquetFile,
        "iter_batches",
        lambda self, size, columns: requested.append(columns) or iter_batches(self, size, columns=columns),
    )
    assert len(list(read_rows(file, columns={"y": "label"}))) == 2500
    assert requested == [["label"]]


def test_a_missing_column(file):
    with pytest.raises(
        DataError, match=r"^a\.parquet: there is no column 'txt', did you mean 'text'\?; there is 'text', "
    ):
        list(read_rows(file, columns=["txt"], on_bad="skip"))


def test_types_are_checked_and_not_made(file):
    assert Counter(row["label"] for row in read_rows(file, types={"label": int, "text": str}))[0] == 834
    with pytest.raises(DataError, match=r"^a\.parquet, row 1: 'label' must be str, got int 0"):
        list(read_rows(file, types={"label": str}))


def test_damaged_files(file, here, write):
    content = (here / file).read_bytes()
    for name, spoilt in [
        ("cut", content[:-5]),
        ("text", b"no parquet"),
        ("empty", b""),
        ("body", content[:4] + bytes(9000) + content[9004:]),
    ]:
        write("b.parquet", spoilt)
        with pytest.raises(DataError, match=r"^b\.parquet, after row \d+: damaged, or no parquet file"):
            list(read_rows("b.parquet", on_bad="skip"))
            pytest.fail(name)


def test_no_rows(here):
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), "a.parquet")
    with pytest.raises(DataError, match=r"^a\.parquet holds no rows"):
        list(read_rows("a.parquet"))


def test_packed_twice_is_refused(write):
    with pytest.raises(DataError, match=r"^a\.parquet\.gz is packed"):
        read_rows(write("a.parquet.gz", b""))


@pytest.mark.parametrize("lacks", ["pyarrow", "pyarrow.parquet"])
def test_without_pyarrow_the_extra_is_named(file, monkeypatch, lacks):
    monkeypatch.setitem(sys.modules, lacks, None)
    with pytest.raises(
        InputError, match=r"a\.parquet: parquet files need pyarrow; .*pip install 'glassformer\[parquet\]'"
    ):
        list(read_rows(file))
