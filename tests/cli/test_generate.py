"""glass generate."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from glassformer import BertConfig, BertModel, BertTokenizer, GPT2LMHeadModel, GPT2Tokenizer
from glassformer.cli.main import main
from glassformer.cli.verbs.generate import without_control_codes
from glassformer.text.bpe.bpe import SYMBOLS

from ..generate.tiny_gpt2 import write_tiny_gpt2

PROMPT = "Once upon a time"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return write_tiny_gpt2(tmp_path_factory.mktemp("gpt2"), labels=("<joy>", "<|sad|>"))


@pytest.fixture(scope="module")
def tokenizer(folder) -> GPT2Tokenizer:
    return GPT2Tokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder) -> GPT2LMHeadModel:
    return GPT2LMHeadModel.from_pretrained(folder)


def run(capsys, *arguments: object) -> str:
    code = main(["generate", *map(str, arguments)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def results(capsys, *arguments: object) -> list[dict]:
    return [json.loads(line) for line in run(capsys, *arguments, "--json").splitlines()]


def by_hand(model, ids: list[int], **settings) -> list[int]:
    return model.generate(torch.tensor([ids]), **settings)[0, len(ids) :].tolist()


def test_plain_text_without_a_terminal(folder, model, tokenizer, capsys):
    new = by_hand(model, tokenizer.encode(PROMPT))
    assert run(capsys, folder, PROMPT) == PROMPT + tokenizer.decode(new, skip_special_tokens=True) + "\n"


def test_json_output(folder, model, tokenizer, capsys):
    (result,) = results(capsys, folder, PROMPT, "--max-new-tokens", 6)
    new = by_hand(model, tokenizer.encode(PROMPT), max_new_tokens=6)
    text = PROMPT + tokenizer.decode(new, skip_special_tokens=True)
    assert result == {
        "prompt": PROMPT,
        "generated_text": text,
        "tokens": tokenizer.convert_ids_to_tokens(new),
        "ids": new,
        "finish_reason": "length",
    }


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        (["--num-beams", 3], {"num_beams": 3}),
        (
            ["--repetition-penalty", 1.5, "--no-repeat-ngram-size", 2],
            {"repetition_penalty": 1.5, "no_repeat_ngram_size": 2},
        ),
        (["--set", "penalty_alpha=0.6", "--top-k", 4], {"penalty_alpha": 0.6, "top_k": 4}),
        (["--num-beams", 2, "--set", "early_stopping=never"], {"num_beams": 2, "early_stopping": "never"}),
        (["--set", "bad_words_ids=[[5], [6]]", "--set", "use_cache=False"], {"bad_words_ids": [[5], [6]]}),
        (
            ["--do-sample", "--temperature", 1.5, "--top-k", 30, "--top-p", 0.8, "--seed", 4],
            {"do_sample": True, "temperature": 1.5, "top_k": 30, "top_p": 0.8, "generator": [4]},
        ),
    ],
)
def test_flags_are_settings(folder, model, tokenizer, capsys, flags, settings):
    (result,) = results(capsys, folder, PROMPT, *flags)
    assert result["ids"] == by_hand(model, tokenizer.encode(PROMPT), **settings)


def test_seeds_and_several_texts(folder, capsys):
    several = ("--sample", "--num-return-sequences", 3)
    first = results(capsys, folder, PROMPT, *several)
    assert len(first) == len({one["generated_text"] for one in first}) == 3
    assert first != results(capsys, folder, PROMPT, *several)
    assert first == results(capsys, folder, PROMPT, *several, "--seed", first[0]["seed"])
    assert len(results(capsys, folder, PROMPT, "--num-beams", 3, "--num-return-sequences", 2)) == 2


def test_prompts_of_a_file_and_of_standard_input(folder, tmp_path, capsys, monkeypatch):
    prompts = ["It didn't hide", "北京", "a <joy> b", "The"]
    file = tmp_path / "prompts.txt"
    file.write_text("\n\n".join(prompts) + "\n", encoding="utf-8")
    one_by_one = [results(capsys, folder, prompt)[0] for prompt in prompts]
    read = results(capsys, folder, "--input", file, "--batch-size", 3)
    assert [one["prompt"] for one in read] == prompts
    assert [read[0], read[1], read[3]] == [one_by_one[0], one_by_one[1], one_by_one[3]]
    assert read[2] != one_by_one[2]  # in a file, what looks like a token is text
    assert results(capsys, folder, "--input", file, "--special-tokens") == one_by_one
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(file.read_bytes())))
    assert results(capsys, folder, "-") == read


def test_stop_strings(folder, tokenizer, capsys):
    (full,) = results(capsys, folder, PROMPT)
    stop = next(text for text in full["generated_text"][len(PROMPT) + 2 :] if text.isascii() and text.isprintable())
    (cut,) = results(capsys, folder, PROMPT, "--stop", "no such text", "--stop", stop)
    assert cut["finish_reason"] == "stop"
    assert len(cut["ids"]) < len(full["ids"])
    assert stop in tokenizer.decode(cut["ids"][-1:])


def test_a_prefix_and_a_label_come_first(folder, model, tokenizer, capsys):
    (result,) = results(capsys, folder, "pon a time", "--prefix", "Once u", "--label", "sad")
    ids = [tokenizer.convert_tokens_to_ids("<|sad|>"), *tokenizer.encode(PROMPT)]
    assert result["ids"] == by_hand(model, ids)
    assert result["generated_text"].startswith("pon a time")


def test_task_specific_params_apply(folder, tmp_path, tokenizer, capsys):
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    config["task_specific_params"] = {"text-generation": {"max_length": 12}}
    (copy / "config.json").write_text(json.dumps(config))
    length = len(tokenizer.encode(PROMPT))
    assert len(results(capsys, copy, PROMPT)[0]["ids"]) == 12 - length
    assert len(results(capsys, copy, PROMPT, "--max-new-tokens", 3)[0]["ids"]) == 3
    assert "max_length" in run(capsys, copy, PROMPT, "--explain")


def test_explaining_needs_no_weights(folder, tmp_path, capsys):
    copy = shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*.safetensors"))
    result = run(capsys, copy, PROMPT, "--temperature", 0.7, "--seed", 3, "--explain")
    assert "greedy: always the likeliest next token" in result
    assert "temperature" in result[result.index("has no effect") :]
    result = json.loads(run(capsys, copy, "--num-beams", 4, "--explain", "--json"))
    assert result["strategy"] == "beam search"


class Terminal(io.StringIO):
    """Records the pieces that were written."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.pieces.append(text)
        return super().write(text)


