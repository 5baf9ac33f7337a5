"""csv and tsv: quotes, line breaks, headers said and guessed, wrong numbers of fields."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer import DataError, InputError, read_rows
from glassformer.cli.main import TO_A_VERB, TO_TRAIN
from glassformer.data import tables
from glassformer.errors import spelling


def test_tsv_takes_quotes_as_they_are(write):
    name = write("a.tsv", 'text\tlabel\n"open\t0\nthe "best" one"\t1\n\'\t0\n"a\tb"\n')
    rows = read_rows(name, on_bad="skip")
    assert [row["text"] for row in rows] == ['"open', 'the "best" one"', "'", '"a']
    assert list(read_rows(write("b.tsv", 'text\tlabel\n"a\tb"\t1\n'), quotes=True)) == [{"text": "a\tb", "label": "1"}]


def test_csv_quotes(write):
    content = 'text,label\r\n"a, ""b""",1\r\n"two\r\nlines\n\nmore",0\r\n5" disk,"x"\r\n"",""\r\n'
    rows = list(read_rows(write("a.csv", content)))
    assert [tuple(row.values()) for row in rows] == [
        ('a, "b"', "1"),
        ("two\nlines\n\nmore", "0"),
        ('5" disk', "x"),
        ("", ""),
    ]
    assert [row.line for row in rows] == [2, 3, 7, 8]


FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0\ufeff"), max_size=8)


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(FIELD, min_size=n, max_size=n), min_size=1)))
def test_what_csv_writes_comes_back(tmp_path_factory, table):
    written = io.StringIO()
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(table)
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_bytes(written.getvalue().encode())
    assert [list(row.values()) for row in read_rows(path, header=False)] == table


@given(st.text('",\nab', max_size=12))
def test_fields_are_those_of_the_csv_module(line):
    try:
        expected = [row for row in csv.reader(io.StringIO(line, newline=""), strict=True) if row]
    except csv.Error:
        expected = None
    records = list(tables.split_records(iter(enumerate(line.split("\n"), start=1)), ",", True, "a.csv"))
    got = [fields for _, fields in records]
    assert (None if any(isinstance(fields, DataError) for fields in got) else got) == expected


@pytest.mark.parametrize(
    "bad, line, message",
    [
        (b'"never closed,0\nok,1\n', 3, r"the quote of field 1 is never closed \(lines 3 to 4 were read"),
        (b'ok,"1\n', 3, "the quote of field 2 is never closed; with quotes=False"),
        (b'"a"b,1\n', 3, "field 1 goes on behind its closing quote; with quotes=False"),
        (b'"a\nb" c,1\n', 3, r"field 1 goes on behind its closing quote \(lines 3 to 4 were read"),
        (b'a,"b\n",c"d"\n', 3, "3 fields, but line 1 has 2"),
        (b"a,b,2\n", 3, "3 fields, but line 1 has 2"),
        (b"\n\nok\n", 5, "1 field, but line 1 has 2"),
        (b'"a\n\xff",1\n', 4, "not UTF-8"),
    ],
)
def test_bad_rows_name_their_line(write, bad, line, message):
    name = write("a.csv", b"text,label\nok,1\n" + bad)
    with pytest.raises(DataError, match=rf"^a\.csv, line {line}: {message}"):
        list(read_rows(name))
    rows = read_rows(name, on_bad="skip")
    assert list(rows) == [{"text": "ok", "label": "1"}]
    assert rows.skipped.count == 1


