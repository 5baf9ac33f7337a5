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
    """

    output_dir: str  # the final model, checkpoint-N folders, log.jsonl, report.html

    num_train_epochs: int = 3
    max_steps: int | None = None  # instead of epochs
    per_device_train_batch_size: int | None = None  # the maximum number of rows in a batch; None: no limit
    tokens_per_batch: int = 4096  # the maximum number of real tokens in a batch
    gradient_accumulation_steps: int = 1  # batches per update, on each rank
    seed: int = 42

    learning_rate: float = 5e-5
    lr_scheduler_type: str = "linear"
    lr_scheduler_kwargs: dict[str, Any] = field(default_factory=dict)
    warmup_steps: int = 0
    warmup_ratio: float = 0.0  # of all steps, when warmup_steps is 0
    optimizer: str = "adamw"  # "adam": weight_decay is added to the gradient (L2), and so is divided by Adam's scale
    weight_decay: float = 0.01  # not applied to biases and LayerNorm
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    max_grad_norm: float | None = 1.0  # None or 0: no clipping
    layer_decay: float = 1.0  # the factor of the learning rate from each layer to the one below it
    label_smoothing_factor: float = 0.0
    class_weights: bool = False  # weight labels by inverse frequency

    freeze: tuple[str, ...] = ()  # parts by name, such as "bert.embeddings"
    freeze_layers: int = 0  # freeze the embeddings and this number of layers above them

    precision: str = "fp32"
    gradient_checkpointing: bool = False
    device: str = "auto"
    fully_shard: bool = False  # under torchrun: shard the model over the ranks (FSDP2), if it is too large for a device
    rank_timeout: float = 600.0  # seconds without an answer after which a rank counts as lost and the job ends

    logging_steps: int = 10
    eval_steps: int | None = None  # None: after each epoch
    save_steps: int | None = None  # None: after each epoch
    save_minutes: float | None = 10.0  # also after so many minutes, even within an epoch, until the next one; None: not
    save_total_limit: int | None = 2  # the number of checkpoints to keep, beside the best; None: all
    metric_for_best_model: str | None = None  # None: the task's first metric, else the loss
    early_stopping_patience: int | None = None  # evaluations without an improvement
    load_best_model_at_end: bool = False
    average_checkpoints: int | None = None  # the final model is the mean of this number of newest checkpoints
    tensorboard: bool = False  # also write event files for TensorBoard
    report: bool = True  # write report.html at the end

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
