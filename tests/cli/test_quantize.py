"""`glass quantize`: a folder in 8 bits, and what it reports."""

from __future__ import annotations

import json

import pytest

import glassformer
from glassformer.cli.main import main
from glassformer.nn.quantize import Int8Linear

from ..train import small


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantize")
    task = small.classifier(folder / "model")
    task.model.save_pretrained(folder / "model")
    task.save_processor(folder / "model")
    lines = ["text\tlabel", *(f"{row['text']}\tLABEL_{number % 2}" for number, row in enumerate(small.ROWS))]
    (folder / "rows.tsv").write_text("\n".join(lines) + "\n")
    return folder


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["quantize", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_model_is_written_and_measured(folder, tmp_path, capsys):
    rows = folder / "rows.tsv"
    given = [folder / "model", "-o", tmp_path / "small", "--calibrate", rows, "--check", rows]
    code, out, err = run(capsys, *given, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["layers"] == 13 - len(found["in_float"]) and 0.5 <= found["agreement"] <= 1
    assert found["before"].keys() == found["after"].keys() >= {"loss", "accuracy", "rows_per_second"}
    assert found["before"]["loss"] == pytest.approx(found["after"]["loss"], abs=0.05)
    pipe = glassformer.pipeline("text-classification", model=tmp_path / "small")
    assert sum(isinstance(each, Int8Linear) for each in pipe.model.modules()) == found["layers"]
    assert pipe.model.config.quantization_config["in_float"] == found["in_float"]
    assert set(pipe(small.ROWS[0]["text"])[0]) == {"label", "score"}
    code, out, err = run(capsys, *given)
    assert code == 1 and "exists and is not empty" in err
    code, out, err = run(capsys, folder / "model", "--check", rows)
    assert code == 0 and "quantized: " in out and "before" in out


def test_what_cannot_be_done_is_said(folder, tmp_path, capsys):
    code, _, err = run(capsys, folder / "model")
    assert code == 1 and "give --output" in err
    assert run(capsys, folder / "model", "-o", tmp_path / "small")[0] == 0
    recipe = ["--model", tmp_path / "small", "--data", folder / "rows.tsv", "--output-dir", tmp_path / "run"]
    assert main(["train", "text-classification", *map(str, recipe)]) == 1
    assert "quantized to int8 and cannot be trained" in capsys.readouterr().err


def test_dtype_of_a_verb(folder, capsys):
    for dtype in ("int8", "bfloat16"):
        assert main(["predict", "text-classification", str(folder / "model"), "so good", "--dtype", dtype]) == 0
        assert "LABEL_" in capsys.readouterr().out