def test_a_quote_that_swallows_the_file_ends_somewhere(write, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_LINE", 100)
    rows = read_rows(write("a.csv", 'text,label\n"open,0\n' + "ok,1\n" * 100), on_bad="skip")
    assert 0 < len(list(rows)) < 100
    assert rows.skipped.count == 1 and "lines 2 to " in rows.skipped.reasons[0]


def test_delimiter(write):
    name = write("a.csv", 'text;label\n"a;b, c";1\n')
    assert list(read_rows(name, delimiter=";")) == [{"text": "a;b, c", "label": "1"}]
    with pytest.raises(DataError, match=r"no column 'label'; if ';' stands .* say delimiter=';'; there is"):
        list(read_rows(name, columns=["label"]))
    with pytest.raises(DataError, match=r"if ',' stands between columns, say format='csv'; there is 'text,label'"):
        list(read_rows(write("b.tsv", "text,label\na,1\n"), columns=["label"]))


def test_empty_lines_hold_no_row(write):
    rows = list(read_rows(write("a.tsv", "\n\ntext\tlabel\n\na\t1\n\n\t\n\n")))
    assert rows == [{"text": "a", "label": "1"}, {"text": "", "label": ""}]
    assert [row.line for row in rows] == [5, 7]


# --- the header ---

CERTAIN = [
    "sentence\tlabel\na fine film\t1",  # usual names
    "标签\t文本\n好\t真不错",
    "\tReview\tn\n0\tfine\tx",  # as pandas writes its index
    "Sentence\tLabel\nno\tyes",
    "zeit\twert\nmorgens\t3.5",  # a word above a number
    "zeit\twert\nmorgens\t1,234",
]
NONE = [
    "a fine film\t1\na dull one\t0",  # a number
    "0.5\tfine",
    "2020-01-01\tfine",  # no letters
    "gj04\t\tx\ngj05\ty\tz",  # an empty field that is not the first
    "Hi.\t嗨\nRun\t跑",  # the end of a sentence
    "你好。\thello",
    "It #39;s over. Our relationship just hasn #39;t been working for a while\tSci/Tech\nno\t1",
    "one two three four\tx\na\t1",
    "good\tgood\nbad\t1",  # two alike
]
UNCERTAIN = ["good\tpositive\nbad\tnegative", "Run\t跑\nGo\t走", "one", "love it\tgood\n10\tbad"]


@pytest.mark.parametrize("content", CERTAIN)
def test_a_header_is_recognised(write, content):
    names = [name.strip() for name in content.split("\n")[0].split("\t")]
    assert [list(row) for row in read_rows(write("a.tsv", content))] == [names]


@pytest.mark.parametrize("content", NONE)
def test_a_first_row_is_recognised(write, content):
    rows = list(read_rows(write("a.tsv", content)))
    assert list(rows[0].values()) == content.split("\n")[0].split("\t")
    assert list(rows[0]) == list(range(len(rows[0])))


@pytest.mark.parametrize("content", UNCERTAIN)
def test_an_ambiguous_separator_must_be_given(write, content):
    name = write("a.tsv", content)
    with pytest.raises(DataError, match=r"^a\.tsv, line 1: is this a header or the first row\? '.*header=True or"):
        list(read_rows(name, on_bad="skip"))
    assert len(list(read_rows(name, header=False))) == content.count("\n") + 1
    first = content.split("\n")[0].split("\t")
    if "\n" in content:
        assert list(next(iter(read_rows(name, columns=first[:1])))) == first[:1]  # wanted by name: it is a header


def test_the_header_argument_overrides_the_detection(write):
    name = write("a.tsv", "text\tlabel\na\t1")
    assert list(read_rows(name, header=False)) == [{0: "text", 1: "label"}, {0: "a", 1: "1"}]
    assert list(read_rows(write("b.tsv", "1\t2\n3\t4"), header=True)) == [{"1": "3", "2": "4"}]


def test_wanted_names_identify_a_header(write):
    name = write("a.csv", "text,label,,2020\na,1,,5\n")
    assert list(read_rows(name, columns=["label", "text"])) == [{"label": "1", "text": "a"}]
    assert len(list(read_rows(name))) == 2  # without them it is a row: an empty field and a number are no names


def test_hints_name_options_as_the_user_passes_them(write):
    token = spelling.set(TO_A_VERB)
    try:
        with pytest.raises(DataError, match="say --header yes or --header no"):
            list(read_rows(write("a.tsv", UNCERTAIN[0])))
        spelling.set(TO_TRAIN)
        with pytest.raises(DataError, match=r"with --data\.quotes=false a quote is a plain character"):
            list(read_rows(write("b.csv", 'text,label\n"open,0\n')))
    finally:
        spelling.reset(token)


def test_names_wanted_of_a_file_without(write):
    name = write("a.tsv", "a fine film\t1\na dull one\t0")
    with pytest.raises(DataError, match=r"^a\.tsv, line 1: there is no column 'text'; its columns are 0 to 1, without"):
        list(read_rows(name, columns=["text"]))


def test_two_columns_of_one_name(write):
    with pytest.raises(DataError, match=r"^a\.csv, line 1: two columns are called 'text'; header=False"):
        list(read_rows(write("a.csv", "text,text\na,b"), header=True))


def test_columns_without_a_name_have_a_number(write):
    name = write("a.csv", "v1,v2,,\nham,so good,,\n")  # as spreadsheets write them
    assert list(read_rows(name, columns={"text": "v2", "label": "v1"})) == [{"text": "so good", "label": "ham"}]
    assert list(read_rows(name, header=True)) == [{"v1": "ham", "v2": "so good", 2: "", 3: ""}]


def test_a_header_that_cannot_be_read_spoils_the_file(write):
    with pytest.raises(DataError, match=r"^a\.csv, line 1: not UTF-8"):
        list(read_rows(write("a.csv", b"\xff,label\na,1\n"), on_bad="skip"))
    rows = read_rows("a.csv", on_bad="skip", header=False)
    assert list(rows) == [{0: "a", 1: "1"}] and rows.skipped.count == 1


@pytest.mark.parametrize("content", ["", "\n\n", "text,label\n", "\ufeff"])
def test_a_file_without_rows(write, content):
    with pytest.raises(DataError, match=r"^a\.csv holds no rows"):
        list(read_rows(write("a.csv", content)))


@pytest.mark.parametrize(
    "option, message",
    [
        ({"header": "yes"}, "header must be True, False or None, got str 'yes'"),
        ({"quotes": 1}, "quotes must be True, False or None, got int 1"),
        ({"delimiter": ""}, "delimiter must be one character"),
        ({"delimiter": ", "}, "delimiter must be one character"),
        ({"delimiter": '"'}, "no quote"),
    ],
)
def test_options_are_checked_at_once(write, option, message):
    with pytest.raises(InputError, match=message):
        read_rows(write("a.csv", "text\na"), **option)


def test_options_of_tables_are_refused_elsewhere(write):
    for option in ({"header": True}, {"delimiter": ","}, {"quotes": False}):
        with pytest.raises(InputError, match=r"are for csv and tsv; a\.jsonl is jsonl"):
            read_rows(write("a.jsonl", "{}"), **option)


def test_a_header_of_very_many_columns_is_read_in_linear_time(write):
    names = [f"c{i}" for i in range(200_000)]
    name = write("a.csv", ",".join(names) + "\n" + ",".join(map(str, range(200_000))) + "\n")
    (row,) = read_rows(name, header=True)
    assert row["c199999"] == "199999"
    (row,) = read_rows(name, header=True, columns=names[::-1])  # each of them is looked up
    assert row["c199999"] == "199999"
    with pytest.raises(DataError, match=r"a\.csv, line 1: two columns are called 'c7'"):
        list(read_rows(write("a.csv", ",".join([*names, "c7"]) + "\n1\n"), header=True))


def test_a_long_run_of_spaces_behind_a_number_is_read_in_linear_time(write):
    field = "1" + " " * 1_000_000 + "x"
    rows = list(read_rows(write("a.csv", f"text,label\n{field},1\n")))
    assert rows[0]["text"] == field
    assert list(read_rows(write("b.csv", f"so good{' ' * 30}x,1\n{field},2\n"), header=False))[1][0] == field


def test_an_open_quote_ends_after_very_many_lines(write, monkeypatch):
    monkeypatch.setattr(tables, "LONGEST_FIELD", 1000)
    rows = read_rows(write("a.csv", 'text,label\n"' + "\n" * 3000 + "fine,1\n"), on_bad="skip")
    assert list(rows) == [{"text": "fine", "label": "1"}]
    assert rows.skipped.reasons[0].startswith(
        "a.csv, line 2: the quote of field 1 is never closed (lines 2 to 1003 were read)"
    )
