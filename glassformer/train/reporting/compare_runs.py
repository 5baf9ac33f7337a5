"""Comparison of recipes: each is run with several seeds, and all numbers are reported with their spread.

    FOLDER/
      NAME/seed-0/       a run like any other, with the recipe.toml it was started from
      comparison.json, comparison.html

Finished runs are reused; an interrupted one is resumed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...checkpoints.files import make_folder, read_json, write_atomically
from ...errors import GlassformerError, InputError
from ..recipes.build_trainer import build_trainer, check_files, check_recipe
from ..recipes.recipe import Recipe, make_recipe
from ..recipes.recipe_text import as_toml, read_recipe
from ..result import RESULT
from .run_log import LOG, read_log

RECIPE_FILE = "recipe.toml"
LENGTH_METRIC = re.compile(r"(.+) (\d+-\d+|over \d+)")  # the name of a metric for texts of certain lengths
COSTS = ("seconds", "tokens", "step", "parameters", "trained_parameters")


@dataclass(frozen=True)
class Spread:
    """A number's values in several runs."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values)

    @property
    def deviation(self) -> float | None:
        """The standard deviation between seeds, None for one run.

        >>> Spread((1.0, 2.0, 3.0)).deviation
        1.0
        """
        if len(self.values) < 2:
            return None
        return math.sqrt(math.fsum((value - self.mean) ** 2 for value in self.values) / (len(self.values) - 1))

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "deviation": self.deviation, "values": list(self.values)}


@dataclass(frozen=True)
class Run:
    """A finished run: one recipe with one seed."""

    seed: int
    folder: Path
    result: dict[str, Any]  # the content of its result.json

    @property
    def lines(self) -> list[dict[str, Any]]:
        path = self.folder / LOG
        return read_log(path) if path.exists() else []


@dataclass(frozen=True)
class Outcome:
    """All runs of one recipe."""

    name: str
    runs: tuple[Run, ...]

    @property
    def metrics(self) -> dict[str, Spread]:
        """The evaluation of the trained models."""
        names = [name for name in self.runs[0].result["metrics"] if name != "rows"]
        return {name: Spread(tuple(run.result["metrics"][name] for run in self.runs)) for name in names}

    @property
    def costs(self) -> dict[str, Spread]:
        return {name: Spread(tuple(run.result[name] for run in self.runs)) for name in COSTS}

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "metrics": {name: spread.to_dict() for name, spread in self.metrics.items()},
            "costs": {name: spread.to_dict() for name, spread in self.costs.items()},
            "runs": [{"seed": run.seed, "folder": str(run.folder), **run.result} for run in self.runs],
        }


@dataclass(frozen=True)
class Comparison:
    """The outcomes of all recipes, in order; the first is the baseline that others are compared with."""

    outcomes: tuple[Outcome, ...]
    seeds: tuple[int, ...]
    chosen: str | None = None  # the metric that selects the best model, if all recipes name the same

    @property
    def metrics(self) -> list[str]:
        """The metrics that all recipes share."""
        shared = [outcome.metrics.keys() for outcome in self.outcomes]
        return [name for name in shared[0] if all(name in each for each in shared)]

    @property
    def headings(self) -> list[str]:
        """What distinguishes recipes: the fields that differ between variants of one recipe, else their names."""
        first, *others = ([part.partition("=")[0] for part in outcome.name.split(", ")] for outcome in self.outcomes)
        return first[1:] if others and len(first) > 1 and all(each == first for each in others) else ["recipe"]

    def cells(self, outcome: Outcome) -> tuple[str, ...]:
        """A recipe's values under these headings."""
        if self.headings == ["recipe"]:
            return (outcome.name,)
        return tuple(part.partition("=")[2] for part in outcome.name.split(", ")[1:])

    def label(self, outcome: Outcome) -> str:
        """The same in one line."""
        cells = self.cells(outcome)
        if self.headings == ["recipe"]:
            return cells[0]
        return ", ".join(map("=".join, zip(self.headings, cells, strict=True)))

    @property
    def overall_metrics(self) -> list[str]:
        """The metrics of all rows."""
        return [name for name in self.metrics if not LENGTH_METRIC.fullmatch(name)]

    @property
    def by_length(self) -> dict[str, list[str]]:
        """The metrics by length of the text: a metric -> its ranges of lengths, from short to long."""
        differences: dict[str, list[str]] = {}
        for match in filter(None, map(LENGTH_METRIC.fullmatch, self.metrics)):
            differences.setdefault(match[1], []).append(match[2])
        return differences

    @property
    def main_metric(self) -> str:
        if self.chosen in self.metrics:
            return self.chosen
        return next((name for name in self.metrics if name != "loss"), self.metrics[0])

    def difference(self, outcome: Outcome, metric: str) -> Spread:
        """The difference of a recipe from the first one, seed by seed."""
        values, baseline = outcome.metrics[metric].values, self.outcomes[0].metrics[metric].values
        return Spread(tuple(a - b for a, b in zip(values, baseline, strict=True)))

    def to_dict(self) -> dict[str, Any]:
        listed = [
            {
                **outcome.to_dict(),
                "difference": {name: self.difference(outcome, name).to_dict() for name in self.metrics},
            }
            for outcome in self.outcomes
        ]
        return {"seeds": list(self.seeds), "outcomes": listed}


