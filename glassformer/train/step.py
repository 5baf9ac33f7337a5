"""One training step: a plain function, exact under accumulation.

However a step's rows are cut into micro-batches, or shared among processes, the gradient is that of all of them in
one batch: every objective is a sum, divided by its own count in the whole step.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from ..errors import TrainingError
from ..tasks.batch import Batch, Example
from ..tasks.objectives import Objective, combined
from ..tasks.task import Task
from .distributed import ALONE, Ranks, heard_among

SHOWN_ROWS = 8
LEAST_SCALE = 1e-4  # of fp16: what is not finite at a smaller one does not come from the scale
NO_MEMORY = re.compile("out of memory|can't allocate memory", re.IGNORECASE)  # how torch tells it


@dataclass(frozen=True)
class StepResult:
    """What a step did."""

    loss: float  # the objectives added up, each the mean over all its targets
    grad_norm: float  # before clipping
    targets: int
    tokens: int
    positions: int  # with the padding that the batches hold and nobody computes
    updated: bool = True  # False: nothing to learn from, or an overflow of fp16 that the scaler answers
    objectives: dict[str, tuple[float, int]] = field(default_factory=dict)  # of each its sum and count

    @property
    def padding(self) -> float:
        """The share of padding in the batches."""
        return 1 - self.tokens / max(self.positions, 1)


def take_step(
    task: Task,
    model: nn.Module,
    batches: Sequence[Batch],
    optimizer: torch.optim.Optimizer,
    *,
    clip: float | None = None,
    precision: torch.dtype | None = None,
    scaler: torch.amp.GradScaler | None = None,
    ranks: Ranks = ALONE,
    name_row: Callable[[int], str] = "row {}".format,
) -> StepResult:
    """Learn from the micro-batches of one step.

    A loss or gradient that is not finite raises a TrainingError before the update, and names the rows.
    """
    device = next(model.parameters()).device
    scaler = scaler or torch.amp.GradScaler(device.type, enabled=False)
    batches = [batch for batch in batches if any(batch.counts.values()) or ranks.shards]  # shards compute together
    learnt = [batch for batch in batches if any(batch.counts.values())]
    tokens = [sum(batch.lengths) for batch in learnt]
    names = task.objective_names
    mine = [sum(batch.counts.get(name, 0) for batch in learnt) for name in names]
    sums = ranks.sum([*mine, sum(tokens), sum(batch.positions for batch in learnt)])
    *counted, read_tokens, read_positions = (int(each) for each in sums)
    counts = dict(zip(names, counted, strict=True))
    targets, read = counted[0], (read_tokens, read_positions)
    if not any(counted):
        return StepResult(0.0, 0.0, 0, *read, updated=False)

    optimizer.zero_grad(set_to_none=True)
    scaler.scale(torch.zeros((), device=device))  # begins to count, also on a rank that has no batch
    losses = []
    totals = {name: torch.zeros((), device=device) for name in names}
    for batch in batches:
        with torch.autocast(device.type, dtype=precision, enabled=precision is not None):
            found = task.objectives(model, batch.to(device))
            loss = combined(found, counts)
        with heard_among():
            scaler.scale(loss * ranks.size if ranks.shards else loss).backward()  # shards are averaged on the way
        losses.append(loss.detach())
        for name, (value, count) in found.items():
            totals[name] = totals[name] + value.detach() * bool(count)
    total, *each = ranks.sum([float(torch.stack(losses).sum()) if losses else 0.0, *map(float, totals.values())])
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    ranks.sum_gradients(parameters)
    scaler.unscale_(optimizer)
    norm = norm_of(clip_grad_norm_(parameters, math.inf if clip is None else clip))
    overflowed = scaler.is_enabled() and scaler.get_scale() > LEAST_SCALE and not math.isfinite(norm)
    if not math.isfinite(total) or not (math.isfinite(norm) or overflowed):
        optimizer.zero_grad(set_to_none=True)
        what = f"the loss is {total}" if not math.isfinite(total) else f"the gradient is not finite ({norm})"
        causes = [] if ranks.shards else list(bad_rows(task, model, batches, precision))
        all_rows = [examples[0].row for batch in batches for examples in rows_of(batch)]
        everywhere = ranks.gather([[name_row(row) for row in rows] for rows in (causes, all_rows)])
        report = which_rows(*([name for named in everywhere for name in named[kind]] for kind in (0, 1)))
        raise TrainingError(f"{what}, and the weights were not changed. {report}")
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    objectives = {name: (value, counts[name]) for name, value in zip(names, each, strict=True)}
    return StepResult(total, norm, targets, *read, updated=not overflowed, objectives=objectives)


def bad_rows(task: Task, model: nn.Module, batches: Sequence[Batch], precision: torch.dtype | None) -> Iterator[int]:
    """The rows that alone give a loss or a gradient that is not finite."""
    device = next(model.parameters()).device
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for batch in batches:
        for examples in rows_of(batch):
            with torch.autocast(device.type, dtype=precision, enabled=precision is not None):
                loss = sum_of(task.objectives(model, task.collate(examples).to(device)))
            if not (is_finite(loss) and all(map(is_finite, torch.autograd.grad(loss, parameters, allow_unused=True)))):
                yield examples[0].row


def sum_of(objectives: Mapping[str, Objective]) -> Tensor:
    """All objectives added up, where only whether that is finite matters."""
    return torch.stack([each.total for each in objectives.values()]).sum()


def rows_of(batch: Batch) -> list[list[Example]]:
    """A batch's examples, row by row."""
    rows: dict[int, list[Example]] = {}
    for example in batch.examples:
        rows.setdefault(example.row, []).append(example)
    return list(rows.values())


def norm_of(norm: Tensor) -> float:
    """A norm as a number, also if each rank holds a part of what it is the norm of."""
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def is_finite(tensor: Tensor | None) -> bool:
    return tensor is None or bool(tensor.isfinite().all())


def which_rows(found: list[str], read: list[str]) -> str:
    """The rows to look at, in words: those that alone give what is not finite, of all that were read.

    >>> which_rows(["a.tsv, line 3"], ["a.tsv, line 3", "a.tsv, line 8"])
    'It comes from a.tsv, line 3'
    """
    if len(found) == len(read) > 1:
        return "Every row that was read gives it alone, so that the weights are at fault: try a lower learning_rate"
    names = list(dict.fromkeys(found or read))
    more = f" and {len(names) - SHOWN_ROWS} more" if len(names) > SHOWN_ROWS else ""
    told = "; ".join(names[:SHOWN_ROWS]) + more
    return f"{'It comes from' if found else 'No row causes it alone; the step read'} {told}"


@contextlib.contextmanager
def telling_step(number: int, tokens_per_batch: int) -> Iterator[None]:
    """Let an error say in which step it came, and what to do where there was no memory for it."""
    try:
        yield
    except TrainingError as error:
        raise TrainingError(f"step {number}: {error}") from None
    except RuntimeError as error:
        if not NO_MEMORY.search(str(error)):
            raise
        raise TrainingError(
            f"step {number}: there is not enough memory; tokens_per_batch is {tokens_per_batch}: a smaller one with "
            "more gradient_accumulation_steps learns the same, and gradient_checkpointing needs less for each token"
        ) from error
