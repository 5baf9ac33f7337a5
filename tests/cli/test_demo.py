"""glass demo, on the real checkpoint."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

from glassformer.cli import demo
from glassformer.cli.main import main


def test_the_built_in_sentences(minilm, capsys):
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "[CLS] the kitten nap ##s by the sunny window . [SEP]" in shown
    after = shown.split("Most similar, with ")[1].splitlines()
    assert after[1].strip() == f"2  {demo.SENTENCES[1]}"
    assert after[2].strip() == f"5  {demo.SENTENCES[4]}"
    assert "54 of them are padding and were left out: 78 real tokens" in shown
    assert shown.count("\n  glass ") == 3


def test_own_sentences(minilm, capsys):
    own = ["A man is eating.", "The sky is blue.", "Someone has a meal."]
    assert main(["demo", *own, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["sentences"] == own
    assert values["most_similar"] == [0, 2]
    assert values["ids"][1] == [101, 1996, 3712, 2003, 2630, 1012, 102]
    assert [row[i] for i, row in enumerate(values["similarities"])] == pytest.approx([1, 1, 1], abs=1e-5)


def test_the_numbers_are_those_of_sentence_transformers(minilm, capsys):
    library = pytest.importorskip("sentence_transformers")
    assert main(["demo", "--json"]) == 0
    ours = torch.tensor(json.loads(capsys.readouterr().out)["similarities"])
    theirs = torch.tensor(library.SentenceTransformer(str(minilm), device="cpu").encode(list(demo.SENTENCES)))
    assert torch.allclose(ours, theirs @ theirs.T, atol=1e-5)


def test_the_commands_to_try_next_can_be_typed(tmp_path, monkeypatch):
    glass = tmp_path / "glass"
    glass.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(glass)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo.program() == "glass"
    monkeypatch.setenv("PATH", "/nowhere")
    assert demo.program() == str(glass)


def test_one_sentence_cannot_be_compared(capsys):
    assert main(["demo", "alone"]) == 1
    assert capsys.readouterr().err == "glass: give two sentences or more to compare, got one\n"


def test_without_the_package_one_line_tells_the_command(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["demo"]) == 1
    shown = capsys.readouterr().err
    assert "pip install 'glassformer[demo]'" in shown
    assert shown.count("\n") == 1
