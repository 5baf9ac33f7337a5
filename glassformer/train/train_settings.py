"""All settings of training, checked; names are those of transformers' TrainingArguments where they exist there."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, nearest, refuse_unknown, suggests
from ..tasks.task_options import check_at_least
from ..text.base.encoding_options import check_choice, check_range, check_whole_number

PRECISIONS = ("fp32", "bf16", "fp16")
OPTIMIZERS = ("adamw", "adam")
SCHEDULE_NAMES = (
    "linear",
    "cosine",
    "cosine_with_restarts",
    "polynomial",
    "constant",
    "constant_with_warmup",
    "inverse_sqrt",
    "warmup_stable_decay",
)


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The settings of a training run.

    >>> TrainSettings(output_dir="run", learning_rate=3e-5, num_train_epochs=2).warmup(total=100)
    0

    Attributes:
        output_dir: The folder to write: the final model, checkpoint-N folders, log.jsonl and report.html.
        num_train_epochs: How many times all training rows are read.
        max_steps: The number of updates, instead of epochs.
        per_device_train_batch_size: The maximum number of rows in a batch; without it only tokens_per_batch limits
            a batch.
        tokens_per_batch: The maximum number of real tokens in a batch; padding does not count.
        gradient_accumulation_steps: How many batches make one update, on each rank; the gradient is that of one
            large batch.
        seed: The seed of everything random: new weights, the order of rows, dropout, masks.
        learning_rate: The highest learning rate, reached after the warm-up.
        lr_scheduler_type: How the rate changes after the warm-up: linear, cosine, cosine_with_restarts, polynomial,
            constant, constant_with_warmup, inverse_sqrt or warmup_stable_decay.
        lr_scheduler_kwargs: Arguments of that schedule, such as { num_cycles = 2 }.
        warmup_steps: The number of updates in which the rate rises from zero.
        warmup_ratio: The same as a share of all updates; give one of the two.
        optimizer: "adamw", or "adam": weight_decay is added to the gradient (L2), and so is divided by Adam's
            scale.
        weight_decay: By how much weights are pulled to zero; not applied to biases and normalisation.
        adam_beta1: The decay rate of Adam's running mean of gradients.
        adam_beta2: The decay rate of Adam's running mean of squared gradients.
        adam_epsilon: Added to the divisor of Adam's update.
        max_grad_norm: Gradients with a larger norm are scaled down to this one; None or 0: they are not.
        layer_decay: The factor of the learning rate from each layer to the one below it; below 1, lower layers
            learn more slowly.
        label_smoothing_factor: The share of each target that is spread over all labels or words.
        class_weights: Weight labels by their inverse frequency, so that rare ones count as much as frequent ones.
        freeze: Parts that keep their weights, by name, such as ["bert.embeddings"].
        freeze_layers: Freeze the embeddings and this number of layers above them.
        precision: "fp32", "bf16" or "fp16" (mixed precision: weights stay in fp32).
        gradient_checkpointing: Compute activations again in the backward pass instead of keeping them: less memory,
            more time.
        device: "auto": a CUDA device if there is one, else the processor; or "cpu", "cuda", "cuda:1", "mps", ...
        fully_shard: Under torchrun: shard the model over the ranks (FSDP2), if it is too large for one device.
        rank_timeout: Seconds without an answer after which a rank counts as lost and the job ends.
        logging_steps: Log every so many updates.
        eval_steps: Evaluate every so many updates; None: after each epoch.
        save_steps: Save a checkpoint every so many updates; None: after each epoch.
        save_minutes: Also save every so many minutes, even within an epoch; the next checkpoint replaces this one.
            None: never.
        save_total_limit: How many checkpoints to keep, beside the best one; None: all.
        metric_for_best_model: The metric that says which checkpoint is best; None: the task's first one, else the
            loss.
        early_stopping_patience: Stop after this many evaluations without an improvement; None: never.
        load_best_model_at_end: Let the final model be the best checkpoint instead of the last one.
        average_checkpoints: Let the final model be the mean of this many of the newest checkpoints.
        tensorboard: Write event files for TensorBoard too.
        report: Write report.html, with curves, at the end.
    """

    output_dir: str = field(kw_only=False)

    num_train_epochs: int = 3
    max_steps: int | None = None
    per_device_train_batch_size: int | None = None
    tokens_per_batch: int = 4096
    gradient_accumulation_steps: int = 1
    seed: int = 42

    learning_rate: float = 5e-5
    lr_scheduler_type: str = "linear"
    lr_scheduler_kwargs: dict[str, Any] = field(default_factory=dict)
    warmup_steps: int = 0
    warmup_ratio: float = 0.0
    optimizer: str = "adamw"
    weight_decay: float = 0.01
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    max_grad_norm: float | None = 1.0
    layer_decay: float = 1.0
    label_smoothing_factor: float = 0.0
    class_weights: bool = False

    freeze: tuple[str, ...] = ()
    freeze_layers: int = 0

    precision: str = "fp32"
    gradient_checkpointing: bool = False
    device: str = "auto"
    fully_shard: bool = False
    rank_timeout: float = 600.0

    logging_steps: int = 10
    eval_steps: int | None = None
    save_steps: int | None = None
    save_minutes: float | None = 10.0
    save_total_limit: int | None = 2
    metric_for_best_model: str | None = None
    early_stopping_patience: int | None = None
    load_best_model_at_end: bool = False
    average_checkpoints: int | None = None
    tensorboard: bool = False
    report: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.output_dir, str) or not self.output_dir:
            raise InputError(f"output_dir must name a folder, got {self.output_dir!r}")
        for name in ("num_train_epochs", "tokens_per_batch", "gradient_accumulation_steps", "logging_steps"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("seed", "warmup_steps", "freeze_layers"):
            check_at_least(name, getattr(self, name), 0)
        for name in (
            "max_steps",
            "per_device_train_batch_size",
            "eval_steps",
            "save_steps",
            "save_total_limit",
            "early_stopping_patience",
            "average_checkpoints",
        ):
            check_whole_number(name, getattr(self, name), 1)
        for name, low, high in (
            ("learning_rate", 0.0, math.inf),
            ("warmup_ratio", 0.0, 1.0),
            ("weight_decay", 0.0, math.inf),
            ("adam_beta1", 0.0, 1.0),
            ("adam_beta2", 0.0, 1.0),
            ("adam_epsilon", 0.0, math.inf),
            ("layer_decay", 0.0, 1.0),
            ("label_smoothing_factor", 0.0, 1.0),
            ("rank_timeout", 0.0, math.inf),
        ):
            check_range(name, getattr(self, name), low, high)
        for name in ("max_grad_norm", "save_minutes"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 0.0, math.inf)
        for name in (
            "class_weights",
            "fully_shard",
            "gradient_checkpointing",
            "load_best_model_at_end",
            "tensorboard",
            "report",
        ):
            check_choice(name, getattr(self, name), (True, False))
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        if self.fully_shard and self.precision == "fp16":
            raise InputError("fully_shard needs fp32 or bf16: an overflow in fp16 would be detected on one rank alone")
        self.check_schedule()
        self.check_average()
        if isinstance(self.freeze, str | list):
            object.__setattr__(self, "freeze", (self.freeze,) if isinstance(self.freeze, str) else tuple(self.freeze))
        if not isinstance(self.freeze, tuple) or not all(isinstance(part, str) for part in self.freeze):
            raise InputError(f"freeze takes names of parts of the model, got {self.freeze!r}")

    def check_average(self) -> None:
        count, limit = self.average_checkpoints, self.save_total_limit
        if count is None:
            return
        if limit is not None and limit < count:
            raise InputError(
                f"average_checkpoints {count} needs as many checkpoints, and save_total_limit keeps {limit}"
            )
        if self.load_best_model_at_end:
            raise InputError("load_best_model_at_end and average_checkpoints name two models for the end; give one")
        if self.fully_shard:
            raise InputError("average_checkpoints needs the full model on every rank: fully_shard splits it")

    def check_schedule(self) -> None:
        if self.lr_scheduler_type not in SCHEDULE_NAMES:
            hint = nearest(str(self.lr_scheduler_type), SCHEDULE_NAMES)
            raise InputError(
                f"lr_scheduler_type must be one of {', '.join(SCHEDULE_NAMES)}, got {self.lr_scheduler_type!r}{hint}"
            )
        if self.warmup_steps and self.warmup_ratio:
            raise InputError("warmup_steps and warmup_ratio both set the length of the warm-up; give one")
        if self.lr_scheduler_type == "constant" and (self.warmup_steps or self.warmup_ratio):
            raise InputError("the schedule 'constant' has no warm-up; 'constant_with_warmup' has one")
        if not isinstance(self.lr_scheduler_kwargs, dict):
            raise InputError(f"lr_scheduler_kwargs must be a dictionary, got {self.lr_scheduler_kwargs!r}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], owner: str = "TrainSettings") -> TrainSettings:
        """Settings from the values of a file; an unknown name raises, with the nearest valid one."""
        refuse_unknown(values, [spec.name for spec in dataclasses.fields(cls)], owner)
        if "output_dir" not in values:
            raise InputError(f"{owner} needs output_dir, the folder to write")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    def warmup(self, total: int) -> int:
        """The number of steps in which the learning rate rises."""
        return self.warmup_steps or math.ceil(self.warmup_ratio * total)


TrainSettings.__init__ = suggests(TrainSettings.__init__)  # type: ignore[method-assign]
