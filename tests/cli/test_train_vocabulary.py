"""glass train-vocabulary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer import AutoTokenizer, BertTokenizer
from glassformer.cli.main import main


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the lower the river, the slower the river; the newest, the widest\n" * 50)
    return path


def test_a_wordpiece_folder_is_read_by_the_tokenizer(text, tmp_path, capsys):
    folder = tmp_path / "created"
    assert main(["train-vocabulary", str(text), "--output", str(folder), "--vocab-size", "80", "--cased"]) == 0
    assert "tokens (wordpiece)" in capsys.readouterr().out
    tokenizer = BertTokenizer.from_pretrained(folder)
    assert tokenizer.do_lower_case is False
    assert tokenizer.tokenize("the river") == ["the", "river"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_other_kinds(kind, text, tmp_path, capsys):
    arguments = ["--output", str(tmp_path / kind), "--kind", kind, "--vocab-size", "300", "--json"]
    assert main(["train-vocabulary", str(text), *arguments]) == 0
    created = json.loads(capsys.readouterr().out)
    assert created["kind"] == kind
    assert (tmp_path / kind / "tokenizer.json").is_file()


def test_wrong_use_is_one_line(text, tmp_path, capsys):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken/vocab.txt").write_text("[PAD]\n")
    for arguments, message in (
        (["--output", str(tmp_path / "a")], "name at least one text file"),
        ([str(tmp_path / "none.txt"), "--output", str(tmp_path / "a")], "does not exist"),
        ([str(text), "--output", str(text)], "is a file"),
        ([str(text), "--output", str(tmp_path / "taken")], "holds vocab.txt already; --overwrite"),
        ([str(text), "--output", str(tmp_path / "a"), "--kind", "bpe", "--cased"], "--cased is for wordpiece"),
        ([str(text), "--output", str(tmp_path / "a"), "--vocab-size", "5"], "vocab_size 5 is too small"),
    ):
        assert main(["train-vocabulary", *arguments]) == 1
        shown = capsys.readouterr().err
        assert message in shown
        assert shown.count("\n") == 1
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "taken/vocab.txt").read_text() == "[PAD]\n"


@pytest.mark.parametrize("kind", ["characters", "words"])
def test_characters_and_words_are_folders_that_are_read(kind, text, tmp_path, capsys):
    assert main(["train-vocabulary", str(text), "--output", str(tmp_path / kind), "--kind", kind, "--json"]) == 0
    created = json.loads(capsys.readouterr().out)
    assert created["tokens"] == created["requested"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / kind)
    word = text.read_text("utf-8").split()[0]
    assert len(tokenizer.tokenize(word)) == (len(word) if kind == "characters" else 1)