def in_terminal(monkeypatch, capsys, *arguments: object) -> tuple[Terminal, str]:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["generate", *map(str, arguments)]) == 0
    return terminal, capsys.readouterr().err


def test_a_terminal_gets_the_text_while_it_is_generated(folder, capsys, monkeypatch):
    (result,) = results(capsys, folder, PROMPT, "--sample", "--seed", 2)
    terminal, err = in_terminal(monkeypatch, capsys, folder, PROMPT, "--sample", "--seed", 2)
    assert terminal.getvalue() == without_control_codes(result["generated_text"]) + "\n"
    assert len(terminal.pieces) > 5
    assert "[20 tokens, " in err
    assert "ended by length, seed 2]" in err


def test_control_codes_are_escaped(folder, tokenizer, capsys, monkeypatch):
    escape = tokenizer.vocab[SYMBOLS[0x1B]]  # the byte with which commands to a terminal begin
    others = json.dumps([index for index in range(len(tokenizer)) if index != escape])
    terminal, _ = in_terminal(
        monkeypatch, capsys, folder, "a\x1b[2J", "--max-new-tokens", 2, "--set", f"suppress_tokens={others}"
    )
    assert terminal.getvalue() == "a\\x1b[2J\\x1b\\x1b\n"


def test_a_terminal_gets_beams_at_the_end(folder, capsys, monkeypatch):
    flags = ("--num-beams", 3, "--num-return-sequences", 2)
    texts = [one["generated_text"] for one in results(capsys, folder, PROMPT, *flags)]
    terminal, err = in_terminal(monkeypatch, capsys, folder, PROMPT, *flags)
    assert terminal.getvalue().splitlines() == texts
    assert "[40 tokens, " in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a prompt, - for standard input, or --input with a file of prompts"),
        (["a", "--input", "x"], "give prompts or --input with a file of prompts, not both"),
        (["a", "-"], "- stands for standard input and takes no other prompt beside it"),
        (["--input", "/no/such/file"], "there is no file '/no/such/file'"),
        (["a", "--set", "topk=3"], "did you mean 'top_k'?"),
        (["a", "--set", "top_k"], "--set takes NAME=VALUE, got 'top_k'"),
        (["a", "--top-k", "3", "--set", "top_k=4"], "top_k is given twice: 3 and '4'"),
        (["a", "--set", "early_stopping=perhaps"], "early_stopping must be True, False or 'never', got 'perhaps'"),
        (["a", "--temperature", "0"], "temperature must be above 0"),
        (["a", "--num-return-sequences", "2"], "num_return_sequences"),
        (["a", "--label", "anger"], "no token for the label 'anger'; its control tokens are <joy>, <|sad|>"),
        (["a", "--batch-size", "0"], "--batch-size must be 1 or more, got 0"),
    ],
)
def test_wrong_use_is_one_line(folder, arguments, message, capsys):
    assert main(["generate", str(folder), *arguments]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out


def test_wrong_settings_are_refused_before_anything_is_loaded(capsys):
    assert main(["generate", "/no/such/folder", "a", "--set", "topk=3"]) == 1
    assert "did you mean 'top_k'?" in capsys.readouterr().err


def test_ineffective_settings_are_reported(folder, capsys):
    assert main(["generate", str(folder), PROMPT, "--top-p", "0.35"]) == 0
    assert "glass: note: top_p has no effect" in capsys.readouterr().err


def test_an_untrained_head_is_refused(tmp_path, capsys):
    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a b".split()
    shape = {"vocab_size": 7, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    for name, is_decoder in (("decoder", True), ("encoder", False)):
        config = BertConfig(**shape, intermediate_size=8, is_decoder=is_decoder)
        BertModel(config).save_pretrained(tmp_path / name)
        BertTokenizer(vocab={token: i for i, token in enumerate(words)}).save_pretrained(tmp_path / name)
    assert main(["generate", str(tmp_path / "decoder"), "a"]) == 1
    assert "has no trained cls.predictions, so it would write at random" in capsys.readouterr().err
    assert main(["generate", str(tmp_path / "encoder"), "a", "--explain"]) == 1
    assert "is no decoder" in capsys.readouterr().err
