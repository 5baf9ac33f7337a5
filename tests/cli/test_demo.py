"""glass demo and glass translate, with a corpus and a training that are too small for quality."""

from __future__ import annotations

import io
import json

import pytest

from glassformer import read_rows
from glassformer.cli import demo_model
from glassformer.cli.main import main
from glassformer.cli.verbs import demo


@pytest.fixture(scope="module")
def small():
    """A demo of a few seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_model, "TRAINING", 120)
        patch.setattr(demo_model, "HELD_OUT", 24)
        patch.setattr(demo_model, "VALIDATION", 8)
        small = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
        patch.setattr(demo_model, "SHAPE", {**demo_model.SHAPE, **small})
        yield


@pytest.fixture(scope="module")
def trained(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "model"
    assert main(["demo", "--output", str(folder), "--steps", "3"]) == 0
    return folder


def test_the_demo_trains_evaluates_and_translates(small, tmp_path, capsys):
    folder = tmp_path / "model"
    assert main(["demo", "--output", str(folder), "--steps", "3"]) == 0
    shown = capsys.readouterr().out
    for heading in (
        "1. A corpus",
        "2. A vocabulary",
        "3. A Transformer of",
        "4. It is evaluated on 16",
        "5. It",
        "6. Its attention",
    ):
        assert f"\n{heading}" in f"\n{shown}"
    assert shown.count("\n  glass ") == 3
    assert demo.EXAMPLES[0] in shown
    page = (folder / demo.PAGE).read_text(encoding="utf-8")
    assert page.count("<section>") == len(demo.EXAMPLES)
    rows = list(read_rows(folder / "test.tsv"))
    assert len(rows) == 24
    assert set(rows[0]) == {"source", "target"}


def test_an_existing_model_is_used(trained, capsys):
    assert main(["demo", "--output", str(trained), "--json", "Twenty-one mice"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert list(values["translations"]) == ["twenty one mice"]
    assert values["held_out"] == 16
    assert values["seconds"]["training"] < 5
    assert main(["demo", "--output", str(trained), "twenty one mice"]) == 0
    shown = capsys.readouterr().out
    assert "was trained before" in shown
    assert "these are new to it: mice" in shown


def test_the_model_can_be_inspected(trained, capsys):
    assert main(["inspect", str(trained), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [part["name"] for part in found["parts"]] == ["encoder", "decoder", "fc_out"]


def test_again_trains_a_new_model(trained, capsys):
    before = (trained / "model.safetensors").read_bytes()
    assert main(["demo", "--output", str(trained), "--again", "--steps", "2", "--json"]) == 0
    assert (trained / "model.safetensors").read_bytes() != before
    assert main(["demo", "--steps", "0"]) == 1
    assert "--steps must be a whole number of at least 1, got 0" in capsys.readouterr().err


def test_what_is_typed_is_translated(trained, capsys, monkeypatch):
    from glassformer import Translation

    typed = iter(["Forty-two", "mice", "one " * 70, " "])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    task = Translation.from_pretrained(trained, max_new_tokens=3, truncation=True)
    demo.translate_typed_lines(task)
    shown = capsys.readouterr().out.splitlines()
    (tokens,) = task.forward(task.collate(task.encode({"source": "forty two"})))[0]
    assert shown[2] == f"  {task.decode_target(tokens[0])}"
    assert shown[4] == "  It knows numbers and dates only; these are new to it: mice"
    assert shown[6] == "  It reads 64 tokens and no more: the rest was cut off"
    assert len(shown) == 7


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_the_demo_prints_next_steps_however_typing_ends(trained, capsys, monkeypatch, end):
    def leave(prompt):
        raise end

    monkeypatch.setattr("builtins.input", leave)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["demo", "--output", str(trained)]) == 0
    assert "Try next:" in capsys.readouterr().out


def test_texts_that_are_too_long_or_empty(trained, tmp_path, capsys):
    assert main(["demo", "one " * 70, "--output", str(trained)]) == 0
    assert "It reads 64 tokens and no more" in capsys.readouterr().out
    assert main(["demo", " . ", "--output", str(tmp_path / "new")]) == 1
    assert "there is nothing to translate in ' . '" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()  # before anything is trained


def test_next_steps_name_the_command_as_the_shell_finds_it(tmp_path, monkeypatch):
    glass = tmp_path / "glass"
    glass.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(glass)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.command_name() == "glass"
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.command_name() == str(glass)


# --- glass translate --------------------------------------------------------------------------------------------------


def test_translate(trained, tmp_path, capsys, monkeypatch):
    page, picture = tmp_path / "look.html", tmp_path / "look.svg"
    arguments = ["translate", str(trained), "one", "two", "--max-new-tokens", "4", "--num-beams", "2"]
    assert main([*arguments, "--page", str(page), "--picture", str(picture), "--heads", "cross"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert page.read_text(encoding="utf-8").count("<section>") == 2
    assert picture.read_bytes().startswith(b"<?xml")
    typed(monkeypatch, "one\ntwo\n")
    assert main(["translate", str(trained), "--max-new-tokens", "4", "--beams", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [value["translation_text"] for value in values] == shown.out.splitlines()
    assert [value["source"] for value in values] == ["one", "two"]


def typed(monkeypatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_every_line_keeps_its_place(trained, tmp_path, capsys, monkeypatch):
    lines = tmp_path / "lines.txt"
    lines.write_text("\none\n\n  \ntwo\n\n")
    arguments = ["translate", str(trained), "--max-new-tokens", "4"]
    assert main([*arguments, "one", "two"]) == 0
    one, two = capsys.readouterr().out.splitlines()
    assert main([*arguments, "--input", str(lines)]) == 0
    shown = capsys.readouterr()
    assert shown.out.split("\n") == ["", one, "", "", two, "", ""]
    assert "note: 4 of 6 texts are empty, and stay empty" in shown.err
    typed(monkeypatch, lines.read_text())
    assert main(arguments) == 0
    assert capsys.readouterr().out == shown.out
    lines.write_text("one\n" + "one " * 70)
    assert main([*arguments, "--input", str(lines)]) == 1
    shown = capsys.readouterr()
    assert shown.out == f"{one}\n"
    assert "lines.txt, line 2: " in shown.err


def test_words_that_are_new_to_the_model_and_texts_that_are_cut_are_reported(trained, tmp_path, capsys):
    translate = ["translate", str(trained), "one \u20ac two \u20ac", "--max-new-tokens", "2"]
    assert main(translate) == 0
    assert "note: these words are new to the model: \u20ac\n" in capsys.readouterr().err
    assert main([*translate, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["unknown_words"] == ["\u20ac"]
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"source": text, "target": "一"}) + "\n" for text in ("one", "one " * 70)))
    evaluate = ["evaluate", "translation", str(trained), "--data", str(rows), "--option", "max_new_tokens=2"]
    assert main([*evaluate, "--truncation"]) == 0
    assert "1 of 2 evaluation rows were cut to fit the model" in capsys.readouterr().err


def test_special_tokens_of_a_file_are_text(trained, tmp_path, capsys, monkeypatch):
    from glassformer import Translation

    read = []
    collate = Translation.collate

    def watch(task, examples):
        read.extend(examples[0].encoded.ids())
        return collate(task, examples)

    monkeypatch.setattr(Translation, "collate", watch)
    end = Translation.from_pretrained(trained).tokenizer.sep_token_id
    for texts, count in ((["one [SEP]"], 2), ([], 1)):
        typed(monkeypatch, "one [SEP]\n")
        read.clear()
        assert main(["translate", str(trained), *texts, "--max-new-tokens", "2"]) == 0
        assert read.count(end) == count
    capsys.readouterr()


def test_a_file_name_given_as_text_is_reported(trained, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines.txt").write_text("one\n")
    assert main(["translate", str(trained), "lines.txt", "--max-new-tokens", "2"]) == 0
    assert "--input lines.txt translates the lines of that file" in capsys.readouterr().err


def test_wrong_arguments_of_translate_are_reported(trained, capsys, monkeypatch):
    for arguments, message in (
        ([], "standard input holds no rows"),
        (["one", "--input", "lines.txt"], "not both"),
        (["one", "--heads", "cross"], "give --picture too"),
        (["one", "--picture", "a.png", "--heads", "crss"], "did you mean 'cross'"),
        (["one", "--picture", "a.jpg"], "written as .png or .svg"),
        (["one", "--picture", "nowhere/a.png"], "there is no folder 'nowhere' to write a.png to"),
        (["one", "--page", "nowhere/a.html"], "in a folder that exists"),
        ([" ", "--page", "a.html"], "no text whose attention"),
        (["one " * 70], "pass --truncation to cut it"),
    ):
        typed(monkeypatch, "")
        assert main(["translate", str(trained), *arguments]) == 1
        shown = capsys.readouterr()
        assert message in shown.err
        assert not shown.out.strip()


def test_the_demo_does_not_overwrite_another_corpus(small, tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("mine\n")
    assert main(["demo", "--output", str(tmp_path), "--steps", "2"]) == 1
    assert "train.tsv exists and holds another corpus" in capsys.readouterr().err
    assert (tmp_path / "train.tsv").read_text() == "mine\n"
    assert not (tmp_path / "test.tsv").exists()
