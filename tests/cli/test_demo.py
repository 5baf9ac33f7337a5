"""glass demo and glass translate: the whole way, with a corpus and a training that are too small to be good."""

from __future__ import annotations

import io
import json

import pytest

from glassformer import read_rows
from glassformer.cli import demo
from glassformer.cli.main import main


@pytest.fixture(scope="module")
def small():
    """A demo of a few seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "MEANINGS", 120)
        patch.setattr(demo, "HELD_OUT", 24)
        patch.setattr(demo, "WATCHED", 8)
        patch.setattr(
            demo, "SHAPE", {**demo.SHAPE, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
        )
        yield


@pytest.fixture(scope="module")
def trained(small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "model"
    assert main(["demo", "--output", str(folder), "--steps", "3"]) == 0
    return folder


def test_the_whole_way(small, tmp_path, capsys):
    folder = tmp_path / "model"
    assert main(["demo", "--output", str(folder), "--steps", "3"]) == 0
    shown = capsys.readouterr().out
    for heading in (
        "1. A corpus",
        "2. A vocabulary",
        "3. A Transformer of",
        "4. It is judged by 16",
        "5. It",
        "6. Where",
    ):
        assert f"\n{heading}" in f"\n{shown}"
    assert shown.count("\n  glass ") == 3
    assert demo.EXAMPLES[0] in shown
    page = (folder / demo.PAGE).read_text(encoding="utf-8")
    assert page.count("<section>") == len(demo.EXAMPLES)
    rows = list(read_rows(folder / "test.tsv"))
    assert len(rows) == 24
    assert set(rows[0]) == {"source", "target"}


def test_a_model_that_is_there_is_used(trained, capsys):
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


def test_again_trains_anew(trained, capsys):
    before = (trained / "model.safetensors").read_bytes()
    assert main(["demo", "--output", str(trained), "--again", "--steps", "2", "--json"]) == 0
    assert (trained / "model.safetensors").read_bytes() != before
    assert main(["demo", "--steps", "0"]) == 1
    assert "--steps must be a whole number of at least 1, got 0" in capsys.readouterr().err


def test_what_is_typed_is_translated(trained, capsys, monkeypatch):
    from glassformer import Translation

    typed = iter(["Forty-two", "mice", "x " * 70, " "])
    monkeypatch.setattr("builtins.input", lambda _: next(typed))
    task = Translation.from_pretrained(trained, max_new_tokens=3)
    demo.listen(task)
    shown = capsys.readouterr().out.splitlines()
    (said,) = task.forward(task.collate(task.encode({"source": "forty two"})))[0]
    assert shown[2] == f"  {task.spell(said[0])}"
    assert shown[4] == "  It knows numbers and dates only; these are new to it: mice"
    assert "the model takes 64" in shown[5]
    assert len(shown) == 6


def test_the_commands_to_try_next_can_be_typed(tmp_path, monkeypatch):
    glass = tmp_path / "glass"
    glass.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(glass)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.program() == "glass"
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.program() == str(glass)


# --- glass translate --------------------------------------------------------------------------------------------------


def test_translate(trained, tmp_path, capsys, monkeypatch):
    page, picture = tmp_path / "look.html", tmp_path / "look.svg"
    asked = ["translate", str(trained), "one", "two", "--max-new-tokens", "4", "--beams", "2"]
    assert main([*asked, "--page", str(page), "--picture", str(picture), "--heads", "cross"]) == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 2
    assert page.read_text(encoding="utf-8").count("<section>") == 2
    assert picture.read_bytes().startswith(b"<?xml")
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    assert main(["translate", str(trained), "--max-new-tokens", "4", "--beams", "2", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert [value["translation_text"] for value in values] == shown.out.splitlines()
    assert [value["source"] for value in values] == ["one", "two"]


def test_translate_refuses(trained, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    for asked, told in (
        ([], "there is nothing to translate"),
        (["one", "--heads", "cross"], "give --picture too"),
        (["one " * 70], "pass --truncation to cut it"),
    ):
        assert main(["translate", str(trained), *asked]) == 1
        assert told in capsys.readouterr().err
