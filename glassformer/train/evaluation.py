"""How good a model is: the task's own metric and loss over rows, by one process or by many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import GlassformerError, InputError
from ..tasks.inference import answers, evaluating, located
from ..tasks.task import Task
from ..text.base.encoding_options import whole
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

    Each rank judges its share of the rows; the metric is computed from all predictions at once, so that it is the one
    that a single process finds. What can be told from sums over all batches, such as `perplexity`, is told too.
    """
    whole("tokens_per_batch", tokens_per_batch, 1)
    rows = list(rows)
    return judge(task, rows, judging_batches(task, rows, tokens_per_batch, batch_size), ranks)


def judging_batches(task: Task, rows: Sequence[Any], tokens: int, rows_at_most: int | None) -> Batches:
    """Rows in batches, always the same ones; raises if a row does not tell what to judge by."""
    if not rows:
        raise InputError("there are no rows to evaluate on")
    batches = Batches(task, rows, tokens=tokens, rows_at_most=rows_at_most, learning=False)
    for number, row in enumerate(rows if task.metrics else ()):
        reference(task, row, number)
    return batches


def judge(task: Task, rows: Sequence[Any], batches: Batches, ranks: Ranks) -> dict[str, float]:
    """What `evaluate` tells, of rows that stand in batches already."""
    sums = tallied(task, batches, ranks)
    targets = sums["targets"]
    found = {"loss": sums["loss"] / targets if targets else math.nan, **(task.rates(sums) if targets else {})}
    if not task.metrics:
        return {**found, "rows": len(rows)}
    share = rows[ranks.rank :: ranks.size]
    judged = answers(task, share, budget=batches.tokens, batch_size=batches.rows_at_most, finish=task.predict)
    pairs = list(zip(judged, (reference(task, row, i) for i, row in enumerate(share)), strict=True))
    everywhere = ranks.gather(pairs)
    ordered = [everywhere[i % ranks.size][i // ranks.size] for i in range(len(rows))]
    predictions, references = zip(*ordered, strict=True)
    return {**found, **task.metric(list(predictions), list(references)), "rows": len(rows)}


def reference(task: Task, row: Any, number: int) -> Any:
    try:
        return task.reference(task.read(row))
    except GlassformerError as error:
        raise located(error, row, number) from None


def summed(task: Task, rows: Sequence[Any], tokens: int, batch_size: int | None) -> dict[str, float]:
    """What the task's `tally` adds up to over all rows."""
    return tallied(task, Batches(task, rows, tokens=tokens, rows_at_most=batch_size, learning=False), ALONE)


def tallied(task: Task, batches: Batches, ranks: Ranks) -> dict[str, float]:
    """What the task's `tally` adds up to over all batches, of which each rank reads its share."""
    sums: dict[str, float] = {}
    with evaluating(task.trainable), torch.inference_mode():
        for step in batches.plan(0)[ranks.rank :: ranks.size]:
            for numbers in step:
                batch = batches.collate(numbers)
                for name, value in task.tally(task.trainable, batch.to(task.model.device)).items():
                    sums[name] = sums.get(name, 0.0) + value
    gathered = ranks.gather(sums)
    return {name: sum(each.get(name, 0.0) for each in gathered) for name in gathered[0]}
