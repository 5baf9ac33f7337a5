"""The trainer: rows, a task and settings in, a trained model out; stopped at any moment, it goes on exactly."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..checkpoints.files import make_folder, write_atomically
from ..errors import CheckpointError, GlassformerError, InputError, suggests
from ..models.base import PreTrainedModel
from ..models.parameters import count_parameters
from ..tasks.task import Task
from . import checkpoint
from .batches import Batches
from .distill import Distillation, DistillSettings
from .distributed import ALONE, Ranks, join_ranks
from .evaluation import evaluate_batches, evaluation_batches
from .optimizer import AdamW, parameter_groups
from .randomness import load_random_state, random_state, seed_all, untouched_random_numbers
from .reporting.report import write_report
from .reporting.run_log import RunLog
from .result import RESULT, Progress, TrainResult
from .setup import (
    check_end,
    choose_device,
    freeze_parts,
    go_to_step,
    label_weights,
    make_schedule,
    signals,
    smoothed,
)
from .sharding import Sharded
from .step import StepResult, take_step, telling_step
from .streamed_batches import StreamedBatches
from .train_settings import TrainSettings

log = logging.getLogger("glassformer")

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


class Trainer:
    """Trains a task's model.

    >>> task = TextClassification.from_pretrained("./bert-base-chinese/")                       # doctest: +SKIP
    >>> trainer = Trainer(task, read_rows("train.tsv"), read_rows("dev.tsv"),
    ...                   TrainSettings(output_dir="run", num_train_epochs=3))                  # doctest: +SKIP
    >>> trainer.train()                                                                         # doctest: +SKIP
    >>> trainer.evaluate()                                                                      # doctest: +SKIP
    {'loss': 0.21, 'accuracy': 0.94, ...}
    """

    @suggests
    def __init__(
        self,
        task: Task,
        train_rows: Iterable[Any],
        eval_rows: Iterable[Any] | None,
        settings: TrainSettings,
        *,
        teacher: PreTrainedModel | None = None,
        distill: DistillSettings | None = None,
        buffer: int | None = None,  # read the rows while training, and hold so many of them at once
    ) -> None:
        self.task, self.settings = task, settings
        train_rows = list(train_rows) if buffer is None else train_rows
        self.learner: Any = smoothed(task, settings.label_smoothing_factor)
        self.folder = Path(settings.output_dir)
        self.device = choose_device(settings.device)
        self.ranks: Ranks = join_ranks(settings.rank_timeout, self.device)
        self.model = task.trainable.to(self.device)
        if settings.class_weights:
            self.learner.label_weights = label_weights(task, train_rows).to(self.device)
        if teacher is not None:
            self.learner = Distillation(self.learner, teacher, distill or DistillSettings(teacher="given"))
        freeze_parts(task, settings)
        self.sharded: Sharded | None = None
        if settings.fully_shard:
            self.ranks.share(self.model.state_dict().values())
            self.sharded = Sharded(task, self.ranks)
            self.ranks = replace(self.ranks, shards=True)
            self.learner = self.sharded.wrapped(self.learner)
        if settings.gradient_checkpointing:
            task.model.gradient_checkpointing_enable()
        self.batches = self.make_batches(train_rows, buffer)
        self.total = settings.max_steps or self.batches.steps_in(settings.num_train_epochs)
        self.eval_rows = None if eval_rows is None else list(eval_rows)
        self.eval_batches = None if self.eval_rows is None else evaluation_batches(task, self.eval_rows, **self.budget)
        self.choose_by()  # what cannot be had at the end is told now
        check_end(task, settings, self.total, can_judge=self.eval_rows is not None)
        self.optimizer = AdamW(
            parameter_groups(self.model, settings.learning_rate, settings.weight_decay, settings.layer_decay),
            lr=settings.learning_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
        )
        self.schedule = make_schedule(settings, self.optimizer, self.total)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "fp16")
        self.progress = Progress()
        self.metrics: dict[str, float] = {}
        self.interrupted = False  # by a signal, before what was due after the step

    @property
    def budget(self) -> dict[str, Any]:
        """How much a batch may hold."""
        return {"tokens": self.settings.tokens_per_batch, "rows_at_most": self.settings.per_device_train_batch_size}

    def make_batches(self, rows: Any, buffer: int | None) -> Batches | StreamedBatches:
        per_step = self.settings.gradient_accumulation_steps * self.ranks.size
        shape: dict[str, Any] = {**self.budget, "per_step": per_step, "seed": self.settings.seed}
        if buffer is None:
            return Batches(self.task, rows, **shape)
        return StreamedBatches(self.task, rows, buffer=buffer, **shape)

    # --- training ----------------------------------------------------------------------------------------------

    def train(self, resume: bool | str | os.PathLike = False) -> TrainResult:
        """Train to the end, or until a signal, or until nothing gets better.

        `resume` goes on from the newest checkpoint in `output_dir` (from the beginning if there is none), or from the
        one named.
        """
        with contextlib.ExitStack() as held:
            self.ranks.lead(lambda: self.claim_folder(bool(resume), held))
            self.begin(resume)
            return self.finish(self.run())

    def claim_folder(self, resume: bool, held: contextlib.ExitStack) -> None:
        """Make the folder this run's own, until what is held is let go."""
        if self.progress.step == 0:
            checkpoint.refuse_used(self.folder, resume)
        held.enter_context(checkpoint.claimed(make_folder(self.folder)))
        checkpoint.remove_leftovers(self.folder)

    def begin(self, resume: bool | str | os.PathLike) -> None:
        """Start from the same weights on all ranks, or from where a checkpoint stands."""
        found = checkpoint.checkpoints_in(self.folder)
        if resume is True and found:
            *older, newest = found.values()
            try:
                self.load(newest)
            except CheckpointError as error:
                hint = f"; without {newest} the run goes on from {older[-1]}" if older else ""
                raise type(error)(f"{error}{hint}") from None
        elif not isinstance(resume, bool):
            self.load(Path(resume))
            later = [path.name for step, path in found.items() if step > self.progress.step]
            if later:
                log.warning("going back: this run will remove %s, of later steps, when it saves", ", ".join(later))
        elif self.progress.step == 0:
            seed_all(self.settings.seed + self.ranks.rank)
            if self.sharded is None:
                self.ranks.share(self.model.state_dict().values())

    def run(self) -> str | None:
        """Take all steps that are left; the reason to stop before the last, if there is one."""
        self.log = RunLog(self.folder, self.total, writes=self.ranks.leads, tensorboard=self.settings.tensorboard)
        self.log.go_on_from(self.progress.step)
        stopped_by = "early stopping" if self.is_tired and self.progress.step < self.total else None
        self.model.train()
        try:
            with signals() as caught:
                if self.interrupted:
                    self.interrupted = False
                    stopped_by = self.look_around(caught)
                while self.progress.step < self.total and stopped_by is None:
                    began = time.monotonic()
                    self.account(self.learn(self.next_rows()))
                    self.progress.seconds += time.monotonic() - began
                    stopped_by = self.look_around(caught)
        finally:
            self.log.close()
            self.model.eval()
        return stopped_by

    def next_rows(self) -> list[list[int]]:
        """The rows of the next step. If streamed ones cannot be read, what was learnt before them is kept."""
        try:
            return next(self.batches)
        except GlassformerError as error:
            if self.progress.step == 0:
                raise
            kept = self.folder / f"checkpoint-{self.progress.step}"
            told = f"what was learnt before is kept in {kept}, and can be resumed"
            try:
                self.save()
            except GlassformerError as problem:
                told = f"what was learnt before could not be saved: {problem}"
            raise type(error)(f"{error}; {told}") from None

    def learn(self, rows: list[list[int]]) -> StepResult:
        """One update from this rank's share of a step's batches."""
        mine = [self.batches.collate(numbers) for numbers in rows[self.ranks.rank :: self.ranks.size]]
        if self.sharded is not None and len(mine) < math.ceil(len(rows) / self.ranks.size):
            mine.append(self.batches.collate(rows[0]).without_targets())  # no rank can run a layer alone
        with telling_step(self.progress.step + 1, self.settings.tokens_per_batch):
            result = take_step(
                self.learner,
                self.model,
                mine,
                self.optimizer,
                clip=self.settings.max_grad_norm or None,
                precision=PRECISIONS[self.settings.precision],
                scaler=self.scaler,
                ranks=self.ranks,
                name_row=self.batches.name_row,
            )
        self.rate = max(self.schedule.get_last_lr())  # the one that was used
        self.schedule.step()
        return result

    def account(self, result: StepResult) -> None:
        """Count a step, and tell of it when it is due."""
        self.progress.count(result)
        self.log.moved(self.progress.step, result, self.rate)
        if self.progress.step % self.settings.logging_steps == 0 or self.progress.step == self.total:
            self.log.tell(self.progress, result, self.rate, self.batches.progress)
            self.progress.logged()

    def look_around(self, caught: list[str]) -> str | None:
        """After a step: evaluate and save if that is due; the reason to stop, if there is one.

        A signal is not kept waiting for an evaluation: what was due is done when the run goes on.
        """
        step, settings = self.progress.step, self.settings
        asked = next((name for names in self.ranks.gather(list(caught)) for name in names), None)
        if asked is not None:
            self.interrupted = True
            self.save()
            return asked
        at_end = step == self.total

        def due(every: int | None) -> bool:
            return at_end or (self.batches.ended_an_epoch if every is None else step % every == 0)

        improved = tired = False
        if self.eval_rows and due(settings.eval_steps):
            improved = self.judge()
            tired = self.is_tired
        if improved or tired or due(settings.save_steps):
            self.save()
        return "early stopping" if tired and not at_end else None

    @property
    def is_tired(self) -> bool:
        """Whether nothing has got better for too long."""
        patience = self.settings.early_stopping_patience
        return patience is not None and self.progress.waited >= patience

    def judge(self) -> bool:
        """Evaluate; whether this is the best so far."""
        self.metrics = self.evaluate()
        self.log.add({"step": self.progress.step, **{f"eval_{name}": value for name, value in self.metrics.items()}})
        return self.progress.judge(self.metrics, self.choose_by())

    def choose_by(self) -> str:
        """The name of the number by which the best model is chosen."""
        known = (*self.task.metrics, "loss", *self.task.rate_names)
        asked = self.settings.metric_for_best_model
        if asked is not None and asked not in known:
            raise InputError(f"metric_for_best_model must be one of {', '.join(known)}, got {asked!r}")
        return asked or known[0]

    def evaluate(self, rows: Iterable[Any] | None = None) -> dict[str, float]:
        """Loss and metrics on the evaluation rows, or on others."""
        judged, batches = self.eval_rows, self.eval_batches
        if rows is not None:
            judged = list(rows)
            batches = evaluation_batches(self.task, judged, **self.budget)
        if judged is None or batches is None:
            raise InputError("there are no rows to evaluate on: hand some to evaluate, or eval_rows to the Trainer")
        task, ranks = self.task, self.ranks
        if self.sharded is not None:
            task, ranks = self.sharded.wrapped(task), ALONE  # all ranks read all rows, since they run together
        with untouched_random_numbers():
            return evaluate_batches(task, judged, batches, ranks)

    def whole_model(self) -> nn.Module:
        """The model as it is written; every rank must ask for it at the same time."""
        return self.model if self.sharded is None else self.sharded.gathered()

    def finish(self, stopped_by: str | None) -> TrainResult:
        progress = self.progress
        ended = stopped_by in (None, "early stopping")
        metrics = self.metrics
        if ended and self.settings.load_best_model_at_end and progress.best is not None:
            checkpoint.load_model(self.folder / f"checkpoint-{progress.best['step']}", self.task)
            metrics = progress.best["metrics"]
        if ended and self.settings.average_checkpoints is not None:
            checkpoint.load_average(self.folder, self.settings.average_checkpoints, self.task)
            metrics = self.evaluate() if self.eval_rows else metrics
        if progress.step and hasattr(self.task.model, "load_report"):
            self.task.model.load_report.initialised.clear()  # a head that was drawn has learnt now
            self.task.model.config.architectures = [type(self.task.model).__name__]
        result = TrainResult(
            progress.step,
            self.total,
            stopped_by,
            progress.best,
            metrics,
            progress.seconds,
            progress.tokens,
            count_parameters(self.model),
            count_parameters(self.model, trainable=True),
        )
        if ended:
            model = self.whole_model()
            self.ranks.lead(lambda: self.write_end(model, result))
        return result

    def write_end(self, model: nn.Module, result: TrainResult) -> None:
        """The trained model, how its training went, and last the file that says that it is done."""
        checkpoint.write_model(self.folder, self.task, model)
        if self.settings.report:
            write_report(self.folder, self.task, self.settings, result)
        write_atomically(self.folder / RESULT, json.dumps(vars(result), indent=2) + "\n")

    # --- saving and going on -----------------------------------------------------------------------------------

    @property
    def all_settings(self) -> dict[str, Any]:
        """What a run that goes on should have as before: the settings, and the options of the task."""
        told = {name: value for name, value in vars(self.task.options).items() if not callable(value)}
        return {**self.settings.to_dict(), **{f"options.{name}": str(value) for name, value in told.items()}}

    def save(self) -> None:
        """Write a checkpoint of this very moment, and remove those that are too many."""
        progress = self.progress
        values = {
            **vars(progress),
            "total_steps": self.total,
            "data": self.batches.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": self.ranks.gather(random_state()),
            "task": self.task.name,
            "settings": self.all_settings,
            "metrics": self.metrics,
        }
        model, tensors = self.whole_model(), {}
        if self.ranks.leads or self.sharded is not None:
            tensors = checkpoint.optimizer_tensors(self.optimizer)

        def write() -> None:
            checkpoint.write_checkpoint(self.folder, progress.step, self.task, model, tensors, values, self.interrupted)
            best = None if progress.best is None else progress.best["step"]
            checkpoint.remove_old(self.folder, progress.step, self.settings.save_total_limit, best)

        self.ranks.lead(write)

    def load(self, folder: Path) -> None:
        """Go back to the moment of a checkpoint."""
        tensors, values = checkpoint.read_checkpoint(folder)
        if values["task"] != self.task.name:
            raise InputError(f"{folder} was training {values['task']}, and this is {self.task.name}")
        before, now = values["settings"], self.all_settings
        other = [name for name in now if name != "output_dir" and name in before and before[name] != now[name]]
        if other:
            told = ", ".join(f"{name} {now[name]!r} (was {before[name]!r})" for name in other)
            log.warning("going on with other settings than before: %s", told)
        self.batches.load_state_dict(values["data"])
        checkpoint.load_model(folder, self.task)
        checkpoint.load_optimizer(self.optimizer, tensors)
        if values["scaler"] and self.scaler.is_enabled():
            self.scaler.load_state_dict(values["scaler"])
        self.progress = Progress(**{name: values[name] for name in vars(Progress()) if name in values})
        go_to_step(self.schedule, self.progress.step)
        best = self.progress.best
        if self.settings.load_best_model_at_end and best is not None:
            name = f"checkpoint-{best['step']}"
            if not (self.folder / name).exists():
                raise InputError(f"{name}, the best so far, is not in {self.folder}: copy it from {folder.parent}")
        self.metrics = values["metrics"]
        self.interrupted = (folder / checkpoint.INTERRUPTED).exists()
        if self.ranks.rank < len(values["random"]):
            load_random_state(values["random"][self.ranks.rank])
        if len(values["random"]) != self.ranks.size:
            log.warning("%d ranks go on where %d were: dropout will differ", self.ranks.size, len(values["random"]))
