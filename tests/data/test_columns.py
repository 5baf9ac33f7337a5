"""Wanted columns, needed ones, types; and what becomes of bad rows."""

from __future__ import annotations

import copy
import logging
import pickle

import pytest

from glassformer import DataError, InputError, Row, read_rows

TABLE = "id,sentence,label\n1,fine,0\n2,bad,1\n"


def test_names_and_numbers(write):
    name = write("a.csv", TABLE)
    rows = list(read_rows(name, columns={"text": "sentence", "label": 2, "again": -1}))
    assert rows[0] == {"text": "fine", "label": "0", "again": "0"} and list(rows[0]) == ["text", "label", "again"]
    assert list(read_rows(name, columns=("label", "id")))[1] == {"label": "1", "id": "2"}
    assert list(read_rows(write("b.txt", "a"), columns={"sentence": "text"})) == [{"sentence": "a"}]
    assert list(read_rows(write("c.jsonl", '{"a": 1, "b": 2}'), columns={"x": "b"})) == [{"x": 2}]


@pytest.mark.parametrize(
    "name, columns, message",
    [
        (
            "a.csv",
            ["sentense"],
            "a.csv, line 1: there is no column 'sentense', did you mean 'sentence'?; there is 'id', 'se",
        ),
        ("a.csv", {"x": 3}, "a.csv, line 1: there is no column 3; there is 'id', 'sentence', 'label'"),
        ("a.csv", {"x": -4}, "a.csv, line 1: there is no column -4; there is"),
        ("b.tsv", {"x": 2}, "b.tsv, line 1: there is no column 2; its columns are 0 to 1"),
        ("c.txt", ["txt"], "c.txt, line 1: there is no column 'txt', did you mean 'text'?; there is 'text'"),
        ("d.jsonl", ["txt"], "d.jsonl, line 2: there is no column 'txt', did you mean 'text'?; there is 'text'"),
        ("e.jsonl", {"x": 0}, "e.jsonl, line 1: there is no column 0; there is none at all"),
    ],
)
def test_a_missing_column_lists_what_there_is(write, name, columns, message):
    write("a.csv", TABLE)
    write("b.tsv", "1\t2")
    write("c.txt", "a")
    write("d.jsonl", '{"txt": 1}\n{"text": 1}')
    write("e.jsonl", "{}")
    with pytest.raises(DataError) as caught:
        list(read_rows(name, columns=columns))
    assert str(caught.value).startswith(message)


def test_many_columns_are_not_all_listed(write):
    with pytest.raises(DataError, match=r"'name19', \.\.\.$"):
        list(read_rows(write("a.csv", ",".join(f"name{i}" for i in range(50)) + "\n"), columns=["x"]))


@pytest.mark.parametrize(
    "columns, message",
    [
        ({}, "names no column"),
        ([], "names no column"),
        ("text", "columns must map wanted names .* got str 'text'"),
        (3, "columns must map wanted names .* got int 3"),
        ({"text": None}, "columns must map names to names or numbers, got str 'text': None"),
        ({"text": True}, "got str 'text': bool True"),
        ({1: "text"}, "got int 1: str 'text'"),
        ([["text"]], r"got list \['text'\]: list"),
    ],
)
def test_columns_are_checked_at_once(write, columns, message):
    with pytest.raises(InputError, match=message):
        read_rows(write("a.csv", TABLE), columns=columns)


# --- needed and types ---


@pytest.mark.parametrize("empty", ['""', '"  \\t"', "null", "[]", "{}", '"\\u3000"'])
def test_a_needed_column_must_not_be_empty(write, empty):
    name = write("a.jsonl", '{"text": "a"}\n{"text": ' + empty + "}\n")
    assert len(list(read_rows(name))) == 2
    with pytest.raises(DataError, match=r"^a\.jsonl, line 2: 'text' is empty"):
        list(read_rows(name, needed="text"))
    assert len(list(read_rows(name, needed=["text"], on_bad="skip"))) == 1


def test_zero_is_not_empty(write):
    assert len(list(read_rows(write("a.jsonl", '{"x": 0, "y": false}'), needed=["x", "y"]))) == 1


def test_numbers_written_as_text_become_numbers(write):
    name = write("a.csv", "score,label,text\n 4.75 ,+1,x\n5,-0,7\n1e-3,12,\n")
    rows = list(read_rows(name, types={"score": float, "label": int, "text": str}))
    assert [(row["score"], row["label"], row["text"]) for row in rows] == [
        (4.75, 1, "x"),
        (5.0, 0, "7"),
        (0.001, 12, ""),
    ]
    assert all(type(row["score"]) is float and type(row["label"]) is int for row in rows)


@pytest.mark.parametrize("text", ["", "one", "1.0", "1_000", "0x1", "٣", "1 2", "nan", "9" * 5000])
def test_text_that_is_no_whole_number(write, text):
    with pytest.raises(DataError, match=r"^a\.tsv, line 2: 'y' must be an integer, got str '"):
        list(read_rows(write("a.tsv", f"x\ty\nx\t{text}\n"), types={"y": int}, header=True))


@pytest.mark.parametrize("text", ["", "one", "nan", "inf", "-Infinity", "1e999", "1_0.5", "1,5"])
def test_text_that_is_no_number(write, text):
    with pytest.raises(DataError, match=r"^a\.tsv, line 2: 'y' must be a finite number, got str '"):
        list(read_rows(write("a.tsv", f"x\ty\nx\t{text}\n"), types={"y": float}, header=True))


