"""What a trainer settles before the first step: the device, what learns and how labels count, and signals."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from ..data.labels import class_weights
from ..errors import InputError
from ..models.parameters import freeze
from ..tasks.pipeline import read_device
from ..tasks.task import Task
from .schedule import get_scheduler
from .train_settings import TrainSettings

log = logging.getLogger("glassformer")


def choose_device(name: str) -> torch.device:
    """The device of this process: the one named, or the accelerator if there is one. Each rank has its own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return read_device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if name == "cuda" else name)


def smoothed(task: Task, share: float) -> Task:
    """The task as it learns: the same, but for labels that are spread a little. Evaluation stays as it is."""
    if share and not task.smooths_labels:
        raise InputError(f"label_smoothing_factor is for tasks that choose among labels, and {task.name} does not")
    learner = copy.copy(task)
    learner.label_smoothing = share
    return learner


def label_weights(task: Task, rows: Sequence[Any]) -> Tensor:
    """How much each label counts, so that all labels together weigh the same; one that never occurs weighs 1."""
    if not task.weighs_labels:
        raise InputError(f"class_weights is for tasks that choose among labels, and {task.name} does not")
    found = [task.reference(task.read(row)) for row in rows]
    names = task.model.config.id2label
    listed = [label for each in found for label in (each if isinstance(each, list) else [names[each]])]
    weights = class_weights(listed)
    return torch.tensor([weights.get(names[i], 1.0) for i in range(len(names))])


def freeze_parts(task: Task, settings: TrainSettings) -> None:
    """Keep parts of a model from learning, as the settings ask."""
    if settings.freeze:
        freeze(task.trainable, *settings.freeze)
    if settings.freeze_layers:
        layers = task.model.layers
        if settings.freeze_layers > len(layers):
            raise InputError(f"freeze_layers must be at most {len(layers)}, got {settings.freeze_layers}")
        for part in (task.model.base_model.embeddings, *layers[: settings.freeze_layers]):
            freeze(part)


def check_end(task: Task, settings: TrainSettings, total: int, can_judge: bool) -> None:
    """Raise now, and not after hours, if the model that was asked for at the end cannot be had."""
    for name in ("load_best_model_at_end", "early_stopping_patience", "metric_for_best_model"):
        if getattr(settings, name) and not can_judge:
            raise InputError(f"{name} needs rows to judge by: eval_rows, or data.eval or eval_fraction of a recipe")
    wanted, every = settings.average_checkpoints, settings.save_steps
    if wanted is not None and task.model.adapter is not None:
        raise InputError("average_checkpoints is for whole models, and this one learns an adapter")
    if wanted is not None and every is not None and math.ceil(total / every) < wanted:
        raise InputError(
            f"average_checkpoints {wanted} needs as many checkpoints, and {total} steps with save_steps {every} give "
            f"{math.ceil(total / every)}"
        )


def make_schedule(settings: TrainSettings, optimizer: torch.optim.Optimizer, total: int) -> LambdaLR:
    """The learning rate of each step."""
    warmup = settings.warmup(total)
    extra = dict(settings.lr_scheduler_kwargs)
    if settings.lr_scheduler_type == "warmup_stable_decay":
        extra.setdefault("num_decay_steps", max(0, math.ceil((total - warmup) / 10)))
    if warmup >= total:
        told = "the learning rate rises for %d steps and the run has %d: it never gets to %g"
        log.warning(told, warmup, total, settings.learning_rate)
    return get_scheduler(settings.lr_scheduler_type, optimizer, warmup, total, extra)


def go_to_step(schedule: LambdaLR, step: int) -> None:
    """Put a schedule where it stands after so many steps, at the rates that it gives for them."""
    rates = [base * factor(step) for base, factor in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)]
    schedule.last_epoch, schedule._step_count, schedule._last_lr = step, step + 1, rates
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


@contextlib.contextmanager
def signals() -> Iterator[list[str]]:
    """The names of signals that ask for an end, as they come: the step is finished and saved first.

    A second one of a kind is not waited for.
    """
    caught: list[str] = []
    before: dict[int, Any] = {}

    def note(number: int, _: Any) -> None:
        caught.append(signal.Signals(number).name)
        signal.signal(number, before[number])

    with contextlib.suppress(ValueError):  # outside the main thread there are no signals
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, note)
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
