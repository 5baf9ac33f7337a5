"""Evaluation: a task's losses and metrics over rows, by one process or by several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..errors import GlassformerError
from ..models.base.evaluation_mode import evaluation_mode
from ..tasks.batch import Batch
from ..tasks.inference import add_location, compute_answers, pending_row, runs_in_parallel
from ..tasks.parallel import parallel_map
from ..tasks.task import Task
from ..text.base.encoding_options import check_whole_number
from .batches import Batches
from .distributed import SINGLE_PROCESS, ProcessGroup


def evaluate(
    task: Task,
    rows: Sequence[Any],
    *,
    tokens_per_batch: int = 4096,
    batch_size: int | None = None,
    process_group: ProcessGroup = SINGLE_PROCESS,
) -> dict[str, float]:
    """The mean loss over all targets, the task's metrics of the predictions, and the number of `rows`.

    Each rank evaluates its share of the batches; metrics are computed from all predictions together, so that they equal
    those of a single process. Metrics that follow from sums over all batches, such as `perplexity`, are included.
    """
    check_whole_number("tokens_per_batch", tokens_per_batch, 1)
    rows = list(rows)
    return evaluate_batches(task, rows, evaluation_batches(task, rows, tokens_per_batch, batch_size), process_group)


def evaluation_batches(task: Task, rows: Sequence[Any], max_tokens: int, max_rows: int | None) -> Batches:
    """Rows in batches, always the same ones; raises if a row has no targets."""
    batches = Batches(task, rows, max_tokens=max_tokens, max_rows=max_rows, training=False)
    for number, row in enumerate(rows if task.metric_names else ()):
        reference(task, row, number)
    return batches


def evaluate_batches(task: Task, rows: Sequence[Any], batches: Batches, group: ProcessGroup) -> dict[str, float]:
    """`evaluate` for rows that are in batches already."""
    return run_evaluation(task, rows, batches, group).metrics


@dataclass(frozen=True)
class Evaluation:
    """What an evaluation computed, all rows in their order; nothing but metrics for a task without predictions."""

    metrics: dict[str, float]
    predictions: list[Any] = field(default_factory=list)
    references: list[Any] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)  # of each row, if they were requested


def run_evaluation(
    task: Task, rows: Sequence[Any], batches: Batches, group: ProcessGroup, row_losses: bool = False
) -> Evaluation:
    """Metrics, predictions and losses. Losses and predictions come from the same run of the model."""
    predicts = bool(task.metric_names)
    results = run_batches(
        task, rows, batches, group, predicts=predicts and not task.generates, row_losses=predicts and row_losses
    )
    means = {name: total / count if count else math.nan for name, (total, count) in results.sums.items()}
    metrics = {"loss": math.fsum(means[name] for name in task.objective_names)}
    metrics |= task.mean_metrics(means) if results.sums[task.objective_names[0]][1] else {}
    if not predicts:
        return Evaluation({**metrics, "rows": len(rows)})
    predicted = generate_predictions(task, rows, batches, group) if task.generates else results.predictions
    predictions, losses = (in_order(group.gather(each), len(rows)) for each in (predicted, results.losses))
    references = [reference(task, row, number) for number, row in enumerate(rows)]
    metrics |= {**task.compute_metrics(predictions, references), "rows": len(rows)}
    return Evaluation(metrics, predictions, references, losses)


def in_order(by_rank: Sequence[dict[int, Any]], count: int) -> list[Any]:
    """The values of all ranks in the order of their rows; none if there are none."""
    everywhere = {number: value for each in by_rank for number, value in each.items()}
    return [everywhere[number] for number in range(count)] if everywhere else []


def reference(task: Task, row: Any, number: int) -> Any:
    try:
        return task.reference(task.read(row))
    except GlassformerError as error:
        raise add_location(error, row, number) from None


def summed_loss(task: Task, rows: Sequence[Any], max_tokens: int, max_rows: int | None) -> dict[str, float]:
    """The first objective of a task over all rows: its sum "loss" and its count "targets"."""
    batches = Batches(task, rows, max_tokens=max_tokens, max_rows=max_rows, training=False)
    total, count = run_batches(task, rows, batches, SINGLE_PROCESS, predicts=False).sums[task.objective_names[0]]
    return {"loss": total, "targets": count}


@dataclass
class BatchResults:
    """What all batches gave: the sums of all ranks, and the predictions and losses of this rank's rows."""

    sums: dict[str, tuple[float, int]] = field(default_factory=dict)
    predictions: dict[int, Any] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)


def run_batches(
    task: Task, rows: Sequence[Any], batches: Batches, group: ProcessGroup, *, predicts: bool, row_losses: bool = False
) -> BatchResults:
    """Run the model over all batches."""
    results = BatchResults()

    def run(numbers: list[int]) -> BatchResults:
        batch = batches.collate(numbers).to(task.model.device)
        with torch.inference_mode():
            outputs = task.checked_outputs(batch)
            sums = task.evaluation_sums(outputs, batch)
            split = task.split(outputs, batch) if predicts else []
            losses = task.row_losses(outputs, batch) if row_losses else {}
        return BatchResults(sums, predict_rows(task, rows, numbers, batch, split) if predicts else {}, losses)

    mine = [numbers for step in batches.plan(0)[group.rank :: group.size] for numbers in step]
    in_parallel = runs_in_parallel(task, sum(batches.lengths))
    task.forget(training=False)
    with evaluation_mode(task.trainable):
        for found in parallel_map(run, mine) if in_parallel else map(run, mine):
            results.predictions |= found.predictions
            results.losses |= found.losses
            for name, (total, count) in found.sums.items():
                before = results.sums.get(name, (0.0, 0))
                results.sums[name] = (before[0] + total, before[1] + count)
    task.forget(training=False)
    gathered = group.gather(results.sums)
    names = dict.fromkeys(name for each in gathered for name in each)
    by_rank = {name: [each.get(name, (0.0, 0)) for each in gathered] for name in names}
    results.sums = {name: (sum(t for t, _ in each), sum(c for _, c in each)) for name, each in by_rank.items()}
    return results


def predict_rows(
    task: Task, rows: Sequence[Any], numbers: Sequence[int], batch: Batch, outputs: Sequence[Any]
) -> dict[int, Any]:
    """The prediction for each row of a batch, by its number."""
    by_row: dict[int, list[int]] = {}
    for index, example in enumerate(batch.examples):
        by_row.setdefault(example.row, []).append(index)
    return {
        number: task.predict(
            task.read(rows[number]),
            [batch.examples[index] for index in by_row[number]],
            [outputs[index] for index in by_row[number]],
        )
        for number in numbers
    }


def generate_predictions(task: Task, rows: Sequence[Any], batches: Batches, group: ProcessGroup) -> dict[int, Any]:
    """The generated predictions for this rank's rows, by number, from their encoded inputs."""
    pending = {
        number: pending_row(task.read(rows[number]), [replace(example) for example in batches.encode(number)])
        for number in range(group.rank, len(rows), group.size)
    }
    compute_answers(task, list(pending.values()), batches.max_tokens, batches.max_rows, task.predict)
    return {number: each.answer for number, each in pending.items()}
