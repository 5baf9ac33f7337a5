"""glass cluster: what the function finds, written as rows, tables and pictures."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from glassformer import SentenceEncoder, cluster_vectors
from glassformer.cli.main import main

from .sentences import make_encoder

TEXTS = ["so good", "very good", "so very good", "the cat sat on the mat", "the dog sat on the mat", "我爱北京天安门"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


def run(capsys, *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["cluster", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_files_hold_the_clusters_of_the_function(folder, file, tmp_path, capsys):
    expected = cluster_vectors(SentenceEncoder.from_pretrained(folder).encode(TEXTS), 3)
    rows, table = tmp_path / "out.jsonl", tmp_path / "out.csv"
    for path in (rows, table):
        assert f"wrote {path}" in run(capsys, folder, "--input", file, "--clusters", 3, "-o", path)[0]
    found = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    assert [row["text"] for row in found] == TEXTS
    assert [row["cluster"] for row in found] == expected.labels.tolist()
    assert [row["distance"] for row in found] == pytest.approx(expected.distances.tolist(), abs=2e-6)
    with open(table, encoding="utf-8", newline="") as lines:
        assert [(row["row"], row["cluster"], row["text"]) for row in csv.DictReader(lines)] == [
            (str(row["row"]), str(row["cluster"]), row["text"]) for row in found
        ]


def test_json_and_the_choice_of_a_number(folder, file, capsys):
    found = json.loads(run(capsys, folder, "--input", file, "--max-clusters", 4, "--top", 2, "--json")[0])
    best = max(found["silhouettes"], key=found["silhouettes"].get)
    assert list(found["silhouettes"]) == ["2", "3", "4"] and len(found["clusters"]) == int(best)
    assert sum(each["size"] for each in found["clusters"]) == len(TEXTS) == found["texts"]
    for each in found["clusters"]:
        assert len(each["typical"]) <= 2 and all(TEXTS[one["row"]] == one["text"] for one in each["typical"])
    assert "silhouette" in run(capsys, folder, "--input", file, "--max-clusters", 4)[0]


def test_pictures(folder, file, tmp_path, capsys):
    page = tmp_path / "clusters.html"
    file.write_text("\n".join([*TEXTS, "<script>alert(1)</script>"]) + "\n", encoding="utf-8")
    run(capsys, folder, "--input", file, "--clusters", 3, "--picture", page)
    text = page.read_text(encoding="utf-8")
    assert text.count("<circle") == 7 and "default-src 'none'" in text and "7 texts in 3 clusters" in text
    assert "<script" not in text and "&lt;script&gt;" in text
    pytest.importorskip("matplotlib")
    picture = tmp_path / "clusters.png"
    run(capsys, folder, "--input", file, "--clusters", 3, "--metric", "euclidean", "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_file_is_replaced_only_on_request(folder, file, tmp_path, capsys):
    path = tmp_path / "out.csv"
    path.write_text("mine")
    assert "to replace it: glass cluster " in run(capsys, folder, "--input", file, "-o", path, code=1)[1]
    assert path.read_text() == "mine"
    run(capsys, folder, "--input", file, "-o", path, "--restart")
    assert path.read_text().startswith("row,cluster,distance,text\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give --input with a file of texts"),
        (["--input", "FILE", "--clusters", "9"], "9 clusters need as many different vectors, got 6 of 6"),
        (["--input", "FILE", "--clusters", "0"], "clusters must be"),
        (["--input", "FILE", "-o", "out.txt"], "clusters are written as .jsonl or .csv, got 'out.txt'"),
        (["--input", "FILE", "-o", "nowhere/out.csv"], "there is no folder 'nowhere'"),
        (["--input", "FILE", "--picture", "a.jpg"], "written as .html or .png or .svg, got 'a.jpg'"),
        (["--input", "FILE", "--restart"], "--restart is for --output"),
        (["--input", "FILE", "--top", "0"], "--top must be 1 or more, got 0"),
    ],
)
def test_wrong_use_is_one_line(folder, file, arguments, said, capsys):
    shown, told = run(capsys, folder, *(str(file) if each == "FILE" else each for each in arguments), code=1)
    assert said in told and told.count("\n") == 1 and not shown


def test_a_bad_row_and_an_empty_file_are_named(folder, file, capsys):
    file.write_bytes(b"so good\n\xff\n")
    assert f"{file}, line 2: not UTF-8" in run(capsys, folder, "--input", file, code=1)[1]
    file.write_bytes(b"")
    assert "holds no rows" in run(capsys, folder, "--input", file, code=1)[1]
