"""CoNLL columns: sentences of tokens and tags, in lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer import DataError, read_rows


def test_sentences(write):
    rows = list(read_rows(write("a.conll", "\nA\tO\nMr. X\tB-PER\n\t\n\n  \nHi\tO\r\n\r\nyes\tO")))
    assert rows == [
        {"tokens": ["A", "Mr. X"], "tags": ["O", "B-PER"]},
        {"tokens": ["Hi"], "tags": ["O"]},
        {"tokens": ["yes"], "tags": ["O"]},
    ]
    assert [row.line for row in rows] == [2, 7, 9]


def test_one_character_in_each_line(write):
    rows = list(read_rows(write("a.char.bmes", "高 B-NAME\n勇 E-NAME\n\u3000 O\n\n男 O\n")))
    assert rows == [
        {"tokens": ["高", "勇", "\u3000"], "tags": ["B-NAME", "E-NAME", "O"]},
        {"tokens": ["男"], "tags": ["O"]},
    ]


def test_conll_2003(write):
    name = write(
        "a.conll", "-DOCSTART- -X- -X- O\n\nEU NNP  B-NP B-ORG\nrejects VBZ B-VP O\n\n-DOCSTART- -X- -X- O\n\n"
    )
    assert list(read_rows(name)) == [{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}]
    wanted = {"words": "tokens", "pos": 1, "chunk": -2, "tags": "tags"}
    assert list(read_rows(name, columns=wanted)) == [
        {"words": ["EU", "rejects"], "pos": ["NNP", "VBZ"], "chunk": ["B-NP", "B-VP"], "tags": ["B-ORG", "O"]}
    ]


def test_tokens_alone(write):
    name = write("a.bio", "Hi\nyou\n\nyes\n")
    assert list(read_rows(name)) == [{"tokens": ["Hi", "you"]}, {"tokens": ["yes"]}]
    with pytest.raises(DataError, match=r"^a\.bio, line 1: there is no column 'tags'; its columns are 0 to 0"):
        list(read_rows(name, columns=["tokens", "tags"]))


TOKEN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\t\n\r\ufeff"), min_size=1, max_size=4)
SENTENCE = st.lists(st.tuples(TOKEN, TOKEN), min_size=1, max_size=4).filter(lambda pairs: pairs[0][0] != "-DOCSTART-")


@given(st.lists(SENTENCE, min_size=1, max_size=4))
def test_what_is_written_comes_back(tmp_path_factory, sentences):
    sentences = [[pair for pair in pairs if "".join(pair).strip(" ")] for pairs in sentences]
    sentences = [pairs for pairs in sentences if pairs] or [[("a", "b")]]
    path = tmp_path_factory.mktemp("conll") / "a.conll"
    path.write_bytes("\n".join("".join(f"{token}\t{tag}\n" for token, tag in pairs) for pairs in sentences).encode())
    assert [list(zip(row["tokens"], row["tags"], strict=True)) for row in read_rows(path)] == sentences


@pytest.mark.parametrize(
    "bad, line, message",
    [
        (b"A\tO\nB\n", 5, "1 column, but line 1 has 2"),
        (b"A\tO\nB\tO\tO\nC\n", 5, "3 columns, but line 1 has 2"),
        (b"A\tO\n\tO\nC\tO\n", 5, "an empty column in '\\tO'"),
        (b"A\t\n", 4, "an empty column in 'A\\t'"),
        (b"A\tO\n\xff\tO\nC\tO\n", 5, "not UTF-8"),
        (b"\xff\tO\nC\n", 4, "not UTF-8"),
    ],
)
def test_a_fault_spoils_its_sentence_alone(write, bad, line, message):
    name = write("a.conll", b"Hi\tO\nyou\tO\n\n" + bad + b"\nyes\tO\n")
    with pytest.raises(DataError) as caught:
        list(read_rows(name))
    assert str(caught.value).startswith(f"a.conll, line {line}: {message}")
    rows = read_rows(name, on_bad="skip")
    assert [row["tokens"] for row in rows] == [["Hi", "you"], ["yes"]]
    assert rows.skipped.count == 1


@pytest.mark.parametrize("content", ["", "\n\n", "-DOCSTART- O\n"])
def test_no_sentences(write, content):
    with pytest.raises(DataError, match="holds no rows"):
        list(read_rows(write("a.conll", content)))
