"""A suite: a folder of recipes of several tasks, whose scores are averaged, with a suite.toml beside them.

[scores]               # a recipe by its name -> the metrics whose mean is its score
cola = ["matthews"]
stsb = ["pearson", "spearman"]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError, nearest
from .recipe_text import read_recipe

SUITE_FILE = "suite.toml"


@dataclass(frozen=True)
class Suite:
    """The recipes of a folder and the metrics that count, in the order of suite.toml."""

    folder: Path
    scores: dict[str, tuple[str, ...]]

    @property
    def recipes(self) -> list[Path]:
        return [self.folder / f"{name}.toml" for name in self.scores]


def read_suite(folder: Path) -> Suite:
    """Read the suite.toml of a folder; it must name every recipe there, and no other."""
    path = folder / SUITE_FILE
    if not path.is_file():
        raise InputError(
            f"{folder} is a folder without {SUITE_FILE}, which says what is averaged: under [scores], for each recipe, "
            'its metrics, such as cola = ["matthews"]; recipes of one task are compared by their files'
        )
    values = read_recipe(path)
    scores = values.pop("scores", None)
    if values or not isinstance(scores, Mapping) or not scores:
        raise InputError(f"{path} has the section [scores] and no other, got {', '.join(values) or 'none'}")
    present = {each.stem for each in folder.glob("*.toml")} - {Path(SUITE_FILE).stem}
    for name in scores:
        if name not in present:
            raise InputError(f"{path} names {name}, and there is no {name}.toml beside it{nearest(name, present)}")
    forgotten = sorted(present - {*scores})
    if forgotten:
        raise InputError(f"{path} has no metrics for {', '.join(forgotten)}, whose recipes are beside it")
    return Suite(folder, {name: metric_names(path, name, metrics) for name, metrics in scores.items()})


def metric_names(path: Path, recipe: str, given: Any) -> tuple[str, ...]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f'{path}: {recipe} must be a list of metrics, such as ["accuracy"], got {given!r}')
    return tuple(names)
