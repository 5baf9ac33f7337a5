"""The trainer: trains a task's model on rows; stopped at any moment, it resumes exactly."""

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

from ..checkpoints.files import write_atomically
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import CheckpointError, GlassformerError, InputError, suggests
from ..models.base.parameters import count_parameters
from ..models.base.pretrained_model import PreTrainedModel
from ..nn.quantize import refuse_quantized
from ..tasks.task import Task
from . import checkpoint
from .batches import Batches
from .distill import Distillation, DistillSettings
from .distributed import SINGLE_PROCESS, ProcessGroup, join_process_group
from .evaluation import evaluate_batches, evaluation_batches
from .optimizer import make_optimizer, parameter_groups
from .randomness import load_random_state, preserve_random_state, random_state, set_seed
from .reporting.run_log import RunLog
from .reporting.run_report import write_report
from .result import RESULT, Progress, TrainResult
from .run_folder import RunFolder
from .setup import (
    balanced_class_weights,
    catch_signals,
    check_arguments,
    check_final_model,
    choose_device,
    freeze_parts,
    go_to_step,
    make_schedule,
    warn_changed_settings,
    with_label_smoothing,
)
from .sharding import Sharded
from .step import PRECISIONS, StepResult, step_errors, take_step
from .streamed_batches import StreamedBatches
from .train_settings import TrainSettings

