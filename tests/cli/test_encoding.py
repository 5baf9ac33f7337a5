"""`--encoding` in every verb that reads files of text, and the error that suggests it."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path

import pytest

from glassformer.cli.main import VERBS, function_of, main

from .sentences import make_encoder
from .test_predict import make

CHINESE = ["我爱北京天安门", "小明在北京", "这里的服务是很好的，我们一家人都很喜欢，下次还要来", "so good"]
READERS = "predict explain translate embed search cluster heads prune compare-layers evaluate generate tokenize".split()
READERS += ["compare-decoding", "train-vocabulary", "export", "quantize"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("folders")
    make(folder / "classifier", "SequenceClassification")
    make_encoder(folder / "encoder")
    return folder


@pytest.fixture
def here(folders, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("classifier", "encoder"):
        shutil.copytree(folders / name, name)
    for encoding in ("utf-8", "gbk", "utf-16"):
        Path(f"{encoding}.txt").write_bytes("\n".join(CHINESE).encode(encoding))
        table = "text,label\n" + "".join(f'"{text}",{i % 2}\n' for i, text in enumerate(CHINESE))
        Path(f"{encoding}.csv").write_bytes(table.encode(encoding))
    return tmp_path


def test_every_verb_that_reads_files_of_text_has_the_option(capsys):
    for verb in READERS:
        assert main([verb, "--help"]) == 0
        assert "--encoding NAME" in " ".join(capsys.readouterr().out.split()), verb
    others = {"demo", "inspect", "see", "explore", "serve", "train", "compare", "compare-lengths", "verify", "doctor"}
    others |= {"transcribe"}
    assert {*READERS, *others} >= {*VERBS}, "a new verb: does it read files of text?"
    assert all(inspect.signature(function_of(verb)) for verb in VERBS)


COMMANDS = {
    "predict": "predict text-classification classifier --input {}.csv",
    "evaluate": "evaluate text-classification classifier --data {}.csv --worst 0 --json",
    "explain": "explain text-classification classifier --input {}.csv --method occlusion",
    "search": "search encoder {}.txt 北京 --json",
    "tokenize": "tokenize encoder --input {}.txt --json",
    "compare-layers": "compare-layers encoder --input {}.txt --json",
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("encoding", ["gbk", "utf-16"])
def test_a_file_in_another_encoding_reads_like_one_in_utf8(here, capsys, name, encoding):
    expected = run(capsys, COMMANDS[name].format("utf-8"))
    assert expected[0] == 0 and expected[1]
    assert run(capsys, COMMANDS[name].format(encoding) + f" --encoding {encoding}")[:2] == expected[:2]
    code, _, errors = run(capsys, COMMANDS[name].format(encoding))
    assert code == 1 and errors.splitlines()[-1].startswith("glass: ")
    assert f"--encoding {encoding}" in errors


def test_a_vocabulary_and_a_model_are_trained_on_it(here, capsys):
    tokens = []
    for encoding in ("utf-8", "gbk"):
        options = f"--output {encoding}-vocabulary --vocab-size 90 --encoding {encoding}"
        assert run(capsys, f"train-vocabulary {encoding}.txt {options}")[0] == 0
        tokens.append(Path(f"{encoding}-vocabulary/vocab.txt").read_text("utf-8"))
    assert tokens[0] == tokens[1] and "京" in tokens[0]
    command = "train text-classification --model classifier --data gbk.csv --output-dir run --max-steps 2"
    code, _, errors = run(capsys, command)
    assert code == 1 and "--data.encoding=gbk" in errors
    code, _, errors = run(capsys, f"{command} --data.encoding=gbk")
    assert code == 0, errors


def test_a_vocabulary_has_no_byte_order_mark(here, capsys):
    Path("marked.txt").write_bytes("\ufeff北京 北京".encode())
    assert run(capsys, "train-vocabulary marked.txt --output marked --kind words --json")[0] == 0
    vocabulary = Path("marked/vocab.txt").read_text("utf-8")
    assert "北京" in vocabulary.split() and "\ufeff" not in vocabulary


def run(capsys, command: str) -> tuple[int, str, str]:
    code = main(command.split())
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_answers_keep_their_rows(here, capsys):
    _, out, _ = run(capsys, "predict text-classification classifier --input gbk.txt --encoding gbk")
    assert [json.loads(line)["row"] for line in out.splitlines()] == [0, 1, 2, 3]
