"""One training step: a plain function, exact under accumulation.

However a step's rows are split into micro-batches, or distributed over processes, the gradient is that of all of them
in one batch: every objective is a sum, divided by its own count in the entire step.
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
from ..nn.random_features import one_pass_per_step
from ..tasks.batch import Batch, Example
from ..tasks.objectives import Objective, combine_objectives
from ..tasks.task import Task
from .distributed import SINGLE_PROCESS, ProcessGroup, lost_rank_errors

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
MAX_SHOWN_ROWS = 8
MIN_SCALE = 1e-4  # of fp16: an overflow at a smaller scale is not caused by the scale
OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory", re.IGNORECASE)  # in torch's messages


@dataclass(frozen=True)
class StepResult:
    """The numbers of a step."""

    loss: float  # the sum of all objectives, each the mean over its targets
    grad_norm: float  # before clipping
    targets: int
    tokens: int
    positions: int  # tokens including the padding of the batches, which is never computed
    updated: bool = True  # False: no targets, or an fp16 overflow that the scaler handles
    objectives: dict[str, tuple[float, int]] = field(default_factory=dict)  # sum and count of each

    @property
    def padding(self) -> float:
        """The fraction of padding in the batches."""
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
    process_group: ProcessGroup = SINGLE_PROCESS,
    name_row: Callable[[int], str] = "row {}".format,
) -> StepResult:
    """Update the model with the micro-batches of one step.

    A loss or gradient that is not finite raises a TrainingError before the update, and names the rows.
    """
    device = next(model.parameters()).device
    scaler = scaler or torch.amp.GradScaler(device.type, enabled=False)
    counts, tokens, positions = count_step(task, batches, process_group)
    if not process_group.shards:  # ranks with shards run every batch together
        batches = [batch for batch in batches if any(batch.counts.values())]
    if not any(counts.values()):
        return StepResult(0.0, 0.0, 0, tokens, positions, updated=False)

    optimizer.zero_grad(set_to_none=True)
    scaler.scale(torch.zeros((), device=device))  # initialises the scaler, also on a rank that has no batch
    losses = []
    totals = {name: torch.zeros((), device=device) for name in counts}
    with one_pass_per_step(model):
        for batch in batches:
            with torch.autocast(device.type, dtype=precision, enabled=precision is not None):
                objectives = task.objectives(model, batch.to(device))
                loss = combine_objectives(objectives, counts)
            with lost_rank_errors():  # FSDP averages over ranks, and the step needs the sum
                scaler.scale(loss * process_group.size if process_group.shards else loss).backward()
            losses.append(loss.detach())
            for name, (total, count) in objectives.items():
                totals[name] = totals[name] + total.detach() * bool(count)
    loss_sum = float(torch.stack(losses).sum()) if losses else 0.0
    mean, *sums = process_group.sum([loss_sum, *map(float, totals.values())])
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    process_group.sum_gradients(parameters)
    scaler.unscale_(optimizer)
    norm = norm_value(clip_grad_norm_(parameters, math.inf if clip is None else clip))
    overflowed = scaler.is_enabled() and scaler.get_scale() > MIN_SCALE and not math.isfinite(norm)
    if not math.isfinite(mean) or not (math.isfinite(norm) or overflowed):
        optimizer.zero_grad(set_to_none=True)
        what = f"the loss is {mean}" if not math.isfinite(mean) else f"the gradient is not finite ({norm})"
        causes = [] if process_group.shards else list(find_bad_rows(task, model, batches, precision))
        all_rows = [examples[0].row for batch in batches for examples in rows_of(batch)]
        gathered = process_group.gather([[name_row(row) for row in rows] for rows in (causes, all_rows)])
        report = describe_rows(*([name for names in gathered for name in names[kind]] for kind in (0, 1)))
        raise TrainingError(f"{what}, and the weights were not changed. {report}")
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    found = {name: (total, counts[name]) for name, total in zip(totals, sums, strict=True)}
    targets = counts[task.objective_names[0]]
    return StepResult(mean, norm, targets, tokens, positions, updated=not overflowed, objectives=found)


def count_step(task: Task, batches: Sequence[Batch], group: ProcessGroup) -> tuple[dict[str, int], int, int]:
    """Of a step on all ranks: the targets of each objective, the tokens, and the positions with padding."""
    trained = [batch for batch in batches if any(batch.counts.values())]
    counts = [sum(batch.counts.get(name, 0) for batch in trained) for name in task.objective_names]
    tokens, positions = sum(sum(batch.lengths) for batch in trained), sum(batch.positions for batch in trained)
    *sums, all_tokens, all_positions = map(int, group.sum([*counts, tokens, positions]))
    return dict(zip(task.objective_names, sums, strict=True)), all_tokens, all_positions


def find_bad_rows(
    task: Task, model: nn.Module, batches: Sequence[Batch], precision: torch.dtype | None
) -> Iterator[int]:
    """The rows that by themselves cause a loss or a gradient that is not finite."""
    device = next(model.parameters()).device
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    for batch in batches:
        for examples in rows_of(batch):
            with torch.autocast(device.type, dtype=precision, enabled=precision is not None):
                loss = sum_of(task.objectives(model, task.collate(examples).to(device)))
            if not (is_finite(loss) and all(map(is_finite, torch.autograd.grad(loss, parameters, allow_unused=True)))):
                yield examples[0].row


def sum_of(objectives: Mapping[str, Objective]) -> Tensor:
    """The sum of all objectives, to check whether it is finite."""
    return torch.stack([each.total for each in objectives.values()]).sum()


def rows_of(batch: Batch) -> list[list[Example]]:
    """A batch's examples, grouped by row."""
    rows: dict[int, list[Example]] = {}
    for example in batch.examples:
        rows.setdefault(example.row, []).append(example)
    return list(rows.values())


def norm_value(norm: Tensor) -> float:
    """A norm as a number, also of sharded parameters."""
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def is_finite(tensor: Tensor | None) -> bool:
    return tensor is None or bool(tensor.isfinite().all())


def describe_rows(causes: list[str], read: list[str]) -> str:
    """The part of an error message that names the rows that cause it, of all that were read.

    >>> describe_rows(["a.tsv, line 3"], ["a.tsv, line 3", "a.tsv, line 8"])
    'It comes from a.tsv, line 3'
    """
    if len(causes) == len(read) > 1:
        return "Every row that was read causes it alone, so the weights are at fault: try a lower learning_rate"
    names = list(dict.fromkeys(causes or read))
    more = f" and {len(names) - MAX_SHOWN_ROWS} more" if len(names) > MAX_SHOWN_ROWS else ""
    listed = "; ".join(names[:MAX_SHOWN_ROWS]) + more
    return f"{'It comes from' if causes else 'No row causes it alone; the step read'} {listed}"


@contextlib.contextmanager
def step_errors(number: int, tokens_per_batch: int) -> Iterator[None]:
    """Add the number of the step to errors, and advice to those about memory."""
    try:
        yield
    except TrainingError as error:
        raise TrainingError(f"step {number}: {error}") from None
    except RuntimeError as error:
        if not OUT_OF_MEMORY.search(str(error)):
            raise
        raise TrainingError(
            f"step {number}: there is not enough memory; tokens_per_batch is {tokens_per_batch}: a smaller one with "
            "more gradient_accumulation_steps gives the same update, and gradient_checkpointing needs less per token"
        ) from error