log = logging.getLogger("glassformer")


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
        buffer: int | None = None,  # stream the rows while training, with this many of them in memory
    ) -> None:
        check_arguments(task, settings)
        refuse_quantized(task.trainable, "trained")
        for model in task.trained_models:
            model.config.refuse_functions()  # the result could not be saved
        self.task, self.settings = task, settings
        train_rows = list(train_rows) if buffer is None else train_rows
        self.training_task: Any = with_label_smoothing(task, settings.label_smoothing_factor)
        self.folder = Path(settings.output_dir)
        self.device = choose_device(settings.device)
        self.process_group: ProcessGroup = join_process_group(settings.rank_timeout, self.device)
        self.model = task.trainable.to(self.device)
        if settings.class_weights:
            self.training_task.class_weights = balanced_class_weights(task, train_rows).to(self.device)
        if teacher is not None:
            distill = distill or DistillSettings(teacher="given")
            self.training_task = Distillation(self.training_task, teacher, distill)
        freeze_parts(task, settings)
        self.sharded: Sharded | None = None
        if settings.fully_shard:
            self.process_group.broadcast(self.model.state_dict().values())
            self.sharded = Sharded(task, self.process_group)
            self.process_group = replace(self.process_group, shards=True)
            self.training_task = self.sharded.wrap_task(self.training_task)
        if settings.gradient_checkpointing:
            for model in task.trained_models:
                model.gradient_checkpointing_enable()
        self.batches = self.make_batches(train_rows, buffer)
        self.total = settings.max_steps or self.batches.count_steps(settings.num_train_epochs)
        self.eval_rows = None if eval_rows is None else list(eval_rows)
        self.eval_batches = None if self.eval_rows is None else evaluation_batches(task, self.eval_rows, **self.budget)
        self.best_metric_name()  # raises now instead of at the end
        check_final_model(task, settings, self.total, can_evaluate=self.eval_rows is not None)
        self.optimizer = make_optimizer(
            settings.optimizer,
            parameter_groups(self.model, settings.learning_rate, settings.weight_decay, settings.layer_decay),
            lr=settings.learning_rate,
            betas=(settings.adam_beta1, settings.adam_beta2),
            eps=settings.adam_epsilon,
        )
        self.schedule = make_schedule(settings, self.optimizer, self.total)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=settings.precision == "fp16")
        self.run_folder: RunFolder | None = None  # of the main process, while it trains
        self.progress = Progress()
        self.metrics: dict[str, float] = {}
        self.unscheduled = False  # the last checkpoint: saved by a signal or the clock, before what is due was done
        self.saved_at = time.monotonic()

    @property
    def budget(self) -> dict[str, Any]:
        """The maximum size of a batch."""
        return {"max_tokens": self.settings.tokens_per_batch, "max_rows": self.settings.per_device_train_batch_size}

    def make_batches(self, rows: Any, buffer: int | None) -> Batches | StreamedBatches:
        batches_per_step = self.settings.gradient_accumulation_steps * self.process_group.size
        sizes: dict[str, Any] = {**self.budget, "batches_per_step": batches_per_step, "seed": self.settings.seed}
        if buffer is None:
            return Batches(self.task, rows, **sizes)
        return StreamedBatches(self.task, rows, buffer=buffer, **sizes)

    # --- training ----------------------------------------------------------------------------------------------

    def train(self, resume: bool | str | os.PathLike = False) -> TrainResult:
        """Train to the end, until a signal, or until early stopping.

        `resume` continues from the newest checkpoint in `output_dir` (from the beginning if there is none), or from the
        given one.
        """
        with contextlib.ExitStack() as locks:
            self.process_group.run_on_main(lambda: self.lock_folder(bool(resume), locks))
            self.initialise(resume)
            return self.finish(self.run())

    def lock_folder(self, resume: bool, locks: contextlib.ExitStack) -> None:
        """Reserve the folder for this run, until the locks are released."""
        if self.progress.step == 0:
            checkpoint.refuse_used_folder(self.folder, resume)
        self.run_folder = locks.enter_context(RunFolder(self.folder))
        checkpoint.remove_leftovers(self.folder)

    def initialise(self, resume: bool | str | os.PathLike) -> None:
        """Start with the same weights on all ranks, or from a checkpoint."""
        checkpoints = checkpoint.checkpoints_in(self.folder)
        if resume is True and checkpoints:
            *older, newest = checkpoints.values()
            try:
                self.load(newest)
            except CheckpointError as error:
                hint = f"; without {newest} the run resumes from {older[-1]}" if older else ""
                raise type(error)(f"{error}{hint}") from None
        elif not isinstance(resume, bool):
            self.load(Path(resume))
            later = [path.name for step, path in checkpoints.items() if step > self.progress.step]
            if later:
                log.warning("going back: this run will remove %s, of later steps, when it saves", ", ".join(later))
        elif self.progress.step == 0:
            self.task.forget(training=True)
            set_seed(self.settings.seed + self.process_group.rank)
            if self.sharded is None:
                self.process_group.broadcast(self.model.state_dict().values())

    def run(self) -> str | None:
        """Take all remaining steps; returns the reason for stopping early, if there is one."""
        self.log = RunLog(
            self.folder,
            self.total,
            writes=self.process_group.is_main,
            tensorboard=self.settings.tensorboard,
            restore=None if self.run_folder is None else self.run_folder.restore,
        )
        self.log.resume_from(self.progress.step)
        stopped_by = "early stopping" if self.should_stop_early and self.progress.step < self.total else None
        self.model.train()
        self.saved_at = time.monotonic()
        try:
            with catch_signals() as caught:
                if self.unscheduled:
                    stopped_by = self.evaluate_and_save_if_due(caught)
                while self.progress.step < self.total and stopped_by is None:
                    began = time.monotonic()
                    self.record_step(self.train_step(self.next_rows()))
                    self.progress.seconds += time.monotonic() - began
                    stopped_by = self.evaluate_and_save_if_due(caught)
        finally:
            self.log.close()
            self.model.eval()
        return stopped_by

    def next_rows(self) -> list[list[int]]:
        """The rows of the next step. If streamed ones cannot be read, a checkpoint of the steps before is saved."""
        try:
            return next(self.batches)
        except GlassformerError as error:
            if self.progress.step == 0:
                raise
            saved = self.folder / f"checkpoint-{self.progress.step}"
            outcome = f"the training so far is saved in {saved}, and can be resumed"
            try:
                self.save()
            except GlassformerError as problem:
                outcome = f"the training so far could not be saved: {problem}"
            raise type(error)(f"{error}; {outcome}") from None

    def train_step(self, rows: list[list[int]]) -> StepResult:
        """One update from this rank's share of a step's batches."""
        mine = [self.batches.collate(numbers) for numbers in rows[self.process_group.rank :: self.process_group.size]]
        if self.sharded is not None and len(mine) < math.ceil(len(rows) / self.process_group.size):
            mine.append(self.batches.collate(rows[0]).without_targets())  # all ranks must run the layers together
        with step_errors(self.progress.step + 1, self.settings.tokens_per_batch):
            result = take_step(
                self.training_task,
                self.model,
                mine,
                self.optimizer,
                clip=self.settings.max_grad_norm or None,
                precision=PRECISIONS[self.settings.precision],
                scaler=self.scaler,
                process_group=self.process_group,
                name_row=self.batches.name_row,
            )
        self.rate = max(self.schedule.get_last_lr())  # of the step that was taken
        self.schedule.step()
        return result

    def record_step(self, result: StepResult) -> None:
        """Count a step, and log it if that is due."""
        self.progress.add(result)
        self.log.count_step(self.progress.step, result, self.rate)
        if self.progress.step % self.settings.logging_steps == 0 or self.progress.step == self.total:
            self.log.log_steps(self.progress, result, self.rate, self.batches.epochs_done)
            self.progress.reset_log()

    def evaluate_and_save_if_due(self, caught: list[str]) -> str | None:
        """After a step: evaluate and save if that is due; returns the reason to stop, if there is one.

        A signal does not wait for an evaluation: what was due is done when the run is resumed.
        """
        step, settings = self.progress.step, self.settings
        by_rank = self.process_group.gather((list(caught), self.is_clock_due))
        signal = next((name for names, _ in by_rank for name in names), None)
        if signal is not None:
            self.save(unscheduled=True)
            return signal
        at_end = step == self.total

        def due(every: int | None) -> bool:
            return at_end or (self.batches.at_epoch_end if every is None else step % every == 0)

        improved = stops_early = False
        evaluates = bool(self.eval_rows) and due(settings.eval_steps)
        if evaluates:
            improved = self.evaluate_and_log()
            stops_early = self.should_stop_early
        if improved or stops_early or due(settings.save_steps):
            self.save()
        elif by_rank[0][1] and not evaluates:  # an evaluation is not repeated by a run that resumes here
            self.save(unscheduled=True)
        return "early stopping" if stops_early and not at_end else None

    @property
    def is_clock_due(self) -> bool:
        """Whether so much time has passed since the last checkpoint that another one is saved by the clock."""
        minutes = self.settings.save_minutes
        return minutes is not None and time.monotonic() - self.saved_at >= 60 * minutes

    @property
    def should_stop_early(self) -> bool:
        """Whether too many evaluations have passed without an improvement."""
        patience = self.settings.early_stopping_patience
        return patience is not None and self.progress.waited >= patience

    def evaluate_and_log(self) -> bool:
        """Evaluate; returns whether this is the best evaluation so far."""
        self.metrics = self.evaluate()
        self.log.add({"step": self.progress.step, **{f"eval_{name}": value for name, value in self.metrics.items()}})
        return self.progress.add_evaluation(self.metrics, self.best_metric_name())

    def best_metric_name(self) -> str:
        """The name of the metric that selects the best model."""
        known = (*self.task.metric_names, "loss", *self.task.mean_metric_names)
        requested = self.settings.metric_for_best_model
        if requested is not None and requested not in known:
            raise InputError(f"metric_for_best_model must be one of {', '.join(known)}, got {requested!r}")
        return requested or known[0]

    def evaluate(self, rows: Iterable[Any] | None = None) -> dict[str, float]:
        """Loss and metrics on the evaluation rows, or on others."""
        eval_rows, batches = self.eval_rows, self.eval_batches
        if rows is not None:
            eval_rows = list(rows)
            batches = evaluation_batches(self.task, eval_rows, **self.budget)
        if eval_rows is None or batches is None:
            raise InputError("there are no rows to evaluate on: pass some to evaluate, or eval_rows to the Trainer")
        task, group = self.task, self.process_group
        if self.sharded is not None:  # all ranks evaluate all rows, since they run every layer together
            task, group = self.sharded.wrap_task(task), SINGLE_PROCESS
        with preserve_random_state():
            return evaluate_batches(task, eval_rows, batches, group)

    def full_model(self) -> nn.Module:
        """The model as it is saved; all ranks must call this at the same time."""
        return self.model if self.sharded is None else self.sharded.gather_model()

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
            self.task.model.load_report.initialised.clear()  # a new head is trained now
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
            model = self.full_model()
            self.process_group.run_on_main(lambda: self.write_results(model, result))
        return result

    def write_results(self, model: nn.Module, result: TrainResult) -> None:
        """Write the trained model, the report, and last the file that marks the run as finished."""
        if self.run_folder is not None:
            self.run_folder.restore()
        checkpoint.write_model(self.folder, self.task, model)
        if self.settings.report:
            write_report(self.folder, self.task, self.settings, result)
        write_atomically(self.folder / RESULT, json.dumps(vars(result), indent=2) + "\n")

    # --- saving and resuming -----------------------------------------------------------------------------------

    @property
    def all_settings(self) -> dict[str, Any]:
        """What should not change when a run is resumed: the settings, the options of the task, the model's config."""
        config = getattr(self.task.model, "config", None)
        fields = config.shaping_fields() if isinstance(config, PretrainedConfig) else {}
        options = {name: value for name, value in vars(self.task.options).items() if not callable(value)}
        return {**self.settings.to_dict(), **{f"options.{name}": str(value) for name, value in options.items()}} | {
            f"config.{name}": value for name, value in fields.items()
        }

    def save(self, unscheduled: bool = False) -> None:
        """Write a checkpoint of the current state, and remove old ones beyond the limit."""
        progress = self.progress
        values = {
            **vars(progress),
            "total_steps": self.total,
            "data": self.batches.state_dict(),
            "scaler": self.scaler.state_dict(),
            "random": self.process_group.gather(random_state()),
            "task": self.task.name,
            "settings": self.all_settings,
            "metrics": self.metrics,
        }
        model, tensors = self.full_model(), {}
        if self.process_group.is_main or self.sharded is not None:
            tensors = checkpoint.optimizer_tensors(self.optimizer)

        def write() -> None:
            if self.run_folder is not None:
                self.run_folder.restore()
            checkpoint.write_checkpoint(self.folder, progress.step, self.task, model, tensors, values, unscheduled)
            best = None if progress.best is None else progress.best["step"]
            checkpoint.remove_old_checkpoints(self.folder, progress.step, self.settings.save_total_limit, best)

        for carried in self.process_group.gather(self.task.memory_tensors()):
            tensors |= carried
        self.process_group.run_on_main(write)
        self.saved_at, self.unscheduled = time.monotonic(), unscheduled

    def load(self, folder: Path) -> None:
        """Restore the state of a checkpoint."""
        tensors, values = checkpoint.read_checkpoint(folder)
        if values["task"] != self.task.name:
            raise InputError(f"{folder} was training {values['task']}, and this is {self.task.name}")
        warn_changed_settings(values["settings"], self.all_settings)
        with checkpoint.reading_values(folder):
            self.batches.load_state_dict(values["data"])
        checkpoint.load_model(folder, self.task)
        carried = {name: tensors.pop(name) for name in list(tensors) if name.startswith("memory:")}
        self.task.load_memory(carried)
        checkpoint.load_optimizer(self.optimizer, tensors)
        self.unscheduled = (folder / checkpoint.UNSCHEDULED).exists()
        self.metrics = values["metrics"]
        with checkpoint.reading_values(folder):
            if values["scaler"] and self.scaler.is_enabled():
                self.scaler.load_state_dict(values["scaler"])
            self.progress = Progress(**{name: values[name] for name in vars(Progress()) if name in values})
            go_to_step(self.schedule, self.progress.step)
            best = self.progress.best
            if self.settings.load_best_model_at_end and best is not None:
                checkpoint.require_best(self.folder, best["step"], folder)
            if self.process_group.rank < len(values["random"]):
                load_random_state(values["random"][self.process_group.rank])
        if len(values["random"]) != self.process_group.size:
            message = "%d ranks resume a run of %d: dropout will differ"
            log.warning(message, self.process_group.size, len(values["random"]))
