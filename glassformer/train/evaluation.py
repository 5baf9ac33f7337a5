"""How good a model is: the task's own metrics and losses over rows, by one process or by many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import GlassformerError, InputError
from ..tasks.batch import Batch
from ..tasks.inference import answers, evaluating, located, runs_in_parallel
from ..tasks.parallel import side_by_side
from ..tasks.task import Task
from ..text.base.encoding_options import check_whole_number
from .batches import Batches
from .distributed import ALONE, Ranks


def evaluate(
    task: Task,
    rows: Sequence[Any],
    *,
    tokens_per_batch: int = 4096,
    batch_size: int | None = None,
    ranks: Ranks = ALONE,
) -> dict[str, float]:
    """The mean loss over all targets, and what `task.metric` says of the predictions; `rows` is how many there were.

    Each rank evaluates its share of the batches; the metric is computed from all predictions at once, so that it is the
    one that a single process finds. What follows from sums over all batches, such as `perplexity`, is reported too.
    """
    check_whole_number("tokens_per_batch", tokens_per_batch, 1)
    rows = list(rows)
    return evaluate_batches(task, rows, evaluation_batches(task, rows, tokens_per_batch, batch_size), ranks)


def evaluation_batches(task: Task, rows: Sequence[Any], tokens: int, rows_at_most: int | None) -> Batches:
    """Rows in batches, always the same ones; raises if a row does not state what to evaluate by."""
    if not rows:
        raise InputError("there are no rows to evaluate on")
    batches = Batches(task, rows, tokens=tokens, rows_at_most=rows_at_most, learning=False)
    for number, row in enumerate(rows if task.metrics else ()):
        reference(task, row, number)
    return batches


def evaluate_batches(task: Task, rows: Sequence[Any], batches: Batches, ranks: Ranks) -> dict[str, float]:
    """What `evaluate` returns, of rows that stand in batches already. Losses and predictions come of the same run."""
    predicts = bool(task.metrics)
    tallies, predicted = run_batches(task, rows, batches, ranks, predicts=predicts and not task.generates)
    means = {name: total / count if count else math.nan for name, (total, count) in tallies.items()}
    found = {"loss": math.fsum(means[name] for name in task.objective_names)}
    found |= task.rates(means) if tallies[task.objective_names[0]][1] else {}
    if not predicts:
        return {**found, "rows": len(rows)}
    if task.generates:
        share = rows[ranks.rank :: ranks.size]
        written = answers(task, share, budget=batches.tokens, batch_size=batches.rows_at_most, finish=task.predict)
        predicted = dict(zip(range(ranks.rank, len(rows), ranks.size), written, strict=True))
    everywhere = {number: value for each in ranks.gather(predicted) for number, value in each.items()}
    predictions = [everywhere[number] for number in range(len(rows))]
    references = [reference(task, row, number) for number, row in enumerate(rows)]
    return {**found, **task.metric(predictions, references), "rows": len(rows)}


def reference(task: Task, row: Any, number: int) -> Any:
    try:
        return task.reference(task.read(row))
    except GlassformerError as error:
        raise located(error, row, number) from None


def summed(task: Task, rows: Sequence[Any], tokens: int, batch_size: int | None) -> dict[str, float]:
    """The first objective of a task over all rows: its sum "loss" and its count "targets"."""
    batches = Batches(task, rows, tokens=tokens, rows_at_most=batch_size, learning=False)
    total, count = run_batches(task, rows, batches, ALONE, predicts=False)[0][task.objective_names[0]]
    return {"loss": total, "targets": count}


def run_batches(
    task: Task, rows: Sequence[Any], batches: Batches, ranks: Ranks, *, predicts: bool
) -> tuple[dict[str, tuple[float, int]], dict[int, Any]]:
    """Sums and counts of the task's `tally` over all batches of all ranks; the predictions for this rank's rows."""
    sums: dict[str, tuple[float, int]] = {}
    predictions: dict[int, Any] = {}

    def run(numbers: list[int]) -> tuple[dict[str, tuple[float, int]], dict[int, Any]]:
        batch = batches.collate(numbers).to(task.model.device)
        with torch.inference_mode():
            outputs = task.outputs(task.trainable, batch)
            tally = task.tally(outputs, batch)
            split = task.split(outputs, batch) if predicts else []
        return tally, predictions_of(task, rows, numbers, batch, split) if predicts else {}

    mine = [numbers for step in batches.plan(0)[ranks.rank :: ranks.size] for numbers in step]
    in_parallel = runs_in_parallel(task, sum(batches.lengths))
    with evaluating(task.trainable):
        for tally, predicted in side_by_side(run, mine) if in_parallel else map(run, mine):
            predictions |= predicted
            for name, (total, count) in tally.items():
                before = sums.get(name, (0.0, 0))
                sums[name] = (before[0] + total, before[1] + count)
    gathered = ranks.gather(sums)
    names = dict.fromkeys(name for each in gathered for name in each)
    added = {name: [each.get(name, (0.0, 0)) for each in gathered] for name in names}
    return {name: (sum(t for t, _ in each), sum(c for _, c in each)) for name, each in added.items()}, predictions


def predictions_of(
    task: Task, rows: Sequence[Any], numbers: Sequence[int], batch: Batch, outputs: Sequence[Any]
) -> dict[int, Any]:
    """The prediction for each row of a batch, by its number."""
    by_row: dict[int, list[int]] = {}
    for place, example in enumerate(batch.examples):
        by_row.setdefault(example.row, []).append(place)
    return {
        number: task.predict(
            task.read(rows[number]),
            [batch.examples[place] for place in by_row[number]],
            [outputs[place] for place in by_row[number]],
        )
        for number in numbers
    }
