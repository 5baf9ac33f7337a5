"""`glass compare-lengths`: a table, a picture, and what each kind of layer can see."""

from __future__ import annotations

import json

import pytest

from glassformer.cli.main import main


def test_costs_are_measured_and_plotted(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "lengths.svg"
    arguments = ["compare-lengths", "--lengths", "4", "40", "--rounds", "1", "--picture", str(path)]
    assert main([*arguments, "--json"]) == 0
    found = {(row["layer"], row["words"]): row for row in json.loads(capsys.readouterr().out)}
    assert len(found) == 6 and all(row["seconds"] > 0 for row in found.values())
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert found["recurrent", 40]["steps"] == 40
    assert found["attention", 40]["steps"] == found["attention", 40]["layers_to_meet"] == 1
    assert found["convolutional", 40]["layers_to_meet"] == 39
    assert found["convolutional", 4]["sees"] == found["convolutional", 40]["sees"] == 0
    assert found["recurrent", 40]["sees"] < 1e-6 < found["recurrent", 4]["sees"]
    assert found["attention", 40]["sees"] > 1e-3
    assert main([*arguments]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:3] == ["layer", "words", "ms"] and len(shown) == 8


def test_it_prints_a_table_and_writes_a_plot(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["compare-lengths", "--lengths", "4", "6", "--rounds", "1"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "the plot is in lengths.html"
    page = (tmp_path / "lengths.html").read_text(encoding="utf-8")
    assert page.count("<polyline") == 3 and "6 words" in page and "■ attention" in page


def test_wrong_arguments_are_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "glassformer.explain.analysis.length_costs.median_seconds", None
    )  # fails if anything is measured
    for arguments, message in (
        (["--lengths", "1"], "lengths of 2 words or more"),
        (["--picture", "a.jpg"], "written as .html or .png or .svg, got 'a.jpg'"),
        (["--picture", str(tmp_path / "nowhere" / "a.png")], "nowhere' to write a.png to"),
    ):
        assert main(["compare-lengths", *arguments]) == 1
        assert message in capsys.readouterr().err
