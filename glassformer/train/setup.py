"""The setup of a training run: device, label smoothing, class weights, frozen parts, schedule, signals."""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from ..data.labels import class_weights
from ..errors import InputError
from ..models.base.parameters import freeze
from ..tasks.pipeline import read_device
from ..tasks.task import Task
from .schedule import get_scheduler
from .train_settings import TrainSettings

log = logging.getLogger("glassformer")

HANGUP = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has no such signal


def check_arguments(task: Any, settings: Any) -> None:
    """Raise for what other libraries pass to their trainers: a model instead of a task, other settings."""
    if not isinstance(task, Task):
        hint = "such as TextClassification(model, tokenizer), which has a model and a tokenizer"
        raise InputError(f"Trainer trains a task, {hint}; got a {type(task).__name__}")
    if not isinstance(settings, TrainSettings):
        raise InputError(f"Trainer takes TrainSettings as its settings, got a {type(settings).__name__}")


def choose_device(name: str) -> torch.device:
    """The device of this process: the requested one, or a GPU if there is one. Each rank has its own GPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return read_device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if name == "cuda" else name)


def with_label_smoothing(task: Task, factor: float) -> Task:
    """A copy of the task for training. Evaluation uses the original, without smoothing."""
    if factor and not task.supports_label_smoothing:
        raise InputError(f"label_smoothing_factor is for tasks that choose among labels, and {task.title} does not")
    training_task = copy.copy(task)
    training_task.label_smoothing = factor
    return training_task


def balanced_class_weights(task: Task, rows: Sequence[Any]) -> Tensor:
    """A weight for each label, so that all labels contribute equally in sum; a label that never occurs has weight 1."""
    if not task.supports_class_weights:
        raise InputError(f"class_weights is for tasks that choose among labels, and {task.title} does not")
    references = [task.reference(task.read(row)) for row in rows]
    names = task.model.config.id2label
    labels = [label for each in references for label in (each if isinstance(each, list) else [names[each]])]
    weights = class_weights(labels)
    return torch.tensor([weights.get(names[i], 1.0) for i in range(len(names))])


def freeze_parts(task: Task, settings: TrainSettings) -> None:
    """Freeze the parts of the model that the settings name."""
    if settings.freeze:
        freeze(task.trainable, *settings.freeze)
    if settings.freeze_layers:
        layers = task.model.layers
        if settings.freeze_layers > len(layers):
            raise InputError(f"freeze_layers must be at most {len(layers)}, got {settings.freeze_layers}")
        above = sum(each in layers[: settings.freeze_layers] for each in layers[settings.freeze_layers :])
        if above:
            count = settings.freeze_layers
            raise InputError(f"freeze_layers {count} would freeze {above} of the layers above too: they share weights")
        for part in (task.model.base_model.embeddings, *layers[: settings.freeze_layers]):
            freeze(part)


def check_final_model(task: Task, settings: TrainSettings, total: int, can_evaluate: bool) -> None:
    """Raise now, and not after hours, if the settings for the final model cannot be met."""
    for name in ("load_best_model_at_end", "early_stopping_patience", "metric_for_best_model"):
        if getattr(settings, name) and not can_evaluate:
            raise InputError(f"{name} needs evaluation rows: eval_rows, or data.eval or eval_fraction of a recipe")
    count, every = settings.average_checkpoints, settings.save_steps
    if count is not None and task.model.adapter is not None:
        raise InputError("average_checkpoints is for full models, and this run trains an adapter")
    if count is not None and every is not None and math.ceil(total / every) < count:
        raise InputError(
            f"average_checkpoints {count} needs as many checkpoints, and {total} steps with save_steps {every} give "
            f"{math.ceil(total / every)}"
        )


def make_schedule(settings: TrainSettings, optimizer: torch.optim.Optimizer, total: int) -> LambdaLR:
    """The learning rate of each step."""
    warmup = settings.warmup(total)
    extra = dict(settings.lr_scheduler_kwargs)
    if settings.lr_scheduler_type == "warmup_stable_decay":
        extra.setdefault("num_decay_steps", max(0, math.ceil((total - warmup) / 10)))
    if warmup >= total:
        message = "the warm-up has %d steps and the run has %d: the learning rate never reaches %g"
        log.warning(message, warmup, total, settings.learning_rate)
    return get_scheduler(settings.lr_scheduler_type, optimizer, warmup, total, extra)


def warn_changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Warn about settings of a run that are not those of the checkpoint it resumes from."""
    ignored = ("output_dir", "save_minutes")
    changed = [name for name in now if name not in ignored and name in before and before[name] != now[name]]
    if changed:
        changes = ", ".join(f"{name} {now[name]!r} (was {before[name]!r})" for name in changed)
        log.warning("resuming with other settings than before: %s", changes)


def go_to_step(schedule: LambdaLR, step: int) -> None:
    """Set a schedule to its state after this number of steps."""
    rates = [base * factor(step) for base, factor in zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)]
    schedule.last_epoch, schedule._step_count, schedule._last_lr = step, step + 1, rates
    for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


@contextlib.contextmanager
def catch_signals() -> Iterator[list[str]]:
    """Collect the names of termination signals, so that the current step can be finished and saved first.

    A second signal of the same kind terminates at once; but for SIGHUP, of which a closed terminal may send several,
    and which is ignored where the caller ignores it (nohup).
    """
    caught: list[str] = []
    handlers: dict[int, Any] = {}

    def handle(number: int, _: Any) -> None:
        caught.append(signal.Signals(number).name)
        if number != HANGUP:
            signal.signal(number, handlers[number])

    with contextlib.suppress(ValueError):  # only the main thread can handle signals
        for number in (signal.SIGTERM, signal.SIGINT, HANGUP):
            if number is None or (number == HANGUP and signal.getsignal(number) is signal.SIG_IGN):
                continue
            handlers[number] = signal.signal(number, handle)
    try:
        yield caught
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