class Stopped(Exception):
    """A signal ended a run; the comparison can be resumed later."""


def compare(recipes: Mapping[str, Recipe], seeds: Sequence[int], folder: Path) -> Comparison:
    """Run every recipe with every seed, unless that run is finished already."""
    if not recipes or not seeds:
        raise InputError("a comparison needs at least one recipe and one seed")
    for name, recipe in recipes.items():
        if not recipe.data.has_eval_rows:
            raise InputError(f"{name} has no rows to compare by: give data.eval, data.eval_fraction or data.eval_tail")
    planned = list(plan(recipes, seeds, folder))
    for recipe in planned:  # before hours of work
        if not is_done(recipe):
            check_recipe(recipe)
            check_files(recipe)
        refuse_other_recipe(recipe)
    done = [run_recipe(recipe) for recipe in planned]
    each = len(seeds)
    outcomes = [Outcome(name, tuple(done[i * each : (i + 1) * each])) for i, name in enumerate(recipes)]
    chosen = {recipe.train.metric_for_best_model for recipe in recipes.values()}
    return Comparison(tuple(outcomes), tuple(seeds), chosen.pop() if len(chosen) == 1 else None)


def plan(recipes: Mapping[str, Recipe], seeds: Sequence[int], folder: Path) -> Iterator[Recipe]:
    """A recipe for each run of a comparison."""
    for name, recipe in recipes.items():
        for seed in seeds:
            yield recipe.in_folder(folder / name / f"seed-{seed}", seed=seed)


def recipe_with_defaults(path: Path) -> str:
    """The recipe that a run was started from, with the defaults of fields that were added since."""
    try:
        return as_toml(make_recipe(read_recipe(path), str(path)))
    except GlassformerError:
        return path.read_text(encoding="utf-8")


def refuse_other_recipe(recipe: Recipe) -> None:
    """Raise if the folder holds a run of another recipe."""
    path = Path(recipe.train.output_dir) / RECIPE_FILE
    if not path.exists():
        return
    before, now = recipe_with_defaults(path).splitlines(), as_toml(recipe).splitlines()
    changed = [line for line in now if line not in before] or [line for line in before if line not in now]
    if changed:
        raise InputError(
            f"{path.parent} holds a run of another recipe, which did not say {', '.join(changed[:4])}; "
            "remove that folder, or name another output_dir"
        )


def is_done(recipe: Recipe) -> bool:
    """Whether a run is finished."""
    return (Path(recipe.train.output_dir) / RESULT).exists()


def run_recipe(recipe: Recipe) -> Run:
    """The finished run of a recipe, trained now unless it was before."""
    folder = Path(recipe.train.output_dir)
    if not is_done(recipe):
        trainer = build_trainer(recipe)
        if trainer.process_group.is_main:
            make_folder(folder)
            write_atomically(folder / RECIPE_FILE, as_toml(recipe))
        result = trainer.train(resume=True)
        if result.stopped_by not in (None, "early stopping"):
            raise Stopped(result.stopped_by)
    return Run(recipe.train.seed, folder, read_json(folder / RESULT))


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write comparison.json and comparison.html."""
    from .run_comparison_page import comparison_page

    write_files(folder, comparison.to_dict(), comparison_page(comparison))


def write_files(folder: Path, values: dict[str, Any], page: str) -> None:
    write_atomically(folder / "comparison.json", json.dumps(values, indent=2) + "\n")
    write_atomically(folder / "comparison.html", page)
