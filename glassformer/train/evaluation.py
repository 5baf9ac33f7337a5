"""How good a model is: the task's own metric and loss over rows, by one process or by many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import GlassformerError, InputError
from ..tasks.base import Task
from ..tasks.run import answers, evaluating, located
from .batches import Batches
from .ranks import ALONE, Ranks


def evaluate(
    task: Task,
    rows: Sequence[Any],
    *,
    tokens_per_batch: int = 4096,
    batch_size: int | None = None,
    ranks: Ranks = ALONE,
) -> dict[str, float]:
    """The mean loss over all targets, and what `task.metric` says of the predictions; the more it is a number of rows.

    Each rank judges its share of the rows; the metric is computed from all predictions at once, so that it is the one
    that a single process finds. Of text that a model continues, `perplexity` is told.
    """
    rows = list(rows)
    if not rows:
        raise InputError("there are no rows to evaluate on")
    share = rows[ranks.rank :: ranks.size]
    total, targets = summed_loss(task, share, tokens_per_batch, batch_size) if share else (0.0, 0)
    total, targets = ranks.sum([total, targets])
    found = {"loss": total / targets if targets else math.nan}
    if not task.metrics:
        perplexity = {"perplexity": math.exp(min(found["loss"], 700.0))} if task.name == "text-generation" else {}
        return {**found, **perplexity, "rows": len(rows)}
    judged = answers(task, share, budget=tokens_per_batch, batch_size=batch_size, finish=task.predict)
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


def summed_loss(task: Task, rows: Sequence[Any], tokens: int, batch_size: int | None) -> tuple[float, int]:
    """The loss of rows, summed over its targets, and how many these are."""
    batches = Batches(task, rows, tokens=tokens, rows_at_most=batch_size)
    total, targets = 0.0, 0
    with evaluating(task.trainable), torch.inference_mode():
        for step in batches.plan(0):
            for numbers in step:
                batch = batches.collate(numbers)
                total += float(task.loss(task.trainable, batch.to(task.model.device), reduction="sum"))
                targets += batch.targets_count
    return total, targets
