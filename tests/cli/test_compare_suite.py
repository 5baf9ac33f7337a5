"""`glass compare FOLDER`: the recipes of a suite, their scores and the average."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from glassformer import read_rows
from glassformer.train.recipes.recipe import make_recipe
from glassformer.train.recipes.recipe_text import read_recipe
from glassformer.train.recipes.suite import read_suite

from ..conftest import ROOT
from .test_train import here, run  # noqa: F401  (a fixture)

SCORES = '[scores]\njudge = ["matthews"]\nscore = ["pearson", "spearman"]\nother = "accuracy"\n'


@pytest.fixture
def glue(here) -> Path:  # noqa: F811
    """Three recipes: two that classify, and one that is a regression."""
    text = Path("recipe.toml").read_text()
    Path("glue").mkdir()
    Path("glue/judge.toml").write_text(text)
    Path("glue/other.toml").write_text(text.replace('eval = "dev.tsv"', 'eval = "train.tsv"'))
    numbers = "sentence\tlabel\n" + "".join(f"{'so ' * (i % 3)}good film {i}\t{i * 0.5}\n" for i in range(8))
    Path("numbers.tsv").write_text(numbers)
    regression = text.replace("train.tsv", "numbers.tsv").replace("dev.tsv", "numbers.tsv")
    Path("glue/score.toml").write_text(regression + '[config]\nnum_labels = 1\nproblem_type = "regression"\n')
    Path("glue/suite.toml").write_text(SCORES)
    return here


CALL = ("compare", "glue", "--seeds", "3", "4", "--output-dir=runs", "--max-steps", "2")


def test_the_average_is_that_of_the_scores(glue, capsys):
    code, out, err = run(capsys, *CALL, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found == json.loads(Path("runs/comparison.json").read_text()) and found["seeds"] == [3, 4]

    def result(recipe: str, seed: int) -> dict:
        return json.loads(Path(f"runs/{recipe}/seed-{seed}/result.json").read_text())["metrics"]

    scores = {
        "judge": [result("judge", seed)["matthews"] for seed in (3, 4)],
        "score": [(result("score", seed)["pearson"] + result("score", seed)["spearman"]) / 2 for seed in (3, 4)],
        "other": [result("other", seed)["accuracy"] for seed in (3, 4)],
    }
    (only,) = found["averages"]
    assert only["variant"] == "" and list(only["scores"]) == ["judge", "score", "other"]
    for recipe, values in scores.items():
        assert only["scores"][recipe]["values"] == pytest.approx(values)
    averages = [sum(each[i] for each in scores.values()) / 3 for i in (0, 1)]
    assert only["average"]["values"] == pytest.approx(averages)
    assert only["average"]["mean"] == pytest.approx(sum(averages) / 2)
    code, out, err = run(capsys, *CALL)  # the finished runs are kept
    assert code == 0 and "step" not in err
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines[1:5]] == ["judge", "score", "other", "average"]
    assert lines[2][1:4] == ["pearson", "and", "spearman"] and lines[4][1] == f"{only['average']['mean']:.4f}"
    page = Path("runs/comparison.html").read_text()
    assert "<h1>The suite glue</h1>" in page and "average" in page and page.count("<h2>") == 4
    assert "<polyline" in page and "<script" not in page and f"{only['average']['mean']:.4f}" in page


def test_variants_are_compared_by_their_averages(glue, capsys):
    code, out, err = run(capsys, *CALL[:3], *CALL[4:], "--vary", "from_scratch=false,true")
    assert code == 0, err
    header, *lines = out.splitlines()
    assert header.split() == ["recipe", "score", "from_scratch=false", "from_scratch=true"]
    found = json.loads(Path("runs/comparison.json").read_text())
    first, second = found["averages"]
    assert first["average"]["mean"] == pytest.approx(sum(each["mean"] for each in first["scores"].values()) / 3)
    difference = second["average"]["mean"] - first["average"]["mean"]
    assert first["scores"] != second["scores"] and second["difference"]["mean"] == pytest.approx(difference)
    assert lines[4].split() == ["difference", f"{difference:+.4f}"] and lines[5].startswith("time of a seed")
    page = Path("runs/comparison.html").read_text()
    assert "■ from_scratch=true" in page and re.search(r'class="c1"><polyline', page)


@pytest.mark.parametrize(
    ("suite", "arguments", "message"),
    [
        (None, (), "glue is a folder without suite.toml, which says what is averaged"),
        ("scores = 3", (), "has the section [scores] and no other"),
        ("[score]\njudge = 1", (), "has the section [scores] and no other, got score"),
        (
            SCORES + "judges = ['f1']",
            (),
            "suite.toml names judges, and there is no judges.toml beside it, did you mean",
        ),
        ("[scores]\njudge = ['f1']", (), "suite.toml has no metrics for other, score, whose recipes are beside it"),
        (SCORES.replace('"accuracy"', "3"), (), "other must be a list of metrics"),
        (SCORES, ("recipe.toml",), "a folder of recipes is compared alone"),
        (SCORES, ("--vary", "judge:max_steps=1,2"), "every recipe of a folder has the same variants"),
        (SCORES.replace("matthews", "mathews"), (), "judge has no metric 'mathews'; it has loss, accuracy"),
    ],
)
def test_faults_are_reported(glue, capsys, suite, arguments, message):
    if suite is None:
        Path("glue/suite.toml").unlink()
    else:
        Path("glue/suite.toml").write_text(suite)
    code, _, err = run(capsys, "compare", "glue", *arguments, "--seeds", "3", "--max-steps", "1")
    assert code == 1 and message in err


def test_the_suite_of_this_package(shared):
    """Its recipes are valid, name metrics of their task, and find their rows."""
    suite = read_suite(ROOT / "recipes/glue")
    assert suite.scores == {
        "cola": ("matthews",),
        "rte": ("accuracy",),
        "sst2": ("accuracy",),
        "stsb": ("pearson", "spearman"),
    }
    counts = {"cola": (8551, 1043), "rte": (2490, 277), "sst2": (67349, 872), "stsb": (5749, 1500)}
    for path in suite.recipes:
        data = make_recipe(read_recipe(path), path.name).data
        files = (shared / name.removeprefix("../shared/") for name in (data.train, data.eval))
        rows = tuple(len(list(read_rows(str(file), columns=data.columns, header=data.header))) for file in files)
        assert rows == counts[path.stem]
