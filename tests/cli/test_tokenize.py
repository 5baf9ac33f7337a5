"""glass tokenize."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace

import pytest

from glassformer.cli.main import main

from .test_main import vocabulary  # noqa: F401


def run(capsys, *arguments: object) -> str:
    assert main(["tokenize", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_text_and_a_pair(vocabulary, capsys):  # noqa: F811
    shown = run(capsys, vocabulary, "Unaffable!", "hello")
    lines = [line.split() for line in shown.splitlines()]
    assert lines[1] == ["0", "[CLS]", "2", "0"]
    assert lines[2] == ["1", "un", "5", "0", "0-2", "Un"]
    assert lines[7] == ["6", "hello", "8", "1", "0-5", "hello"]


def test_json(vocabulary, capsys):  # noqa: F811
    values = json.loads(run(capsys, vocabulary, "Unaffable!", "--json"))
    assert values["tokens"] == ["[CLS]", "un", "##aff", "##able", "!", "[SEP]"]
    assert values["ids"] == [2, 5, 6, 7, 9, 3]
    assert values["offsets"][1:-1] == [[0, 2], [2, 5], [5, 9], [9, 10]]


def test_explained(vocabulary, capsys):  # noqa: F811
    shown = run(capsys, vocabulary, "unaffable", "--explain")
    assert "unaffable no" in shown
    assert "##able yes" in shown
    assert shown.endswith("input    [CLS] un ##aff ##able [SEP]\nids      2 5 6 7 3\n")
    steps = json.loads(run(capsys, vocabulary, "unaffable", "--explain", "--json"))
    assert steps["tokens"] == ["un", "##aff", "##able"]
    assert steps["input"]["ids"] == [2, 5, 6, 7, 3]


def test_an_explained_pair_is_one_input(vocabulary, capsys):  # noqa: F811
    shown = run(capsys, vocabulary, "hello", "un", "--explain")
    assert shown.endswith("input    [CLS] hello [SEP] un [SEP]\nids      2 8 3 5 3\nsegments 0 0 0 1 1\n")
    pair = json.loads(run(capsys, vocabulary, "hello", "un", "--explain", "--json"))
    assert [each["tokens"] for each in pair["texts"]] == [["hello"], ["un"]]
    assert pair["input"]["token_type_ids"] == [0, 0, 0, 1, 1]


def test_lines_of_a_file_and_of_standard_input(vocabulary, tmp_path, capsys, monkeypatch):  # noqa: F811
    texts = tmp_path / "texts.txt"
    texts.write_bytes(b"hello!\r\n\nunaffable")
    assert run(capsys, vocabulary, "--input", texts) == "hello !\n\nun ##aff ##able\n"
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"hello\nun\n")))
    lines = run(capsys, vocabulary, "--input", "-", "--json").splitlines()
    assert [json.loads(line)["ids"] for line in lines] == [[2, 8, 3], [2, 5, 3]]


def test_the_word_none_is_a_text(vocabulary, capsys):  # noqa: F811
    assert json.loads(run(capsys, vocabulary, "None", "--json"))["text"] == "None"
    assert json.loads(run(capsys, vocabulary, "--json", "--", "--hello"))["text"] == "--hello"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a text, or --input"),
        (["a", "b", "c"], "one text or a pair of texts is taken, got 3"),
        (["a", "--input", "x"], "not both"),
        (["--input", "/no/such/file"], "there is no file '/no/such/file'"),
    ],
)
def test_wrong_use_is_one_line(vocabulary, arguments, message, capsys):  # noqa: F811
    assert main(["tokenize", str(vocabulary), *arguments]) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_damaged_files_are_one_line(tmp_path, capsys):
    bad = tmp_path / "vocab.txt"
    bad.write_bytes(b"[PAD]\n\xff\xfe\n")
    texts = tmp_path / "texts.txt"
    texts.write_bytes(b"fine\n\xff\n")
    good = tmp_path / "good.txt"
    good.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    for arguments in ([bad, "a"], [tmp_path / "nowhere", "a"], [good, "--input", texts]):
        assert main(["tokenize", *map(str, arguments)]) == 1
        shown = capsys.readouterr().err
        assert shown.startswith("glass: ")
        assert shown.count("\n") == 1
    (tmp_path / "config.json").write_text("{}")
    assert main(["tokenize", str(tmp_path / "config.json"), "a"]) == 1
    assert "config.json describes no tokenizer" in capsys.readouterr().err
