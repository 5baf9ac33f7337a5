"""`glass prune`: finds the heads that a model needs least, and removes them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..output.speed_comparison import SpeedComparison, compare_speed
from ..output.terminal import print_heading, print_json, print_table
from ..rows.input_rows import RowFormat
from .predict import read_options

if TYPE_CHECKING:
    from ...explain.analysis.head_importance import Head, Point
    from ...tasks.task import Task

TIMED_ROWS = 200  # by which speed is measured


def prune(
    task: Positional[Annotated[str, arg(metavar="TASK")]],
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    /,
    *,
    data: Annotated[str, arg(metavar="FILE")],
    eval: Annotated[str, arg(metavar="FILE")] = "",
    output: Annotated[Path | None, arg(metavar="FOLDER", aliases=["-o"])] = None,
    share: Annotated[float, arg(metavar="X")] = 0.2,
    method: Literal["gradient", "ablation"] = "gradient",
    rows: Annotated[int, arg(metavar="N")] = 500,
    curve: bool = False,
    option: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=VALUE")]] = (),
    row_format: Annotated[RowFormat, arg(name="")] = RowFormat(),  # noqa: B008
    json: bool = False,
) -> int:
    """Find the attention heads that a model needs least for a task, and remove them.

    Importance is measured on your own rows, and the effect on the rows of --eval: the rows that chose the heads
    flatter the choice. Speed is measured on both models in alternating rounds, and a difference that may be noise is
    called so. Without --output nothing is written: the tables show what would be lost.

    With --output the heads are removed from the weights, and config.json lists them under pruned_heads. Who can read
    the folder: Glassformer, in all verbs and classes (`glass train --model` trains it further); transformers 4, where
    it has the architecture. transformers 5 and newer have no pruned heads: they refuse the folder because of the
    shapes of its weights, and with ignore_mismatched_sizes=True would fill in random ones. So does whatever loads
    models through them, such as sentence-transformers.

    examples:
      glass prune text-classification ./sst2 --data train.tsv --eval dev.tsv --curve
      glass prune text-classification ./sst2 --data train.tsv --eval dev.tsv --share 0.3 -o ./sst2-small
      glass prune sentence-similarity ./all-MiniLM-L6-v2 --data stsb.tsv --option full_score=5 --method ablation --json

    Args:
        task: A task such as text-classification.
        model: A folder or a hub name.
        data: Rows with answers, on which importance is measured: txt, csv, tsv, jsonl, json, conll or parquet.
        eval: Other rows with answers, on which the curve and the table are measured; those of --data if not given.
        output: The folder for the smaller model.
        share: The share of all heads to remove.
        method: How importance is measured: by the gradient, or by leaving out each head in turn, which takes longer.
        rows: How many of the rows of --data to use.
        curve: Also report the metrics without 0, 10, ... 50 percent of the heads.
        option: An option of the task, as [options] of a recipe has it. Can be given several times.
        json: Print JSON.
    """
    if not 0 <= share < 1:
        raise InputError(f"--share must be at least 0 and below 1, got {share}")
    if rows < 1:
        raise InputError(f"--rows must be 1 or more, got {rows}")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"--output {output} exists and is not empty")
    from ...explain.analysis import head_importance as importance
    from ...tasks.task_registry import task_class
    from ...train.checkpoint import write_model

    kind = task_class(task)
    read, *others = [row_format.rows(file, kind.columns.all) for file in (data, eval) if file]
    unpruned = kind.from_pretrained(model, **read_options(task, option))
    unpruned.refuse_untrained()
    pruned = kind.from_pretrained(model, **read_options(task, option))
    measured_on = list(islice(read, rows))
    evaluation_rows = list(others[0]) if others else measured_on
    if not evaluation_rows:
        raise InputError(f"--eval {eval} has no rows")
    found = importance.head_importance(pruned, measured_on, method, progress=True)
    chosen = importance.least_important(found, round(share * len(found)))
    points = importance.ablation_curve(pruned, evaluation_rows, found) if curve else []
    importance.prune(pruned.model, chosen)
    results = evaluate_models({"before": unpruned, "after": pruned}, evaluation_rows)
    speed = time_models((unpruned, pruned), evaluation_rows[:TIMED_ROWS])
    for result, rate in zip(results.values(), speed.median_rates(), strict=True):
        result["rows_per_second"] = rate
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_model(output, pruned)
    if json:
        values = {
            "method": method,
            "rows": len(measured_on),
            "eval_rows": len(evaluation_rows),
            "importance": [[*head, value] for head, value in found.items()],
            "curve": [{"without": p.without, "share": p.share, **p.measures} for p in points],
            "cut": [list(head) for head in chosen],
            **results,
            "speed": speed.to_dict(),
            "output": None if output is None else str(output),
        }
        print_json(values)
        return 0
    show_importance(found, chosen)
    if points:
        show_curve(points)
    show_change(results)
    print(f"without them: {speed}" if chosen else str(speed))
    if output is not None:
        print(f"wrote {output}")
    if not eval:
        print("measured on the rows that chose the heads; --eval FILE measures on others")
    return 0


def evaluate_models(tasks: dict[str, Task], rows: list[Any]) -> dict[str, dict[str, float]]:
    """Size, loss and metrics."""
    from ...train.evaluation import evaluate

    found = {}
    for name, task in tasks.items():
        metrics = {key: value for key, value in evaluate(task, rows).items() if key != "rows"}
        found[name] = {"parameters": task.model.num_parameters(), **metrics}
    return found


def time_models(tasks: Sequence[Task], rows: Sequence[Any]) -> SpeedComparison:
    """How many rows each of two tasks answers in a second."""
    from ...tasks.inference import answers

    def answer_all(task: Task) -> None:
        for _ in answers(task, rows):
            pass

    first, second = (functools.partial(answer_all, task) for task in tasks)
    return compare_speed(first, second, work=len(rows))


def show_importance(found: dict[Head, float], chosen: list[Head]) -> None:
    """A row for each attention, a column for each head by its number; heads that were pruned earlier are left out."""
    print_heading("importance of heads, the layers from top to bottom")
    columns = range(max(head.head for head in found) + 1)
    by_layer: dict[tuple[int, str], dict[int, str]] = {}
    for head, value in found.items():
        mark = "*" if head in chosen else ""
        by_layer.setdefault((head.layer, head.kind), {})[head.head] = f"{value:.2e}{mark}"
    rows = [
        (layer if kind == "attention" else f"{layer} cross", *(cells.get(number, "") for number in columns))
        for (layer, kind), cells in by_layer.items()
    ]
    print_table(("layer", *map(str, columns)), rows, right=range(1, len(columns) + 1))
    print(f"* the {len(chosen)} of {len(found)} heads that are needed least")


def show_curve(points: list[Point]) -> None:
    print_heading("without the least important heads")
    names = [name for name in points[0].measures if name != "rows"]
    cells = [(p.without, f"{p.share:.0%}", *(f"{p.measures[name]:.4f}" for name in names)) for p in points]
    print_table(("heads", "share", *names), cells, right=range(len(names) + 2))


def show_change(results: dict[str, dict[str, float]]) -> None:
    print_heading("before and after")
    names = list(results["before"])
    rows = [(when, *(format_value(name, values[name]) for name in names)) for when, values in results.items()]
    print_table(("", *names), rows, right=range(1, len(names) + 1))


def format_value(name: str, value: float) -> str:
    return f"{value:,}" if name == "parameters" else f"{value:,.1f}" if name == "rows_per_second" else f"{value:.4f}"
