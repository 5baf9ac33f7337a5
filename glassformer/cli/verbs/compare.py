"""`glass compare`: several recipes, several seeds, one table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..output.terminal import print_json, print_table
from .train import STOPPED, options_as_fields

if TYPE_CHECKING:
    from ...train.recipes.recipe import Recipe
    from ...train.recipes.suite import Suite
    from ...train.reporting.compare_suite import SuiteComparison

OWN_OPTIONS = ("set", "vary", "seeds", "output-dir", "json", "help")


def compare(
    recipes: Positional[Annotated[tuple[str, ...], arg(metavar="RECIPE.toml|FOLDER")]],
    /,
    *,
    seeds: Annotated[tuple[int, ...], arg(metavar="N")] = (0, 1, 2),
    output_dir: Annotated[str, arg(metavar="FOLDER")] = "runs/comparison",
    vary: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="FIELD=A,B,...")]] = (),
    set: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="FIELD=VALUE")]] = (),
    json: bool = False,
) -> int:
    """Run recipes with several seeds and report means, deviations, costs and curves; it can be stopped and resumed.

    Every field of a recipe is an option, for all recipes at once: --model, --max-steps, --data.limit, ... The same
    numbers are written to comparison.json, and with plots to comparison.html.

    A folder is a suite: recipes of several tasks, of whose scores the average is reported. Its suite.toml names the
    metrics that count, as in recipes/glue.

    examples:
      glass compare recipes/sst2.toml recipes/sst2-scratch.toml --seeds 0 1 2 --output-dir runs/sst2
      glass compare recipes/shapes.toml --vary config.num_hidden_layers=1,2 --vary config.num_attention_heads=1,4,8
      glass compare recipes/bottleneck.toml recipes/shapes.toml --vary bottleneck:config.attention=without,bahdanau
      glass compare recipes/glue --model ./all-MiniLM-L6-v2 --vary from_scratch=false,true

    Args:
        recipes: TOML files; each is called by its name without the ending. The first is the baseline. Or one folder.
        seeds: Each recipe is run once with every one of these.
        output_dir: Where the runs are kept. Finished ones are not run again.
        vary: Run every recipe with each of these values; of several such fields, with each combination. NAME:FIELD=A,B
            is for the recipe NAME alone.
        set: A field for all recipes; --FIELD=VALUE is the same.
        json: Print the comparison as JSON.
    """
    from ...train.distributed import is_main_process
    from ...train.recipes.recipe import make_recipe
    from ...train.recipes.recipe_fields import set_fields
    from ...train.recipes.recipe_text import read_recipe
    from ...train.reporting.compare_runs import Stopped, write_comparison
    from ...train.reporting.compare_runs import compare as compare_runs
    from ...train.reporting.compare_suite import compare_suite, write_suite

    suite = suite_of(recipes, vary)
    if suite is not None:
        recipes = tuple(map(str, suite.recipes))
    names = [Path(each).stem for each in recipes]
    if len({*names}) < len(names):
        raise InputError(f"recipes are distinguished by their file names, got {', '.join(names)}")
    if len({*seeds}) < len(seeds):
        raise InputError(f"every seed is used once, got {', '.join(map(str, seeds))}")
    if any(re.split("[.:]", given.partition("=")[0])[-1] == "seed" for given in (*set, *vary)):
        raise InputError("every recipe is run once with each of --seeds; give these, and no seed")
    read: dict[tuple[str, str], Recipe] = {}  # by recipe and variant
    for name, path in zip(names, recipes, strict=True):
        for variant in variants(fields_to_vary(name, vary, names)):
            values = read_recipe(Path(path))
            set_fields(values, [*set, *variant, f"output_dir={output_dir}"])
            read[name, ", ".join(map(short_setting, variant))] = make_recipe(values, path)
    folder = Path(output_dir)
    try:
        if suite is not None:
            found = compare_suite(suite, read, seeds, folder)
        else:
            comparison = compare_runs({", ".join(filter(None, key)): each for key, each in read.items()}, seeds, folder)
    except Stopped as stop:
        print(f"stopped by {stop}; the same command continues")
        return STOPPED.get(str(stop), 1)
    if not is_main_process():
        return 0
    if suite is not None:
        write_suite(found, folder)
        print_json(found.to_dict()) if json else show_suite(found, folder)
    else:
        write_comparison(comparison, folder)
        print_json(comparison.to_dict()) if json else show(comparison, folder)
    return 0


def suite_of(given: Sequence[str], vary: Sequence[str]) -> Suite | None:
    """The suite in a folder; None if files are given."""
    from ...train.recipes.suite import read_suite

    if not any(Path(each).is_dir() for each in given):
        return None
    if len(given) > 1:
        raise InputError(f"a folder of recipes is compared alone, with --vary for its variants; got {', '.join(given)}")
    if any(":" in setting.partition("=")[0] for setting in vary):
        raise InputError("every recipe of a folder has the same variants, so that averages can be compared; got NAME:")
    return read_suite(Path(given[0]))


def fields_to_vary(recipe: str, vary: Sequence[str], recipes: Sequence[str]) -> list[str]:
    """The fields that are varied in one of the recipes.

    >>> fields_to_vary("a", ["x=1,2", "a:y=1,2", "b:z=1,2"], ["a", "b"])
    ['x=1,2', 'y=1,2']
    """
    found = []
    for setting in vary:
        target, equals, values = setting.partition("=")
        owner, _, field = target.rpartition(":")
        if owner and owner not in recipes:
            raise InputError(f"--vary {setting}: there is no recipe {owner!r} among {', '.join(recipes)}")
        if owner in ("", recipe):
            found.append(field + equals + values)
    return found


def variants(vary: Sequence[str]) -> list[tuple[str, ...]]:
    """Every combination of the values that fields are given, each as FIELD=VALUE.

    >>> variants(["config.a=1,2", "b=x"])
    [('config.a=1', 'b=x'), ('config.a=2', 'b=x')]
    """
    fields = []
    for setting in vary:
        name, equals, values = setting.partition("=")
        if not name or not equals or not all(values.split(",")):
            raise InputError(f"--vary takes FIELD=A,B,..., got {setting!r}")
        fields.append([f"{name}={value}" for value in values.split(",")])
    return list(itertools.product(*fields))


def short_setting(setting: str) -> str:
    """A setting as part of a name, which is a folder's too.

    >>> short_setting("config.num_hidden_layers=2"), short_setting("learning_rate=0.1")
    ('num_hidden_layers=2', 'learning_rate=0.1')
    """
    field, _, value = setting.partition("=")
    return f"{field.rpartition('.')[2]}={value}".replace("/", "-")


def show(comparison, folder: Path) -> None:
    from ...train.reporting.run_comparison_page import format_difference, format_spread, length_rows
    from ...train.reporting.run_log import duration

    metrics, main = comparison.overall_metrics, comparison.main_metric
    header = (*comparison.headings, *metrics, f"{main} difference", "time", "tokens", "trained parameters")
    rows = []
    for outcome in comparison.outcomes:
        costs = {name: spread.mean for name, spread in outcome.costs.items()}
        is_first = outcome is comparison.outcomes[0]
        rows.append(
            (
                *comparison.cells(outcome),
                *(format_spread(outcome.metrics[name]) for name in metrics),
                "" if is_first else format_difference(comparison.difference(outcome, main)),
                duration(costs["seconds"]),
                f"{costs['tokens']:,.0f}",
                f"{costs['trained_parameters']:,.0f}",
            )
        )
    is_varied = comparison.headings != ["recipe"]
    print_table(header, rows, right=range(0 if is_varied else 1, len(header)))
    if main in comparison.by_length:
        lengths = comparison.by_length[main]
        print(f"\n{main} by the length of the right answer, in tokens")
        header = (*comparison.headings, *lengths)
        print_table(header, length_rows(comparison, main), right=range(0 if is_varied else 1, len(header)))
        print()
    print(closing_line(comparison.seeds, folder))


def closing_line(seeds: Sequence[int], folder: Path) -> str:
    listed = ", ".join(map(str, seeds))
    summary = f"seeds {listed}; mean ± standard deviation" if len(seeds) > 1 else f"seed {listed} alone"
    return f"{summary}; plots are in {folder / 'comparison.html'}"


def show_suite(comparison: SuiteComparison, folder: Path) -> None:
    from ...train.reporting.run_log import duration
    from ...train.reporting.suite_page import score_header, score_rows

    header = score_header(comparison)
    times = (duration(comparison.cost(variant, "seconds")) for variant in comparison.variants)
    print_table(header, [*score_rows(comparison), ("time of a seed", "", *times)], right=range(2, len(header)))
    print(closing_line(comparison.seeds, folder))


def prepare(arguments: Sequence[str]) -> list[str]:
    return options_as_fields(arguments, OWN_OPTIONS)


compare.prepare = prepare  # type: ignore[attr-defined]
