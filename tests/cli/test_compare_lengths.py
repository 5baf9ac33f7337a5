"""`glass compare-lengths`: tables, a picture, and how far apart words are in each kind of layer."""

from __future__ import annotations

import json

import pytest

from glassformer.cli.main import main
from glassformer.explain.analysis.length_costs import exponent
from glassformer.explain.analysis.length_layers import KINDS
from glassformer.explain.analysis.length_paths import longest_path


def test_costs_are_measured_and_plotted(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "lengths.svg"
    arguments = ["compare-lengths", "--lengths", "4", "40", "--rounds", "1", "--picture", str(path)]
    assert main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = {(row["layer"], row["words"]): row for row in printed["costs"]}
    assert len(found) == 16 and all(row["seconds"] > 0 for row in found.values())
    assert all(row["mebibytes"] is None or row["mebibytes"] >= 0 for row in found.values())
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert found["recurrent", 40]["longest_path"] == 40
    assert found["convolutional", 40]["longest_path"] == 39
    assert found["attention", 40]["longest_path"] == found["performer", 40]["longest_path"] == 1
    assert found["convolutional", 4]["sees"] == found["convolutional", 40]["sees"] == 0
    assert found["recurrent", 40]["sees"] < 1e-6 < found["recurrent", 4]["sees"]
    assert found["attention", 40]["sees"] > 1e-3 and found["performer", 40]["sees"] > 1e-3
    said = {row["layer"]: row for row in printed["complexities"]}
    assert list(said) == list(KINDS) and said["attention"]["cost"] == "O(n² d)"
    assert said["recurrent"]["measured_path"] == 40 and said["recurrent"]["time_exponent"] is not None
    assert main([*arguments, "--layers", "convolutional", "dilated"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:3] == ["layer", "words", "ms"] and shown[6].split()[:3] == ["layer", "cost", "time"]
    assert len(shown) == 10 and shown[8].split()[-1] == "6"


@pytest.mark.parametrize(
    ("kind", "length", "steps"),
    [
        ("recurrent", 2, 2),
        ("recurrent", 9, 9),
        ("convolutional", 9, 8),
        ("dilated", 9, 4),  # 1 + 2 + 4 + 8 words on each side
        ("dilated", 16, 4),
        ("dilated", 17, 5),
        ("attention", 300, 1),
        ("window", 257, 1),
        ("window", 258, 2),
        ("window", 700, 3),  # the last word is two windows and more away
        ("longformer", 257, 1),
        ("longformer", 900, 2),  # by way of the global word
        ("bigbird", 704, 1),  # eleven blocks are read as a whole
        ("bigbird", 1000, 2),
        ("performer", 300, 1),
    ],
)
def test_the_longest_path_is_measured(kind, length, steps):
    assert longest_path(kind, length) == steps


def test_exponents_are_those_of_the_longer_half():
    assert exponent([(64, 8.0), (256, 1.0), (1024, 4.0), (4096, 16.0)]) == 1.0
    assert exponent([(10, 1.0), (20, 4.0)]) == 2.0
    assert exponent([(10, 1.0)]) is None


def test_it_prints_a_table_and_writes_a_plot(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["compare-lengths", "--lengths", "4", "6", "--rounds", "1", "--layers", "attention", "performer"]) == 0
    *_, last = capsys.readouterr().out.splitlines()
    assert last == "the plot is in lengths.html"
    page = (tmp_path / "lengths.html").read_text(encoding="utf-8")
    assert page.count("<polyline") in (2, 4) and "6 words" in page and "■ attention" in page


def test_wrong_arguments_are_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "glassformer.explain.analysis.length_costs.median_seconds", None
    )  # fails if anything is measured
    for arguments, message in (
        (["--lengths", "1"], "lengths of 2 words or more"),
        (["--layers", "longformers"], "did you mean 'longformer'"),
        (["--picture", "a.jpg"], "written as .html or .png or .svg, got 'a.jpg'"),
        (["--picture", str(tmp_path / "nowhere" / "a.png")], "nowhere' to write a.png to"),
    ):
        assert main(["compare-lengths", *arguments]) == 1
        assert message in capsys.readouterr().err


def test_no_change_is_lost_in_long_texts():
    assert longest_path("dilated", 5000) == 13
    assert longest_path("convolutional", 2000) == 1999
