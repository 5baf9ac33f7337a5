"""What a trainer settles before the first step: the device, what learns and how labels count, and signals."""

from __future__ import annotations

import contextlib
import copy
import os
import signal
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..data.labels import class_weights
from ..errors import InputError
from ..models.parameters import freeze
from ..tasks.base import Task
from .settings import TrainSettings


def choose_device(name: str) -> torch.device:
    """The device of this process: the one named, or the accelerator if there is one."""
    if name == "auto":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}") from None


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
