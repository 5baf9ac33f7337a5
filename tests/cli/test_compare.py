"""`glass compare`: means and spreads over seeds, finished runs that stay, one page with curves."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from glassformer.train.reporting import compare_runs as comparing
from glassformer.train.reporting.run_comparison_page import comparison_page
from glassformer.train.result import TrainResult

from .test_train import here, run  # noqa: F401  (a fixture)


@pytest.fixture
def recipes(here):  # noqa: F811
    text = Path("recipe.toml").read_text()
    Path("tuned.toml").write_text(text)
    Path("scratch.toml").write_text("from_scratch = true\n" + text)
    return here


CALL = ("compare", "tuned.toml", "scratch.toml", "--seeds", "3", "4", "--output-dir=both", "--max-steps", "2")


def test_means_and_deviations(recipes, capsys):
    code, out, err = run(capsys, *CALL, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found == json.loads(Path("both/comparison.json").read_text()) and found["seeds"] == [3, 4]
    tuned, scratch = found["outcomes"]
    assert [tuned["name"], scratch["name"]] == ["tuned", "scratch"]
    single = [json.loads(Path(f"both/scratch/seed-{seed}/result.json").read_text()) for seed in (3, 4)]
    losses = [each["metrics"]["loss"] for each in single]
    assert scratch["metrics"]["loss"]["values"] == losses
    assert scratch["metrics"]["loss"]["mean"] == pytest.approx(statistics.mean(losses))
    assert scratch["metrics"]["loss"]["deviation"] == pytest.approx(statistics.stdev(losses))
    differences = [a - b for a, b in zip(losses, tuned["metrics"]["loss"]["values"], strict=True)]
    assert scratch["difference"]["loss"]["values"] == pytest.approx(differences) and differences[0] != 0
    assert scratch["costs"]["step"]["mean"] == 2 and scratch["costs"]["tokens"]["mean"] > 20
    assert scratch["costs"]["parameters"] == tuned["costs"]["parameters"]


def test_the_table_and_the_page(recipes, capsys):
    code, out, err = run(capsys, *CALL)
    assert code == 0, err
    header, first, second, note = out.splitlines()
    assert (
        header.split()[:2] == ["recipe", "loss"]
        and "accuracy difference" in header
        and first.startswith("tuned")
        and second.startswith("scratch")
    )
    assert "±" in first and note.startswith("seeds 3, 4; mean ± standard deviation")
    page = Path("both/comparison.html").read_text()
    assert "<h2>eval accuracy</h2>" in page and page.count("<polyline") >= 4 and "difference to tuned" in page
    assert page.count("<rect") == 2 and 'aria-label="accuracy of each recipe"' in page
    assert "<script" not in page and "default-src 'none'" in page


def test_finished_runs_are_kept_and_others_resumed(recipes, capsys, monkeypatch):
    code, *_ = run(capsys, *CALL)
    assert code == 0
    (recipes / "both/scratch/seed-4/result.json").unlink()
    built = []
    make = comparing.build_trainer
    monkeypatch.setattr(
        comparing, "build_trainer", lambda recipe: built.append(recipe.train.output_dir) or make(recipe)
    )
    code, _, err = run(capsys, *CALL)
    assert code == 0, err
    assert built == ["both/scratch/seed-4"]
    kept = recipes / "both/tuned/seed-3/recipe.toml"
    lines = kept.read_text().splitlines(keepends=True)
    kept.write_text("".join(line for line in lines if "eval_tail" not in line and "buffer" not in line))
    code, _, err = run(capsys, *CALL)  # a field that came after the run was done, and has its default
    assert code == 0, err


def test_a_stop_is_reported_and_another_recipe_refused(recipes, capsys, monkeypatch):
    class Ended:
        process_group = type("ProcessGroup", (), {"is_main": True})

        def train(self, resume):
            assert resume is True
            return TrainResult(1, 2, "SIGTERM", None, {}, 0.0, 0, 0, 0)

    monkeypatch.setattr(comparing, "build_trainer", lambda recipe: Ended())
    code, out, _ = run(capsys, *CALL)
    assert code == 143 and out == "stopped by SIGTERM; the same command continues\n"
    code, _, err = run(capsys, *CALL, "--learning-rate=0.5")
    assert code == 1 and "holds a run of another recipe, which did not say learning_rate = 0.5" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tuned.toml", "tuned.toml"], "recipes are distinguished by their file names"),
        (["tuned.toml", "--seeds", "1", "1"], "every seed is used once, got 1, 1"),
        (["tuned.toml", "--learning-rat=1"], "did you mean 'learning_rate'"),
        (["tuned.toml", "--vary", "tunde:max_steps=1,2"], "there is no recipe 'tunde' among tuned"),
        (["tuned.toml", "--seed=1"], "every recipe is run once with each of --seeds; give these, and no seed"),
        (["tuned.toml", "--vary", "tuned:train.seed=1,2"], "with each of --seeds; give these, and no seed"),
        (["tuned.toml", "--eval=none"], "tuned has no rows to compare by: give data.eval, data.eval_fraction or"),
    ],
)
def test_wrong_arguments_are_reported(recipes, capsys, arguments, message):
    code, _, err = run(capsys, "compare", *arguments)
    assert code == 1 and message in err


@pytest.mark.parametrize(
    ("field", "message"),
    [("data.train=absent.tsv", "no file 'absent.tsv'"), ("options.truncatoin=true", "'truncation'")],
)
def test_faults_of_the_last_recipe_are_reported_before_the_first_is_run(recipes, capsys, field, message):
    name, _, value = field.partition("=")
    code, _, err = run(capsys, *CALL, "--vary", f"scratch:{name}={value}")
    assert code == 1 and message in err
    assert not Path("both").exists()


def test_values_are_varied_in_all_combinations(recipes, capsys):
    arguments = ("compare", "scratch.toml", "--seeds", "3", "--output-dir=sweep", "--max-steps", "1", "--json")
    varied = ("--vary", "config.num_hidden_layers=1,2", "--vary", "train.learning_rate=1e-3,1e-4")
    code, out, err = run(capsys, *arguments, *varied)
    assert code == 0, err
    found = json.loads(out)["outcomes"]
    assert [one["name"] for one in found] == [
        f"scratch, num_hidden_layers={layers}, learning_rate={rate}" for layers in (1, 2) for rate in ("1e-3", "1e-4")
    ]
    sizes = [one["costs"]["parameters"]["mean"] for one in found]
    assert sizes[0] == sizes[1] < sizes[2] == sizes[3]
    code, _, err = run(capsys, *arguments, "--output-dir=unmade", "--vary", "config.num_attention_heads=1,7")
    assert code == 1
    assert "must be a multiple of num_attention_heads, got 16 and 7" in err
    assert not Path("unmade").exists()  # before the first run, not after it
    code, _, err = run(capsys, *arguments, "--vary", "config.num_hidden_layers")
    assert code == 1
    assert "--vary takes FIELD=A,B,..., got 'config.num_hidden_layers'" in err


def test_a_folder_that_cannot_be_created_is_reported(recipes, capsys):
    Path("file").touch()
    code, _, err = run(capsys, "compare", "tuned.toml", "--seeds", "3", "--output-dir=file/runs")
    assert code == 1
    assert "cannot be a folder: not a directory" in err


def test_one_recipe_is_varied_alone(recipes, capsys):
    arguments = (
        "compare",
        "tuned.toml",
        "scratch.toml",
        "--seeds",
        "3",
        "--output-dir=part",
        "--max-steps",
        "1",
        "--json",
    )
    code, out, err = run(capsys, *arguments, "--vary", "scratch:config.num_hidden_layers=1,2")
    assert code == 0, err
    names = [one["name"] for one in json.loads(out)["outcomes"]]
    assert names == ["tuned", "scratch, num_hidden_layers=1", "scratch, num_hidden_layers=2"]


def test_metrics_by_length_are_plotted_from_short_to_long(tmp_path):
    def outcome(name, *values):
        metrics = dict(zip(("loss", "bleu", "bleu 1-7", "bleu 8-10", "bleu over 10"), (1.0, *values), strict=True))
        result = {"metrics": metrics, **dict.fromkeys(comparing.COSTS, 1)}
        return comparing.Outcome(name, (comparing.Run(0, tmp_path, result),))

    both = comparing.Comparison((outcome("with <attention>", 40, 40, 40, 40), outcome("without", 20, 40, 20, 0)), (0,))
    page = comparison_page(both)
    plot = page.split("<h2>bleu by length of the right answer</h2>")[1]
    assert "<th>bleu 1-7</th>" not in page and "<td>40</td><td>20</td><td>0</td>" in plot.replace(".0000", "")
    assert page.count("by length") == 2 and "1-7 tokens" in plot and "over 10 tokens" in plot
    flat, falling = re.findall(r'<polyline points="(.*?)"', plot)
    heights = [[float(point.split(",")[1]) for point in line.split()] for line in (flat, falling)]
    assert len({*heights[0]}) == 1 and heights[1] == sorted(heights[1]) and heights[1][0] == heights[0][0]
    assert "with &lt;attention&gt;" in page and "<attention>" not in page


def test_the_metric_that_recipes_name_is_the_main_one(tmp_path, capsys):
    from glassformer.cli.verbs.compare import show

    def outcome(name, *values):
        metrics = dict(
            zip(("loss", "bleu", "exact_match", "exact_match 1-7", "exact_match over 7"), values, strict=True)
        )
        return comparing.Outcome(
            name, (comparing.Run(0, tmp_path, {"metrics": metrics, **dict.fromkeys(comparing.COSTS, 1)}),)
        )

    outcomes = (outcome("a", 1.0, 40.0, 0.5, 0.75, 0.25), outcome("b", 1.0, 30.0, 0.75, 1.0, 0.5))
    assert comparing.Comparison(outcomes, (0,)).main_metric == "bleu"
    show(comparing.Comparison(outcomes, (0,), "exact_match"), tmp_path)
    header, _, second, _, title, lengths, *rows, _, _ = capsys.readouterr().out.splitlines()
    assert "exact_match difference" in header and "1-7" not in header and "+0.2500" in second
    assert title == "exact_match by the length of the right answer, in tokens"
    assert lengths.split() == ["recipe", "1-7", "over", "7"] and [row.split() for row in rows] == [
        ["a", "0.7500", "0.2500"],
        ["b", "1.0000", "0.5000"],
    ]


def test_variants_of_one_recipe_are_named_by_their_fields(tmp_path, capsys):
    from glassformer.cli.verbs.compare import show

    def outcome(name, value):
        result = {"metrics": {"loss": 1.0, "bleu": value}, **dict.fromkeys(comparing.COSTS, 1)}
        return comparing.Outcome(name, (comparing.Run(0, tmp_path, result),))

    outcomes = tuple(outcome(f"shapes, layers={i}, rate=<{i}>", float(i)) for i in range(8))
    comparison = comparing.Comparison(outcomes, (0,))
    show(comparison, tmp_path)
    header, first, *_, note = capsys.readouterr().out.splitlines()
    assert header.split()[:4] == ["layers", "rate", "loss", "bleu"] and first.split()[:2] == ["0", "<0>"]
    assert note.startswith("seed 0 alone")
    page = comparison_page(comparison)
    assert "<h1>8 variants of shapes</h1>" in page and "<th>layers</th><th>rate</th>" in page
    assert "layers=7, rate=&lt;7&gt;</text>" in page and "too many for curves" in page and "<7>" not in page
    mixed = comparing.Comparison((outcomes[0], outcome("other", 1.0)), (0, 1))
    assert mixed.headings == ["recipe"] and mixed.label(outcomes[0]) == "shapes, layers=0, rate=<0>"
    assert "against other</h1>" in comparison_page(mixed) and "Seeds 0, 1." in comparison_page(mixed)
