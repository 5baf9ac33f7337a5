"""glass train translation: from two files of lines to a translator."""

from __future__ import annotations

import json

import pytest

from glassformer import BertTokenizer, GPT2Tokenizer, Translation, pipeline
from glassformer.cli.main import main

LETTERS = ["a b c", "b d", "c a d", "d a", "a d c b", "b", "c c a", "d b d"]
SHAPE = ["hidden_size=32", "num_attention_heads=4", "num_hidden_layers=1", "intermediate_size=48"]


@pytest.fixture
def files(tmp_path):
    """Lines, and beside them the same letters as capitals, backwards."""
    (tmp_path / "train.src").write_text("\n".join(LETTERS) + "\n")
    (tmp_path / "train.tgt").write_text("\n".join(" ".join(reversed(line.split())).upper() for line in LETTERS) + "\n")
    pairs = zip(*((tmp_path / name).read_text().splitlines() for name in ("train.src", "train.tgt")), strict=True)
    (tmp_path / "train.tsv").write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    return tmp_path


def train(files, *others, data=None):
    sizes = [f"--config.{field}" for field in (*SHAPE, "max_position_embeddings=32", "hidden_dropout_prob=0.0")]
    both = [f"--data.train.source={files}/train.src", f"--data.train.target={files}/train.tgt"]
    both += [f"--data.eval.source={files}/train.src", f"--data.eval.target={files}/train.tgt"]
    rate = ["--learning-rate=5e-3", "--lr-scheduler-type=inverse_sqrt", "--warmup-steps=5", "--report=false"]
    given = ["--model=new:transformer", *sizes, *rate, *(data or both), f"--output-dir={files}/run"]
    return main(["train", "translation", *given, *others])


def test_from_two_files_to_a_translator(files, capsys):
    more = ["--max-steps=60", "--label-smoothing-factor=0.05", "--average-checkpoints=2", "--save-steps=20"]
    assert train(files, "--tokenizer=new:words", *more, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["exact_match"] == 1.0
    task = Translation.from_pretrained(files / "run")
    assert task.target_tokenizer is task.tokenizer
    assert {"a", "A"} <= task.tokenizer.vocab.keys()  # one vocabulary for both
    assert task.model.config.share_embeddings
    assert pipeline("translation", model=files / "run")("c a d") == [{"translation_text": "D A C"}]
    arguments = ["--data", f"{files}/train.src", "--target", f"{files}/train.tgt", "--option", "num_beams=2", "--json"]
    assert main(["evaluate", "translation", f"{files}/run", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["exact_match"] == 1.0
    assert found["signatures"]["bleu"].startswith("nrefs:1|")


def test_two_vocabularies(files, capsys):
    table = [f"--data={files}/train.tsv"]
    kinds = ["--tokenizer=new:words", "--target-tokenizer=new:wordpiece", "--vocabulary.vocab_size=30"]
    assert train(files, *kinds, "--max-steps=2", data=table) == 0
    task = Translation.from_pretrained(files / "run")
    config = task.model.config
    assert "A" not in task.tokenizer.vocab
    assert type(task.target_tokenizer) is BertTokenizer
    assert (config.source_vocab_size, config.vocab_size) == (len(task.tokenizer), len(task.target_tokenizer))
    assert not config.share_embeddings
    assert (config.decoder_start_token_id, config.eos_token_id) == (2, 3)


def test_bytes_and_recurrent_models(files, capsys):
    arguments = ["--tokenizer=new:bpe", "--vocabulary.vocab_size=260", "--max-steps=2"]
    sizes = ["--config.hidden_size=16", "--config.num_hidden_layers=1"]
    both = [f"--data.train.source={files}/train.src", f"--data.train.target={files}/train.tgt"]
    given = ["--model=new:rnn", *both, *sizes, *arguments, f"--output-dir={files}/run", "--report=false"]
    assert main(["train", "translation", *given]) == 0
    task = Translation.from_pretrained(files / "run", max_new_tokens=3)
    assert type(task.tokenizer) is GPT2Tokenizer
    assert task.model.config.decoder_start_token_id == task.tokenizer.eos_token_id
    assert pipeline("translation", model=task.model, tokenizer=task.tokenizer)("a", max_new_tokens=3)


def test_rows_that_cannot_be_trained_on(tmp_path, capsys):
    (tmp_path / "holes.tsv").write_text("source\ttarget\na\t\nb\tb\nc\tc\n")
    (tmp_path / "holes.src").write_text("a\nb\n\n")
    (tmp_path / "holes.tgt").write_text("\nb\nc\n")
    (tmp_path / "other.jsonl").write_text('{"translation": {"de": "a", "en": "b"}}\n')
    (tmp_path / "long.tsv").write_text(f"source\ttarget\na\t{'a ' * 9}\n{'a ' * 9}\ta\n")
    shape = [f"--config.{name}=8" for name in ("hidden_size", "intermediate_size", "max_position_embeddings")]
    given = ["train", "translation", "--model=new:transformer", "--tokenizer=new:words", *shape, "--max-steps=1"]
    given += ["--report=false", "--config.num_hidden_layers=1", "--options.truncation=true"]
    both = [f"--data.train.source={tmp_path}/holes.src", f"--data.train.target={tmp_path}/holes.tgt"]
    skip = "--data.on_bad=skip"
    for number, (arguments, code, *expected) in enumerate(
        (
            ([f"--data={tmp_path}/holes.tsv"], 1, "holes.tsv, line 2: 'target' is empty"),
            ([f"--data={tmp_path}/holes.tsv", skip], 0, "1 row skipped: "),
            (both, 1, "holes.src, line 1: 'target' is empty"),
            ([*both, skip], 0, "2 rows skipped: ", "holes.src, line 3: 'source' is empty"),
            ([f"--data={tmp_path}/other.jsonl"], 1, "no column 'source'; there is 'translation'; say which of them"),
            ([f"--data={tmp_path}/long.tsv"], 0, "2 of 2 training rows were cut to fit"),
        )
    ):
        assert main([*given, *arguments, f"--output-dir={tmp_path}/run-{number}"]) == code
        shown = capsys.readouterr().err
        assert all(words in shown for words in expected), shown


def test_what_does_not_fit_is_reported(files, capsys):
    for arguments, expected in (
        (["--data.train.source=x"], "a file for each column; got {'source': 'x'}"),
        (
            ["--data.train.source=x", "--data.train.target=y", "--data.format=txt"],
            "data.format is not for files of plain",
        ),
    ):
        given = ["--model=new:transformer", "--tokenizer=new:words", "--output-dir=run", *arguments]
        assert main(["train", "translation", *given]) == 1
        assert expected in capsys.readouterr().err
    again = ["--model=run", "--tokenizer=new:words", "--data=x.tsv", "--output-dir=again"]
    assert main(["train", "translation", *again]) == 1
    assert "new:words gives tokens other ids than run has" in capsys.readouterr().err
    lines = ["--model=new:bert", "--tokenizer=new:words", "--target-tokenizer=new:words", f"--data={files}/train.src"]
    assert main(["train", "masked-language-modeling", *lines, "--data.format=txt", f"--output-dir={files}/run"]) == 1
    assert "target_tokenizer is for tasks that write other texts" in capsys.readouterr().err
    assert main(["evaluate", "fill-mask", "x", "--data", "a", "--target", "b"]) == 1
    assert "--target is for tasks with a source and a target" in capsys.readouterr().err
