"""Distillation (Hinton et al. 2015): a student learns from the rows, and from what a teacher makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..tasks.batch import Batch, Example
from ..tasks.objectives import LOSS, Objective
from ..tasks.task import Task
from ..text.base.encoding_options import between, one_of

LOWEST = -1e30  # of scores: those of padding are lower, and would be infinite when they are divided


@dataclass(frozen=True, kw_only=True)
class DistillSettings:
    """Who teaches, and how much that counts."""

    teacher: str  # a checkpoint of the same task, with the same labels and vocabulary
    temperature: float = 2.0  # above 1 the teacher's doubts are heard too
    alpha: float = 0.5  # the teacher's share of the loss; the rest is what the rows say
    hidden: float = 0.0  # the weight of the distance between hidden states; needs layers of the same width

    def __post_init__(self) -> None:
        if not isinstance(self.teacher, str) or not self.teacher:
            raise InputError(f"teacher must name a folder or a model of a hub, got {self.teacher!r}")
        between("temperature", self.temperature, 1e-3, 1e3)
        between("alpha", self.alpha, 0.0, 1.0)
        between("hidden", self.hidden, 0.0, 1e6)


class Distillation:
    """A task whose objective includes a teacher's scores: what training calls in place of the task itself."""

    objective_names = (LOSS,)

    def __init__(self, task: Task, teacher: nn.Module, settings: DistillSettings) -> None:
        if not task.chooses_labels:
            raise InputError(f"a teacher tells how likely labels are, and {task.name} does not choose among labels")
        self.task, self.settings = task, settings
        self.teacher = teacher.to(task.model.device).requires_grad_(False).eval()
        self.pairs = paired_layers(task.model, teacher) if settings.hidden else []

    def collate(self, examples: Sequence[Example]) -> Batch:
        return self.task.collate(examples)

    def loss(self, model: nn.Module, batch: Batch, reduction: str = "sum") -> Tensor:
        """The only objective of a batch: its "sum" or "mean"."""
        one_of("reduction", reduction, ("sum", "mean"))
        total, count = self.objectives(model, batch)[LOSS]
        return total if reduction == "sum" else total / count

    def objectives(self, model: nn.Module, batch: Batch) -> dict[str, Objective]:
        """(1 - alpha) * the task's own loss + alpha * T² * KL(teacher, student) + hidden * distance."""
        settings, task = self.settings, self.task
        task.require_labels(batch)
        with watched([layer for layer, _ in self.pairs]) as mine:
            logits = task.target_logits(task.outputs(model, batch), batch)
        with torch.no_grad(), watched([layer for _, layer in self.pairs]) as theirs:
            wanted = task.target_logits(task.outputs(self.teacher, batch), batch)
        if logits.shape != wanted.shape:
            scored = f"{wanted.shape[-1]} labels and the student {logits.shape[-1]}"
            raise InputError(f"the teacher scores {scored}: they must be the same")
        soft = divergence(logits, wanted, settings.temperature) * (batch.targets_count / len(logits))
        total = (1 - settings.alpha) * task.loss_of(logits, batch) + settings.alpha * soft
        if self.pairs:
            lengths = torch.tensor(sorted(batch.lengths), device=logits.device)  # as they stand in the stream
            total = total + settings.hidden * distance(mine, theirs, lengths)
        return {LOSS: Objective(total, batch.targets_count)}


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """How far the student's probabilities are from the teacher's, summed over rows and scaled by T², as in the paper.

    >>> scores = torch.tensor([[2.0, 0.0]])
    >>> float(divergence(scores, scores, 2.0))
    0.0
    """
    scores = (each.float().clamp(min=LOWEST) for each in (student, teacher))
    mine, wanted = ((each / temperature).log_softmax(-1) for each in scores)
    return F.kl_div(mine, wanted, reduction="sum", log_target=True) * temperature**2


def distance(mine: Sequence[Tensor], theirs: Sequence[Tensor], lengths: Tensor) -> Tensor:
    """The squared distance of hidden states: the mean over layers, columns and an example's tokens, summed up."""
    weights = torch.repeat_interleave(1.0 / lengths, lengths)  # N
    each = [((a - b.to(a.dtype)) ** 2).mean(-1) for a, b in zip(mine, theirs, strict=True)]
    return (torch.stack(each).mean(0) * weights).sum()


def paired_layers(student: nn.Module, teacher: nn.Module) -> list[tuple[nn.Module, nn.Module]]:
    """Which layers are held against each other: the last to the last, the others evenly spread."""
    mine, theirs = (list(each.layers) for each in (student, teacher))
    widths = [each.config.hidden_size for each in (student, teacher)]
    if widths[0] != widths[1]:
        raise InputError(f"hidden states can be compared where they are equally wide, got {widths[0]} and {widths[1]}")
    if len(mine) > len(theirs):
        raise InputError(f"the teacher has {len(theirs)} layers, fewer than the student's {len(mine)}")
    return [(layer, theirs[(i + 1) * len(theirs) // len(mine) - 1]) for i, layer in enumerate(mine)]


@contextlib.contextmanager
def watched(layers: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """What layers put out while a block runs, without padding: N C each."""
    seen: list[Tensor] = []

    def note(_: nn.Module, __: Any, output: tuple[Tensor, ...]) -> None:
        seen.append(output)

    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
