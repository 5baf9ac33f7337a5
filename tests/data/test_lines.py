"""Bytes to lines: line breaks, marks, packed files, standard input, and bytes that are no text."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer import DataError, InputError, read_rows
from glassformer.data import lines

ROOT = Path(__file__).parents[2]


def texts(source, **options):
    return [row["text"] for row in read_rows(source, **options)]


@pytest.mark.parametrize(
    "content", ["one\ntwo", "one\ntwo\n", "one\r\ntwo\r\n", "\ufeffone\ntwo\n", "\ufeffone\r\ntwo"]
)
def test_line_breaks_and_marks(write, content):
    assert texts(write("a.txt", content)) == ["one", "two"]


def test_empty_lines_of_a_text_are_rows(write):
    rows = list(read_rows(write("a.txt", "one\n\n two \n")))
    assert [row["text"] for row in rows] == ["one", "", " two "]
    assert [(row.file, row.line) for row in rows] == [("a.txt", 1), ("a.txt", 2), ("a.txt", 3)]
    assert rows[2].place == "a.txt, line 3"


def test_only_line_feeds_end_a_line(write):
    odd = "a\rb\x0bc\x0cd\x1ce\x85f\u2028g\u2029h"  # all but \r are what str.splitlines would cut at
    assert texts(write("a.txt", odd + "\nnext")) == [odd, "next"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff")), min_size=1))
def test_any_text_comes_back(tmp_path_factory, written):
    path = tmp_path_factory.mktemp("texts") / "a.txt"
    path.write_bytes("".join(text + "\n" for text in written).encode())
    assert texts(path) == written


@pytest.mark.parametrize(
    "raw, byte",
    [(b"\xd6\xd0\xce\xc4", "0xd6"), (b"caf\xe9 ol\xe9", "0xe9"), (b"cut \xe4\xb8", "0xe4"), (b"\xed\xa0\x80", "0xed")],
)
def test_other_bytes_than_utf8_are_named_by_line(write, raw, byte):
    name = write("a.txt", b"fine\n" + raw + b"\nfine too\n")
    with pytest.raises(DataError, match=rf"^a\.txt, line 2: not UTF-8 \(byte {byte}, .*convert the file to UTF-8"):
        texts(name)
    rows = read_rows(name, on_bad="skip")
    assert [row["text"] for row in rows] == ["fine", "fine too"]
    assert rows.skipped.count == 1


def test_utf16_and_pointers_are_refused(write):
    with pytest.raises(DataError, match=r"a\.txt is written in UTF-16"):
        texts(write("a.txt", "text".encode("utf-16")), on_bad="skip")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n"
    with pytest.raises(DataError, match=r"b\.csv is not the file itself but a Git LFS pointer"):
        list(read_rows(write("b.csv", pointer)))


def test_packed_files(write):
    assert texts(write("a.txt.gz", gzip.compress("ein\r\nzwölf\n".encode()))) == ["ein", "zwölf"]
    row = next(iter(read_rows(write("b.JSON.GZ", gzip.compress(b'[{"a": 1}]')))))
    assert row == {"a": 1} and row.file == "b.JSON.GZ"


@pytest.mark.parametrize("spoil", ["cut", "flip", "plain", "empty"])
def test_damaged_packed_files_are_named(write, spoil):
    packed = gzip.compress(os.urandom(3000).hex().encode())
    content = {"cut": packed[:-9], "flip": packed[:-6] + b"\0\0" + packed[-4:], "plain": b"text\n", "empty": b""}[spoil]
    with pytest.raises(DataError, match=r"a\.txt\.gz (is damaged, or not what \.gz says|holds no rows)"):
        texts(write("a.txt.gz", content), on_bad="skip")


def test_a_line_without_end_is_refused(write, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    name = write("a.txt", "short\n" + "x" * 1001)
    with pytest.raises(DataError, match=r"a\.txt, line 2: longer than"):
        texts(name, on_bad="skip")
    assert texts(write("b.txt", "x" * 999 + "\n"))


def test_a_document_that_is_too_large_is_refused(write, monkeypatch):
    monkeypatch.setattr(lines, "LARGEST_DOCUMENT", 10)
    with pytest.raises(DataError, match=r"a\.json is larger than .*\.jsonl"):
        list(read_rows(write("a.json", '[{"text": "a"}]')))


def test_a_file_that_cannot_be_opened(write, monkeypatch):
    rows = read_rows(write("a.txt", "a"))
    os.remove("a.txt")
    with pytest.raises(DataError, match=r"a\.txt cannot be read: no such file"):
        list(rows)


def test_memory_stays_constant(here):
    line = b'{"text": "' + b"x" * 1000 + b'", "label": 1}\n'
    with open("a.jsonl", "wb") as file:
        for _ in range(5_000):
            file.write(line)
    tracemalloc.start()
    count = sum(1 for _ in read_rows("a.jsonl"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 5_000 and peak < 2**20


def test_a_named_pipe_is_read_while_it_is_written(here):
    os.mkfifo("pipe.txt")
    read, seen = threading.Event(), []

    def produce():
        with open("pipe.txt", "wb", buffering=0) as pipe:
            pipe.write(b"first\n")
            seen.append(read.wait(10))  # the row must come before the next line is written
            pipe.write(b"second\n")

    writer = threading.Thread(target=produce)
    writer.start()
    rows = iter(read_rows("pipe.txt"))
    assert next(rows)["text"] == "first"
    read.set()
    assert next(rows)["text"] == "second"
    writer.join()
    assert seen == [True]


def run(code: str, given: bytes) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", "from glassformer import InputError, read_rows\n" + code],
        input=given,
        env=environment,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def test_standard_input():
    printed = run("print([(dict(r), r.place) for r in read_rows('-', format='tsv')])", b"text\tlabel\na\t1\n")
    assert printed.strip() == "[({'text': 'a', 'label': '1'}, 'standard input, line 2')]"
    assert run("print(list(read_rows(['-'], format='json')))", b'[{"a": 1}]').strip() == "[{'a': 1}]"


def test_standard_input_without_an_end():
    code = """