@pytest.mark.parametrize(
    "good, bad, kind",
    [
        ("1", '"1"', int),
        ("1", "1.0", int),
        ("1", "true", int),
        ("1.5", '"1.5"', float),
        ("1", "false", float),
        ('"1"', "1", str),
        ('"a"', "null", str),
        ('["a"]', '"a"', list),
        ("true", "1", bool),
        ('{"a": 1}', "[]", dict),
        ("1.5", "1e999", float),
    ],
)
def test_a_type_that_flips_is_reported(write, good, bad, kind):
    name = write("a.jsonl", '{"x": ' + good + '}\n{"x": ' + bad + "}\n")
    with pytest.raises(DataError, match=rf"^a\.jsonl, line 2: 'x' must be ({kind.__name__}|finite), got "):
        list(read_rows(name, types={"x": kind}))
    rows = list(read_rows(name, types={"x": kind}, on_bad="skip"))
    assert len(rows) == 1 and type(rows[0]["x"]) is kind


def test_checks_of_columns_that_are_not_there(write):
    name = write("a.jsonl", '{"text": "a", "label": 1}')
    with pytest.raises(InputError, match="names 'txt', which is not among the wanted columns, did you mean 'text'"):
        read_rows(name, columns=["text"], needed=["txt"])
    with pytest.raises(InputError, match="names 'label', which is not among the wanted columns"):
        read_rows(name, columns=["text"], types={"label": int})
    with pytest.raises(DataError, match=r"line 1: there is no column 'txt', did you mean 'text'"):
        list(read_rows(name, needed=["txt"]))
    with pytest.raises(DataError, match=r"line 1: there is no column 'lable', did you mean 'label'"):
        list(read_rows(name, types={"lable": int}))
    with pytest.raises(InputError, match="the type of 'x' must be one of str, int, float, bool, list, dict, got "):
        read_rows(name, types={"x": bytes})
    with pytest.raises(InputError, match="types must map the names of columns to types, got list"):
        read_rows(name, types=["text"])
    with pytest.raises(InputError, match="needed must be names of columns, got bool True"):
        read_rows(name, needed=True)


# --- bad rows ---


def test_skipped_rows_are_counted_and_reported(write, caplog):
    name = write("a.csv", "text,label\n" + "".join(f"x{i},{i}\nbad\n" for i in range(10)))
    rows = read_rows(name, on_bad="skip")
    assert str(rows.skipped) == "no rows skipped"
    with caplog.at_level(logging.WARNING, "glassformer"):
        assert len(list(rows)) == 10
    assert rows.skipped.count == 10
    assert rows.skipped.reasons == [f"a.csv, line {line}: 1 field, but line 1 has 2" for line in (3, 5, 7, 9, 11)]
    assert caplog.messages == [str(rows.skipped)]
    assert str(rows.skipped).startswith("10 rows skipped: a.csv, line 3: ") and str(rows.skipped).endswith("; ...")
    assert len(list(rows)) == 10 and rows.skipped.count == 10  # a second pass counts anew
    assert len(caplog.messages) == 1  # and does not say the same again


def test_what_was_skipped_is_reported_when_reading_stops_early(write, caplog):
    reader = iter(read_rows(write("a.csv", "text,label\nbad\nx,1\ny,2\n"), on_bad="skip"))
    with caplog.at_level(logging.WARNING, "glassformer"):
        assert next(reader) == {"text": "x", "label": "1"}
        reader.close()
    assert caplog.messages == ["1 row skipped: a.csv, line 2: 1 field, but line 1 has 2"]


def test_nothing_is_reported_when_nothing_is_skipped(write, caplog):
    with caplog.at_level(logging.WARNING, "glassformer"):
        list(read_rows(write("a.csv", TABLE), on_bad="skip"))
    assert not caplog.messages


def test_if_all_rows_are_bad_it_raises(write):
    rows = read_rows(write("a.jsonl", "x\ny\n"), on_bad="skip")
    with pytest.raises(DataError, match=r"^not one row could be used: 2 rows skipped: a\.jsonl, line 1: broken JSON"):
        list(rows)


def test_an_empty_file_among_others(write):
    write("a.txt", "a")
    write("b.txt", "")
    with pytest.raises(DataError, match=r"^b\.txt holds no rows"):
        list(read_rows(["a.txt", "b.txt"]))
    rows = read_rows(["a.txt", "b.txt"], on_bad="skip")
    assert len(list(rows)) == 1 and rows.skipped.reasons == ["b.txt holds no rows"]


def test_on_bad_is_checked(write):
    with pytest.raises(InputError, match="on_bad must be 'raise' or 'skip', got str 'ignore'"):
        read_rows(write("a.txt", "a"), on_bad="ignore")


# --- rows ---


def test_rows_can_be_read_again(write):
    rows = read_rows(write("a.csv", TABLE))
    assert list(rows) == list(rows) and len(list(rows)) == 2
    both = zip(rows, rows, strict=True)
    assert all(one == other for one, other in both)


def test_a_row_is_a_dict_that_knows_its_place():
    row = Row({"text": "a"}, "a.csv", 3)
    assert row == {"text": "a"} and isinstance(row, dict)
    for twin in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert twin == row and twin.place == "a.csv, line 3"
    error = row.fault("the label 'x' is unknown")
    assert isinstance(error, DataError) and isinstance(error, ValueError)
    assert str(error) == "a.csv, line 3: the label 'x' is unknown"
