"""glass verify: compares with recorded numbers and with transformers, and finds changed weights."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassformer.cli.main import main

from .test_predict import make


@pytest.fixture
def folder(tmp_path) -> Path:
    return make(tmp_path / "model", "SequenceClassification")


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["verify", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def change(folder: Path, name: str, by: float) -> None:
    """Add to every weight of a name; the layers before it stay as they are."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights = {key: value + by * torch.randn_like(value) if name in key else value for key, value in weights.items()}
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize("kind", ["SequenceClassification", "MaskedLM", "QuestionAnswering", "MultipleChoice"])
def test_outputs_equal_those_of_transformers(kind, tmp_path, capsys):
    transformers = pytest.importorskip("transformers")
    report = json.loads(run(capsys, make(tmp_path / "model", kind), "the cat sat .", "so good", "--json")[0])
    assert report["against"] == f"transformers {transformers.__version__}"
    assert report["model_class"] == f"BertFor{kind}"
    names = [each["name"] for each in report["values"]]
    assert names[:2] == ["embeddings", "layer 1"]
    assert names[-1] in ("logits", "end_logits")
    assert all(each["difference"] < 1e-5 for each in report["values"])
    assert report["agrees"]


def test_a_reference_is_recorded_and_replayed(folder, capsys):
    shown, _ = run(capsys, folder, "--record")
    assert "of 3 texts recorded" in shown
    shown, _ = run(capsys, folder)
    assert "against what glassformer" in shown
    assert "token ids: the same" in shown
    assert shown.splitlines()[-1] == "agrees within 0.0001"


def test_a_changed_weight_is_found_in_its_layer(folder, capsys):
    run(capsys, folder, "--record")
    change(folder, "encoder.layer.1.", 0.01)
    report = json.loads(run(capsys, folder, "--json", code=1)[0])
    agrees = {each["name"]: each["agrees"] for each in report["values"]}
    assert agrees["embeddings"]
    assert agrees["layer 1"]
    assert not agrees["layer 2"]
    assert not report["agrees"]
    assert "does NOT agree within 0.0001" in run(capsys, folder, code=1)[0]
    assert run(capsys, folder, "--tolerance", 100)[0]


def test_changed_ids_are_found(folder, capsys):
    run(capsys, folder, "the cat sat", "--record")
    note = folder / "reference.json"
    note.write_text(note.read_text().replace('"the cat sat"', '"the dog sat"'))
    assert "token ids: NOT the same" in run(capsys, folder, code=1)[0]


def test_a_damaged_reference_is_refused(folder, capsys):
    run(capsys, folder, "--record")
    assert "has a reference with texts of its own" in run(capsys, folder, "so good", code=1)[1]
    tensors = folder / "reference.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    assert "is not the file that reference.json describes" in run(capsys, folder, code=1)[1]


def test_a_missing_reference_reports_what_to_install(folder, capsys, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "transformers" else find(name))
    errors = run(capsys, folder, code=1)[1]
    assert "pip install transformers" in errors
    assert "--record" in errors


def test_a_tolerance_must_be_above_zero(folder, capsys):
    assert "--tolerance must be above 0, got 0.0" in run(capsys, folder, "--tolerance", 0, code=1)[1]
