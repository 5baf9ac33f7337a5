"""Runs of a suite: the score of each recipe, and the average over all of them, as GLUE reports them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError, nearest
from ..recipes.recipe import Recipe
from ..recipes.suite import SUITE_FILE, Suite
from .compare_runs import Outcome, Spread, compare, write_files


@dataclass(frozen=True)
class SuiteComparison:
    """The outcomes of all recipes of a suite, in one variant or in several."""

    suite: Suite
    variants: tuple[str, ...]  # the settings that are varied, as one text; "" if nothing is
    outcomes: Mapping[tuple[str, str], Outcome]  # by recipe and variant
    seeds: tuple[int, ...]

    def score(self, recipe: str, variant: str) -> Spread:
        """The mean of the metrics of a recipe that count, seed by seed."""
        metrics = self.outcomes[recipe, variant].metrics
        return mean_of([metrics[name] for name in self.suite.scores[recipe]])

    def average(self, variant: str) -> Spread:
        """The mean score of all recipes, seed by seed."""
        return mean_of([self.score(recipe, variant) for recipe in self.suite.scores])

    def difference(self, variant: str) -> Spread:
        """The difference of a variant's average from that of the first, seed by seed."""
        pairs = zip(self.average(variant).values, self.average(self.variants[0]).values, strict=True)
        return Spread(tuple(mine - first for mine, first in pairs))

    def cost(self, variant: str, name: str) -> float:
        """A cost of one seed, of all recipes together."""
        return math.fsum(self.outcomes[recipe, variant].costs[name].mean for recipe in self.suite.scores)

    def to_dict(self) -> dict[str, Any]:
        averages = [
            {
                "variant": variant,
                "average": self.average(variant).to_dict(),
                "difference": self.difference(variant).to_dict(),
                "scores": {
                    recipe: {"metrics": list(metrics), **self.score(recipe, variant).to_dict()}
                    for recipe, metrics in self.suite.scores.items()
                },
            }
            for variant in self.variants
        ]
        outcomes = [outcome.to_dict() for outcome in self.outcomes.values()]
        return {"suite": self.suite.folder.name, "seeds": list(self.seeds), "averages": averages, "outcomes": outcomes}


def mean_of(spreads: Sequence[Spread]) -> Spread:
    """The mean of several numbers, seed by seed.

    >>> mean_of([Spread((1.0, 2.0)), Spread((3.0, 6.0))]).values
    (2.0, 4.0)
    """
    return Spread(
        tuple(math.fsum(values) / len(values) for values in zip(*(each.values for each in spreads), strict=True))
    )


def compare_suite(
    suite: Suite, recipes: Mapping[tuple[str, str], Recipe], seeds: Sequence[int], folder: Path
) -> SuiteComparison:
    """Run the recipes of a suite, given by name and variant, unless they are finished."""
    names = {key: ", ".join(filter(None, key)) for key in recipes}
    found = compare({names[key]: recipe for key, recipe in recipes.items()}, seeds, folder)
    outcomes = dict(zip(recipes, found.outcomes, strict=True))
    for (recipe, _), outcome in outcomes.items():
        for metric in suite.scores[recipe]:
            if metric not in outcome.metrics:
                known = f"it has {', '.join(outcome.metrics)}{nearest(metric, outcome.metrics)}"
                where = suite.folder / SUITE_FILE
                raise InputError(f"{where}: {recipe} has no metric {metric!r}; {known}. Its runs are kept")
    variants = tuple(dict.fromkeys(variant for _, variant in recipes))
    return SuiteComparison(suite, variants, outcomes, tuple(seeds))


def write_suite(comparison: SuiteComparison, folder: Path) -> None:
    """Write comparison.json and comparison.html."""
    from .suite_page import suite_page

    write_files(folder, comparison.to_dict(), suite_page(comparison))
