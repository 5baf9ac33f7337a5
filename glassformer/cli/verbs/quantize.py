"""`glass quantize`: writes a model in 8 bits, and measures what that changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..output.speed_comparison import SpeedComparison
from ..output.terminal import counted, print_heading, print_json, print_table
from ..rows.input_rows import RowFormat
from .predict import read_options
from .prune import TIMED_ROWS, show_change, time_models

if TYPE_CHECKING:
    from ...tasks.task import Task
    from ...train.evaluation import Evaluation

CALIBRATION_TOKENS = 1024  # of a batch


def quantize(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    /,
    *,
    output: Annotated[Path | None, arg(metavar="FOLDER", aliases=["-o"])] = None,
    task: Annotated[str, arg(metavar="TASK")] = "",
    calibrate: Annotated[str, arg(metavar="FILE")] = "",
    check: Annotated[str, arg(metavar="FILE")] = "",
    rows: Annotated[int, arg(metavar="N")] = 200,
    dtype: Literal["int8", "int4"] = "int8",
    option: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=VALUE")]] = (),
    row_format: Annotated[RowFormat, arg(name="")] = RowFormat(),  # noqa: B008
    json: bool = False,
) -> int:
    """Write a model in 8 bits: a quarter of the memory, and two to three times as fast on a CPU.

    Weights are rounded output by output, and inputs row by row while the model runs, so that an answer never depends on
    its batch. With --calibrate, layers whose inputs have outliers on your rows are smoothed, and those that would lose
    too much stay in float. With --check, the task's metrics, the agreement of answers and the speed are measured before
    and after on your rows. A language model is best checked as text-generation.

    Glassformer reads the folder in all verbs and classes; it can be neither trained nor pruned. Other programs refuse
    it because of the quantization_config in its config.json.

    examples:
      glass quantize ./sst2 -o ./sst2-int8
      glass quantize ./sst2 -o ./sst2-int8 --calibrate train.tsv --check dev.tsv
      glass quantize ./all-MiniLM-L6-v2 -o ./minilm-int8 --check stsb.tsv --option full_score=5

    Args:
        model: A folder or a hub name.
        output: The folder for the model in 8 bits; without it, nothing is written.
        task: The task of --check and --calibrate; that of the model if not given.
        calibrate: Rows of the kind that the model will read, on which layers are observed.
        check: Rows with answers, on which the model is measured before and after.
        rows: How many of the rows of --calibrate to use.
        dtype: int8, or int4 for generating text one prompt at a time, which reads half as much and loses more.
        option: An option of the task, as [options] of a recipe has it. Can be given several times.
        json: Print JSON.
    """
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InputError(f"--output {output} exists and is not empty")
    if output is None and not check:
        raise InputError("give --output for the model in 8 bits, or --check to measure what it would change")
    if rows < 1:
        raise InputError(f"--rows must be 1 or more, got {rows}")
    from ...nn.quantize import quantize as quantize_model
    from ...tasks.task_registry import task_class
    from ...train.checkpoint import write_model

    kind = task_class(task or task_of(model))
    options = read_options(kind.name, option)
    before, after = (kind.from_pretrained(model, **options) for _ in range(2))
    seen, measured_on = (list(row_format.rows(file, kind.columns.all)) if file else [] for file in (calibrate, check))
    if check and not measured_on:
        raise InputError(f"--check {check} has no rows")
    for each in after.trained_models:
        quantize_model(each, dtype, calibrate=runs_of(after, seen[:rows]) if calibrate else None)
    summary = describe(after)
    results: dict[str, dict[str, float]] = {}
    speed = None
    if check:
        before.refuse_untrained()
        evaluations = [evaluate(each, measured_on) for each in (before, after)]
        summary["agreement"] = agreement(*(each.predictions for each in evaluations))
        speed = time_models((before, after), measured_on[:TIMED_ROWS])
        summary["speed"] = speed.to_dict()
        for name, each, rate in zip(("before", "after"), evaluations, speed.median_rates(), strict=True):
            figures = {key: value for key, value in each.metrics.items() if key != "rows"}
            results[name] = {**figures, "rows_per_second": rate}
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        write_model(output, after)
    if json:
        print_json({**summary, **results, "output": None if output is None else str(output)})
        return 0
    show(summary, results, speed)
    if output is not None:
        print(f"wrote {output}")
    return 0


def task_of(model: str) -> str:
    """The task of a folder; feature extraction for a body without a head."""
    from ...tasks.pipeline import task_of_folder

    return task_of_folder(model, {})


def runs_of(task: Task, rows: Sequence[Any]) -> Iterator[Any]:
    """One call of the model for each batch of rows, as the task answers them."""
    from ...tasks.inference import answers

    size = 16
    for start in range(0, len(rows), size):
        yield lambda part=rows[start : start + size]: list(answers(task, part, budget=CALIBRATION_TOKENS))


def describe(task: Task) -> dict[str, Any]:
    """How many layers are in 8 bits, and which are not."""
    from ...nn.linear import can_be_reduced
    from ...nn.quantize import Int8Linear

    modules = [each for model in task.trained_models for each in model.named_modules()]
    small = [module for _, module in modules if isinstance(module, Int8Linear)]
    return {
        "layers": len(small),
        "smoothed": sum(module.input_scale is not None for module in small),
        "in_float": [name for name, module in modules if can_be_reduced(module)],
    }


def evaluate(task: Task, rows: Sequence[Any]) -> Evaluation:
    """Metrics and predictions, from one run of the model."""
    from ...train.distributed import SINGLE_PROCESS
    from ...train.evaluation import evaluation_batches, run_evaluation

    return run_evaluation(task, rows, evaluation_batches(task, rows, 4096, None), SINGLE_PROCESS)


def agreement(first: Sequence[Any], second: Sequence[Any]) -> float | None:
    """The share of predictions that are equal; of numbers, their correlation; None for a task that predicts nothing.

    >>> agreement(["good", "bad", "bad", "good"], ["good", "bad", "good", "good"]), agreement([1.0, 2.5], [1.1, 2.4])
    (0.75, 1.0)
    """
    import torch

    if not first:
        return None
    if all(isinstance(each, float) for each in first):
        return round(float(torch.corrcoef(torch.tensor([first, second], dtype=torch.float64))[0, 1]), 9)
    return sum(a == b for a, b in zip(first, second, strict=True)) / len(first)


def show(summary: dict[str, Any], results: dict[str, dict[str, float]], speed: SpeedComparison | None) -> None:
    kept = summary["in_float"]
    print(f"{counted(summary['layers'], 'quantized layer')}, {summary['smoothed']} of them smoothed")
    if kept:
        print_heading(f"{counted(len(kept), 'layer')} in float: they would lose too much on these rows")
        print_table(("layer",), [(name,) for name in kept])
    if results:
        show_change(results)
        if summary["agreement"] is not None:
            print(f"agreement of the answers: {summary['agreement']:.4f}")
        print(f"quantized: {speed}")