import itertools, subprocess, sys
sys.stdin = subprocess.Popen(["yes", "again"], stdout=subprocess.PIPE, text=True).stdout
print(sum(row["text"] == "again" for row in itertools.islice(read_rows("-", format="txt"), 100_000)))
"""
    assert run(code, b"").strip() == "100000"


def test_standard_input_is_read_once(monkeypatch):
    code = """
rows = read_rows("-", format="txt")
assert len(list(rows)) == 2
try:
    list(rows)
except InputError as error:
    print(error)
"""
    assert "only once" in run(code, b"a\nb\n")
    with pytest.raises(InputError, match="say format="):
        read_rows("-")
    with pytest.raises(InputError, match="more than once"):
        read_rows(["-", "-"], format="txt")
    with pytest.raises(InputError, match="parquet cannot be read from standard input"):
        read_rows("-", format="parquet")


def test_reading_is_light():
    code = "import sys; list(read_rows('-', format='csv')); print({'torch', 'numpy', 'pyarrow'} & set(sys.modules))"
    assert run(code, b"text,label\na,1\n").strip() == "set()"


def test_a_file_with_carriage_returns_for_line_ends_has_several_rows(write, caplog):
    assert texts(write("a.txt", b"one\rtwo\r\rfour")) == ["one", "two", "", "four"]
    assert texts(write("b.txt", b"one\rtwo\n")) == ["one", "two"]
    rows = list(read_rows(write("c.csv", b"text,label\rfine,1\rdull,0\r")))
    assert rows == [{"text": "fine", "label": "1"}, {"text": "dull", "label": "0"}]
    assert [row.place for row in rows] == ["c.csv, line 2", "c.csv, line 3"]
    assert texts(write("d.txt", "one\rtwo\r".encode("utf-16")), encoding="utf-16") == ["one", "two"]
    assert not caplog.records


def test_a_carriage_return_inside_a_line_is_reported_once(write, caplog):
    assert texts(write("a.txt", b"one\r\ntwo\rthree\nfour\rfive\n")) == ["one", "two\rthree", "four\rfive"]
    (message,) = caplog.messages
    assert message.startswith("a.txt, line 2: a carriage return is read as a character")


def test_a_packed_document_that_fills_the_memory_is_refused(write):
    size = 120 * 2**20
    packer = zlib.compressobj(1, wbits=31)
    zeros = packer.compress(bytes(size)) + packer.flush()
    packer = zlib.compressobj(wbits=31)
    numbers = packer.compress(b"[" + b"0," * (size // 2)) + packer.flush()
    write("zeros.json.gz", zeros)
    write("numbers.json.gz", numbers)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"zeros\.json\.gz, line 1: broken JSON \(a byte that is zero\)"):
        list(read_rows("zeros.json.gz"))
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    with pytest.raises(DataError, match=r"numbers\.json\.gz unpacks to more than 200 times its size"):
        list(read_rows("numbers.json.gz"))
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


def test_a_document_in_another_encoding_is_still_recognised(write):
    with pytest.raises(DataError, match="looks like UTF-16-LE"):
        list(read_rows(write("a.json", '[{"text": "a"}]'.encode("utf-16-le"))))
