"""Files that stand line beside line."""

from __future__ import annotations

import pytest

from glassformer import DataError, InputError, read_parallel


def test_lines_stand_beside_each_other(write):
    write("a.de", "Ein Hund.\n\nZwei\n")
    write("a.en", "A dog.\r\nx\r\nTwo")
    rows = read_parallel({"source": "a.de", "target": "a.en"})
    for _ in range(2):
        assert list(rows) == [
            {"source": "Ein Hund.", "target": "A dog."},
            {"source": "", "target": "x"},
            {"source": "Zwei", "target": "Two"},
        ]
    assert [row.place for row in rows] == ["a.de, line 1", "a.de, line 2", "a.de, line 3"]


@pytest.mark.parametrize("shorter, longer", [("a.de", "a.en"), ("a.en", "a.de")])
def test_files_of_different_length(write, shorter, longer):
    write(shorter, "1\n2")
    write(longer, "1\n2\n3\n4")
    rows = iter(read_parallel({"source": "a.de", "target": "a.en"}))
    assert len([next(rows), next(rows)]) == 2
    with pytest.raises(
        DataError, match=rf"^{shorter}, line 2 is the last of its file, but beside it {longer}, line 3 follows"
    ):
        next(rows)


def test_faults_of_one_file(write):
    write("a.de", b"1\n\xff\n")
    write("a.en", "1\n2")
    write("a.fr", "")
    with pytest.raises(DataError, match=r"^a\.de, line 2: not UTF-8"):
        list(read_parallel({"target": "a.en", "source": "a.de"}))
    with pytest.raises(DataError, match=r"^a\.fr holds no rows"):
        list(read_parallel({"target": "a.en", "source": "a.fr"}))
    with pytest.raises(InputError, match=r"there is no file 'a\.es'"):
        read_parallel({"target": "a.en", "source": "a.es"})


@pytest.mark.parametrize("files", ["a.en", {}, {"source": "a.de"}, ["a.de", "a.en"]])
def test_two_files_are_needed(files):
    with pytest.raises(InputError, match="files must map the names of two columns or more to a file each, got "):
        read_parallel(files)


def test_empty_lines_are_reported_or_left_out_and_counted(write, caplog):
    write("a.de", "Eins\n\nDrei\n")
    write("a.en", "One\nTwo\n \n")
    files = {"source": "a.de", "target": "a.en"}
    with pytest.raises(DataError, match=r"^a\.de, line 2: 'source' is empty"):
        list(read_parallel(files, needed=files))
    assert len(list(read_parallel(files, needed="source", on_bad="skip"))) == 2
    rows = read_parallel(files, needed=files, on_bad="skip")
    assert list(rows) == list(rows) == [{"source": "Eins", "target": "One"}]
    assert rows.skipped.count == 2
    assert caplog.messages.count(str(rows.skipped)) == 1
    with pytest.raises(InputError, match="on_bad must be 'raise' or 'skip', got str 'leave'"):
        read_parallel(files, on_bad="leave")
    with pytest.raises(InputError, match="did you mean 'target'"):
        read_parallel(files, needed="targt")
