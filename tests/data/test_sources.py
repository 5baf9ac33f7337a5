"""What a caller names: files, folders, patterns, lists, and names that lead nowhere."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from glassformer import ArgumentError, InputError, read_rows
from glassformer.data.sources import FORMATS


def files(source, **options):
    return [row.file for row in read_rows(source, **options)]


def test_a_file_by_path_and_by_name(write, here, monkeypatch):
    name = write("a.txt", "a")
    monkeypatch.setenv("HOME", str(here))
    for source in (name, Path(name), here / name, [name], (Path(name),), "~/a.txt"):
        assert [dict(row) for row in read_rows(source)] == [{"text": "a"}]


def test_a_folder_by_name_order_and_without_other_files(write):
    for name in ("b.csv", "a.csv.gz", "README.md", ".hidden.csv", "LICENSE"):
        content = f"text\n{name}"
        write("d/" + name, gzip.compress(content.encode()) if name.endswith(".gz") else content)
    write("d/deeper/c.csv", "text\nc")
    assert files("d") == ["d/a.csv.gz", "d/b.csv"]
    assert files(Path("d")) == files("d/")


def test_a_folder_of_several_formats_is_refused(write):
    write("d/a.csv", "text\na")
    write("d/b.jsonl", "{}")
    with pytest.raises(InputError, match=r"folder 'd' holds files of several formats, such as 'a\.csv' and 'b\.jsonl'"):
        read_rows("d")
    assert files("d/*.csv") == ["d/a.csv"]


def test_a_folder_with_a_format_takes_every_file(write):
    write("d/train.conll", "a O")
    write("d/test.annotated", "b O")
    write("d/.hidden", "c O")
    assert files("d") == ["d/train.conll"]
    assert files("d", format="conll") == ["d/test.annotated", "d/train.conll"]


def test_a_folder_without_data(write):
    write("d/README.md", "# no data")
    with pytest.raises(InputError, match=r"folder 'd' holds no files that end in \.txt, \.csv"):
        read_rows("d")
    Path("empty").mkdir()
    with pytest.raises(InputError, match=r"folder 'empty' holds no files$"):
        read_rows("empty", format="txt")


def test_patterns(write):
    for name in ("d/2.txt", "d/1.txt", "d/e/3.txt", "d/x.csv"):
        write(name, "text")
    Path("d/folder.txt").mkdir()
    assert files("d/*.txt") == ["d/1.txt", "d/2.txt"]
    assert files("d/**/*.txt") == ["d/1.txt", "d/2.txt", "d/e/3.txt"]
    assert files("d/[2].txt") == ["d/2.txt"]
    with pytest.raises(
        InputError, match=r"pattern 'd/\*\.\*' holds files of several formats, such as '1\.txt' and 'x\.csv'"
    ):
        read_rows("d/*.*")
    with pytest.raises(InputError, match=r"no file matches 'd/\*\.tsv'"):
        read_rows("d/*.tsv")


def test_a_file_whose_name_looks_like_a_pattern(write):
    write("d[1].txt", "a")
    write("d1.txt", "b")
    assert files("d[1].txt") == ["d[1].txt"]


def test_a_list_in_its_order(write):
    write("b.txt", "b")
    write("a.jsonl", '{"text": "a"}')
    write("d/c.txt", "c\nc")
    assert files(["b.txt", "a.jsonl", "d", "b.txt"]) == ["b.txt", "a.jsonl", "d/c.txt", "d/c.txt", "b.txt"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_can_be_named_and_most_have_a_suffix(write, format):
    contents = {"json": "[{}]", "jsonl": "{}", "squad": '{"data": []}', "csv": "text\na", "tsv": "text\na", "txt": "a"}
    content = contents.get(format, "a O")
    by_suffix = [write("a" + suffix, content) for suffix in FORMATS[format]]
    assert all(read_rows(name).sources[0].format == format for name in by_suffix)
    assert all(
        read_rows(name).sources[0].format == format
        for name in [write("A" + s.upper(), content) for s in FORMATS[format]]
    )
    assert read_rows(write("data", content), format=format).sources[0].format == format


def test_a_named_format_overrides_the_suffix(write):
    assert list(read_rows(write("a.txt", "x\ty\n1\t2"), format="tsv", header=True)) == [{"x": "1", "y": "2"}]


@pytest.mark.parametrize(
    "source, message",
    [
        ("trian.csv", r"there is no file 'trian\.csv' \(near it: 'train\.csv'\)"),
        ("nowhere/a.csv", r"there is no file 'nowhere/a\.csv', nor a folder 'nowhere'"),
        ("x" * 5000, "cannot be read: file name too long"),
        ("data.unknown", r"the suffix of 'data\.unknown' stands for no format: say format='\.\.\.', one of txt, csv"),
        ("data", "the suffix of 'data' stands for no format"),
        ("https://example.com/a.csv", r"only hf://datasets/OWNER/NAME/PATH"),
        ([], "got an empty list"),
        ("", "rows are read from a file, a folder, a pattern or '-', got str ''"),
        ("a\0b", "rows are read from a file"),
        (None, "rows are read from a file, .* got None"),
        (b"train.csv", "rows are read from a file, .* got bytes"),
        ([3], "rows are read from a file, .* got int 3"),
    ],
)
def test_names_that_lead_nowhere(write, source, message):
    write("train.csv", "text\na")
    write("data.unknown", "a")
    write("data", "a")
    with pytest.raises(InputError, match=message):
        read_rows(source)


def test_a_format_nobody_knows(write):
    with pytest.raises(InputError, match=r"format must be one of txt, .*, got str 'jsnol', did you mean 'jsonl'"):
        read_rows(write("a.txt", "a"), format="jsnol")


def test_a_misspelt_argument_is_reported():
    with pytest.raises(ArgumentError, match="read_rows has no argument 'colums', did you mean 'columns'"):
        read_rows("a.txt", colums={})


def test_two_stars_enter_each_folder_once_whatever_links_lead_to_it(write):
    for name in ("d/a/1.txt", "d/b/2.txt", "d/b/.hidden/3.txt", "other/4.txt"):
        os.makedirs(os.path.dirname(name), exist_ok=True)
        write(name, "text")
    for number in range(12):  # a way through all links in any order is one of 12! and more
        os.symlink("../..", f"d/a/up{number}")
        os.symlink("../a", f"d/b/across{number}")
    os.symlink("../other", "d/linked")
    os.symlink("itself", "d/itself")
    assert files("d/**/*.txt") == files("d/**/**/*.txt") == ["d/a/1.txt", "d/b/2.txt", "d/linked/4.txt"]
    os.remove("d/itself")
    assert files("d/**", format="txt") == files("d/**/*", format="txt") == files("d/**/*.txt")
    assert files("**/b/*.txt") == ["d/b/2.txt"]
