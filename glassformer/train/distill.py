"""Distillation (Hinton et al. 2015): a student is trained on the rows' labels and on a teacher's logits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from ..nn.scoped_hooks import HookScope
from ..tasks.batch import Batch, Example
from ..tasks.objectives import LOSS, Objective
from ..tasks.task import Task
from ..text.base.encoding_options import check_choice, check_range

MIN_LOGIT = -1e30  # logits of padding are lower, and would become infinite when they are divided


@dataclass(frozen=True, kw_only=True)
class DistillSettings:
    """The teacher, and the weights of its losses.

    Attributes:
        teacher: A checkpoint of the same task, with the same labels and vocabulary.
        temperature: Above 1, small probabilities of the teacher matter more.
        alpha: The teacher's share of the loss; the rest is the loss of the labels.
        hidden: The weight of the distance between hidden states; needs layers of the same width.
    """

    teacher: str
    temperature: float = 2.0
    alpha: float = 0.5
    hidden: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.teacher, str) or not self.teacher:
            raise InputError(f"teacher must name a folder or a model of a hub, got {self.teacher!r}")
        check_range("temperature", self.temperature, 1e-3, 1e3)
        check_range("alpha", self.alpha, 0.0, 1.0)
        check_range("hidden", self.hidden, 0.0, 1e6)


class Distillation:
    """A task whose objective includes a teacher's logits; training uses it instead of the task itself."""

    objective_names = (LOSS,)

    def __init__(self, task: Task, teacher: nn.Module, settings: DistillSettings) -> None:
        if not task.supports_distillation:
            raise InputError(f"a teacher scores labels, and {task.title} does not choose among labels")
        if getattr(teacher.config, "crf", None) is not None:
            raise InputError(
                "a teacher scores labels, and this one has a conditional random field over sequences of them"
            )
        self.task, self.settings = task, settings
        self.teacher = teacher.to(task.model.device).requires_grad_(False).eval()
        self.pairs = paired_layers(task.model, teacher) if settings.hidden else []

    def collate(self, examples: Sequence[Example]) -> Batch:
        return self.task.collate(examples)

    def loss(self, model: nn.Module, batch: Batch, reduction: str = "sum") -> Tensor:
        """The single objective of a batch: its "sum" or "mean"."""
        check_choice("reduction", reduction, ("sum", "mean"))
        total, count = self.objectives(model, batch)[LOSS]
        return total if reduction == "sum" else total / count

    def objectives(self, model: nn.Module, batch: Batch) -> dict[str, Objective]:
        """(1 - alpha) * the task's own loss + alpha * T² * KL(teacher, student) + hidden * distance."""
        settings, task = self.settings, self.task
        task.require_labels(batch)
        with captured_outputs(task.model, [each for each, _ in self.pairs]) as student_states:
            logits = task.target_logits(task.outputs(model, batch), batch)
        with torch.no_grad(), captured_outputs(self.teacher, [each for _, each in self.pairs]) as teacher_states:
            targets = task.target_logits(task.outputs(self.teacher, batch), batch)
        if logits.shape != targets.shape:
            scored = f"{targets.shape[-1]} labels and the student {logits.shape[-1]}"
            raise InputError(f"the teacher scores {scored}: they must be the same")
        soft = divergence(logits, targets, settings.temperature) * (batch.targets_count / len(logits))
        total = (1 - settings.alpha) * task.loss_of(logits, batch) + settings.alpha * soft
        if self.pairs:
            lengths = torch.tensor(sorted(batch.lengths), device=logits.device)  # the order of the packed stream
            total = total + settings.hidden * distance(student_states, teacher_states, lengths)
        return {LOSS: Objective(total, batch.targets_count)}


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """The KL divergence of the student's probabilities from the teacher's, summed over rows and scaled by T².

    >>> scores = torch.tensor([[2.0, 0.0]])
    >>> float(divergence(scores, scores, 2.0))
    0.0
    """
    logits = (each.float().clamp(min=MIN_LOGIT) for each in (student, teacher))
    inputs, targets = ((each / temperature).log_softmax(-1) for each in logits)
    return F.kl_div(inputs, targets, reduction="sum", log_target=True) * temperature**2


def distance(student: Sequence[Tensor], teacher: Sequence[Tensor], lengths: Tensor) -> Tensor:
    """The squared distance of hidden states: the mean over layers, components and an example's tokens, summed."""
    weights = torch.repeat_interleave(1.0 / lengths, lengths)  # N
    each = [((a - b.to(a.dtype)) ** 2).mean(-1) for a, b in zip(student, teacher, strict=True)]
    return (torch.stack(each).mean(0) * weights).sum()


def paired_layers(student: nn.Module, teacher: nn.Module) -> list[tuple[int, int]]:
    """The layers whose outputs are compared: the last with the last, the others evenly spread."""
    widths = [each.config.hidden_size for each in (student, teacher)]
    if widths[0] != widths[1]:
        raise InputError(f"hidden states can be compared where they are equally wide, got {widths[0]} and {widths[1]}")
    count, teacher_count = len(student.layers), len(teacher.layers)
    if count > teacher_count:
        raise InputError(f"the teacher has {teacher_count} layers, fewer than the student's {count}")
    return [(i, (i + 1) * teacher_count // count - 1) for i in range(count)]


@contextlib.contextmanager
def captured_outputs(model: nn.Module, numbers: Sequence[int]) -> Iterator[list[Tensor]]:
    """Collect the outputs of some layers while a block runs, without padding: N C each."""
    outputs: list[Tensor] = []

    def collect(_: nn.Module, __: Any, output: Tensor) -> None:
        outputs.append(output)

    with HookScope() as scope:
        for number in numbers:
            scope.after(model.layers[number], scope.only_in(model.layers, number, collect))
        yield outputs
