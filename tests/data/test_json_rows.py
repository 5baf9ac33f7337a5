"""JSON in lines and in documents, and what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer import DataError, read_rows

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), min_size=1, max_size=5)


@given(OBJECTS, st.booleans())
def test_lines_come_back(tmp_path_factory, rows, ascii):
    path = tmp_path_factory.mktemp("json") / "a.jsonl"
    written = "".join(json.dumps(row, ensure_ascii=ascii) + "\n" for row in rows)
    path.write_bytes(written.encode())
    assert list(read_rows(path)) == rows


@given(OBJECTS, st.sampled_from([None, 0, 2]), st.sampled_from(["list", "data", "stream"]))
def test_documents_come_back_with_their_lines(tmp_path_factory, rows, indent, form):
    path = tmp_path_factory.mktemp("json") / "a.json"
    shown = [json.dumps(row, indent=indent) for row in rows]
    if form == "stream":
        assume("data" not in rows[0])
        written = " \n".join(shown)
    else:
        value = {"version": [1, {"data": [0]}], "data": rows, "end": 1} if form == "data" else rows
        written = "\n" + json.dumps(value, indent=indent)
    path.write_text(written)
    found = list(read_rows(path))
    assert found == rows
    lines = written.split("\n")
    assert all("{" in lines[row.line - 1] for row in found)
    assert [row.line for row in found] == sorted(row.line for row in found)


def test_lines_of_objects_in_documents(write):
    rows = list(read_rows(write("a.json", '[\n  {"a": 1},\n  {"a": "x\\ny",\n   "b": []}, {"a": 3}\n]\n')))
    assert [row.line for row in rows] == [2, 3, 4]
    rows = list(read_rows(write("b.json", '{"a": 1}\n\n{"a": 2} {"a": 3}')))
    assert [(row["a"], row.line) for row in rows] == [(1, 1), (2, 3), (3, 3)]
    rows = list(read_rows(write("c.json", '{"name": "x", "data": [\n{"a": 1}], "more": null}')))
    assert [(row["a"], row.line) for row in rows] == [(1, 2)]


def test_a_mark_and_white_space(write):
    assert list(read_rows(write("a.json", '\ufeff [ {"a": 1} ] \r\n'))) == [{"a": 1}]
    assert list(read_rows(write("b.jsonl", '\ufeff{"a": 1}\r\n  \r\n\n{"a": 2}\t\n'))) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"a": 1', "broken JSON (expecting ',' delimiter, column 8)"),
        ("{'a': 1}", "broken JSON (expecting property name enclosed in double quotes"),
        ('{"a": 1} {"a": 2}', "broken JSON (extra data, column 10)"),
        ('{"a": NaN}', "broken JSON (NaN is no number of JSON)"),
        ('{"a": -Infinity}', "broken JSON (-Infinity is no number"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "broken JSON (the key 'c' stands twice)"),
        ('{"a": "' + "\t" + '"}', "broken JSON (invalid control character at"),
        ('{"a": ' + "9" * 5000 + "}", "broken JSON ("),
        ("[" * 100_000, "broken JSON (nested too deeply)"),
        ("[1, 2]", "a row must be an object, got list [1, 2]"),
        ('"text"', "a row must be an object, got str 'text'"),
        ("null", "a row must be an object, got None"),
    ],
)
def test_bad_lines(write, line, message):
    name = write("a.jsonl", '{"a": 1}\n' + line + '\n{"a": 2}\n')
    with pytest.raises(DataError) as caught:
        list(read_rows(name))
    assert str(caught.value).startswith("a.jsonl, line 2: " + message)
    rows = read_rows(name, on_bad="skip")
    assert list(rows) == [{"a": 1}, {"a": 2}]
    assert rows.skipped.count == 1


@pytest.mark.parametrize(
    "content, line, message",
    [
        ('[{"a": 1},\n{"a": 2]', 2, "broken JSON (expecting ',' delimiter"),
        ('[{"a": 1}\n{"a": 2}]', 2, "broken JSON (, or ] must stand here, got {)"),
        ('[{"a": 1},\n', 2, "broken JSON (expecting value"),
        ('[{"a": 1}\n', 2, "broken JSON (, or ] must stand here, got the end)"),
        ('[{"a": 1}]\n[]', 2, "the document has ended, but more follows"),
        ('{"data": [{"a": 1}]\n}{}', 2, "the document has ended, but more follows"),
        ('{"data" 1}', 1, "broken JSON (: must stand here, got 1)"),
        ("{1: 2}", 1, 'broken JSON (" must stand here, got 1)'),
        ('{"b": 1}\n{"a": NaN}', 2, "broken JSON (NaN is no number"),
        ("\n[" + "[" * 100_000, 2, "broken JSON (nested too deeply)"),
        ("3", 1, "a list of objects or an object must stand here, got 3"),
    ],
)
def test_broken_documents(write, content, line, message):
    with pytest.raises(DataError) as caught:
        list(read_rows(write("a.json", content), on_bad="skip"))
    assert str(caught.value).startswith(f"a.json, line {line}: {message}")


def test_a_document_of_other_things(write):
    name = write("a.json", '[{"a": 1},\n 2,\n {"a": 3}]')
    with pytest.raises(DataError, match=r"^a\.json, line 2: a row must be an object, got int 2"):
        list(read_rows(name))
    assert list(read_rows(name, on_bad="skip")) == [{"a": 1}, {"a": 3}]


def test_bytes_that_are_no_text(write):
    with pytest.raises(DataError, match=r"^a\.json, line 3: not UTF-8"):
        list(read_rows(write("a.json", b'[\n{"a": 1},\n{"a": "\xff"}]'), on_bad="skip"))


@pytest.mark.parametrize(
    "name, content", [("a.json", ""), ("a.json", "[]"), ("a.json", ' {"data": []}'), ("a.jsonl", "\n")]
)
def test_no_rows(write, name, content):
    with pytest.raises(DataError, match="holds no rows"):
        list(read_rows(write(name, content)))


# --- SQuAD ---


def squad(*paragraphs, **around):
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": list(paragraphs)}], **around}, indent=1)


ANSWERED = {"id": "q1", "question": "Who?", "answers": [{"text": "A dog", "answer_start": 0, "extra": 1}]}


def test_squad(write):
    impossible = {"id": "q2", "question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": [{}]}
    unanswered = {"question": "When?"}
    content = squad({"context": "A dog.", "qas": [ANSWERED, impossible]}, {"qas": [unanswered], "context": "Now."})
    rows = list(read_rows(write("a.json", content)))
    assert rows == [
        {
            "id": "q1",
            "question": "Who?",
            "context": "A dog.",
            "answers": {"text": ["A dog"], "answer_start": [0]},
            "is_impossible": False,
        },
        {
            "id": "q2",
            "question": "Why?",
            "context": "A dog.",
            "answers": {"text": [], "answer_start": []},
            "is_impossible": True,
        },
        {
            "id": None,
            "question": "When?",
            "context": "Now.",
            "answers": {"text": [], "answer_start": []},
            "is_impossible": False,
        },
    ]
    lines = content.split("\n")
    assert ["context" in lines[rows[0].line], "qas" in lines[rows[2].line]] == [True, True]
    assert list(read_rows("a.json", format="squad")) == rows
    assert list(read_rows("a.json", columns={"q": "question"})) == [{"q": "Who?"}, {"q": "Why?"}, {"q": "When?"}]


def test_data_of_plain_rows_is_not_squad(write):
    flat = {"id": "1", "context": "A dog.", "question": "Who?", "answers": {"text": ["A dog"], "answer_start": [0]}}
    assert list(read_rows(write("a.json", json.dumps({"data": [flat]})))) == [flat]
    with pytest.raises(DataError, match=r"^a\.json holds no rows"):
        list(read_rows("a.json", format="squad"))


@pytest.mark.parametrize(
    "paragraph, message",
    [
        ({"qas": [ANSWERED]}, "a paragraph has no 'context'; it has 'qas'"),
        ({"context": 3, "qas": []}, "'context' must be str, got int 3"),
        ({"context": "x", "qas": {}}, "'qas' must be list, got dict {}"),
        ("text", "a paragraph must be an object, got str 'text'"),
        ({"context": "x", "qas": [{"id": 7}]}, "question 7: it has no 'question'; it has 'id'"),
        ({"context": "x", "qas": [3]}, "question 0: it must be an object, got int 3"),
        ({"context": "x", "qas": [{"id": 7, "question": "?", "answers": "x"}]}, "question 7: 'answers' must be list"),
        (
            {"context": "x", "qas": [{"id": "a", "question": "?", "answers": [{"text": "x", "answer_start": "0"}]}]},
            "question 'a': 'answer_start' must be int, got str '0'",
        ),
        (
            {"context": "x", "qas": [{"id": "a", "question": "?", "answers": [{"answer_start": 0}]}]},
            "question 'a': an answer has no 'text'; it has 'answer_start'",
        ),
        (
            {"context": "x", "qas": [{"id": 7, "question": "?", "is_impossible": 1}]},
            "question 7: 'is_impossible' must be",
        ),
    ],
)
def test_squad_that_is_wrong(write, paragraph, message):
    content = squad({"context": "A dog.", "qas": [ANSWERED]}, paragraph)
    with pytest.raises(DataError) as caught:
        list(read_rows(write("a.json", content)))
    place, _, reason = str(caught.value).partition(": ")
    assert reason.startswith(message)
    assert place.startswith("a.json, line ") and int(place.split()[-1]) > content[: content.index("}")].count("\n")
    rows = read_rows("a.json", on_bad="skip")
    assert [row["id"] for row in rows] == ["q1"] and rows.skipped.count == 1


def test_a_row_of_very_many_keys_is_read_in_linear_time(write):
    keys = [f"k{i}" for i in range(200_000)]
    text = "{" + ", ".join(f'"{key}": 1' for key in keys)
    (row,) = read_rows(write("a.jsonl", text + "}\n"))
    assert len(row) == 200_000
    with pytest.raises(DataError, match=r"b\.jsonl, line 1: broken JSON \(the key 'k199999' stands twice\)"):
        list(read_rows(write("b.jsonl", text + ', "k199999": 2}\n')))
