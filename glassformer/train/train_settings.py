"""Everything that can be set about training, in one checked place; names are those in people's fingers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, nearest, refuse_unknown, suggests
from ..text.base.encoding_options import between, check_whole_number, one_of

PRECISIONS = ("fp32", "bf16", "fp16")
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
    """How to train.

    >>> TrainSettings(output_dir="run", learning_rate=3e-5, num_train_epochs=2).warmup(total=100)
    0
    """

    output_dir: str  # the final model, checkpoint-N folders, log.jsonl, report.html

    num_train_epochs: int = 3
    max_steps: int | None = None  # instead of epochs
    per_device_train_batch_size: int | None = None  # at most so many rows in a batch; None: only tokens count
    tokens_per_batch: int = 4096  # real tokens in a batch at most
    gradient_accumulation_steps: int = 1  # batches of one update, on each rank
    seed: int = 42

    learning_rate: float = 5e-5
    lr_scheduler_type: str = "linear"
    lr_scheduler_kwargs: dict[str, Any] = field(default_factory=dict)
    warmup_steps: int = 0
    warmup_ratio: float = 0.0  # of all steps, when warmup_steps is 0
    weight_decay: float = 0.01  # never of biases and LayerNorm
    adam_beta1: float = 0.9
    adam_beta2: float = 0.999
    adam_epsilon: float = 1e-6
    max_grad_norm: float | None = 1.0  # None or 0: no clipping
    layer_decay: float = 1.0  # how much slower each layer learns than the one above it
    label_smoothing_factor: float = 0.0
    class_weights: bool = False  # let rare labels count as much as frequent ones

    freeze: tuple[str, ...] = ()  # parts by name, such as "bert.embeddings"
    freeze_layers: int = 0  # the embeddings and so many layers above them

    precision: str = "fp32"
    gradient_checkpointing: bool = False
    device: str = "auto"
    fully_shard: bool = False  # under torchrun: split the model over the ranks, for one that is too large for a device
    rank_timeout: float = 600.0  # seconds after which a silent rank ends the job

    logging_steps: int = 10
    eval_steps: int | None = None  # None: after each epoch
    save_steps: int | None = None  # None: after each epoch
    save_total_limit: int | None = 2  # checkpoints that are kept, beside the best; None: all
    metric_for_best_model: str | None = None  # None: the task's first metric, else the loss
    early_stopping_patience: int | None = None  # evaluations without a better one
    load_best_model_at_end: bool = False
    average_checkpoints: int | None = None  # at the end the model is the mean of so many newest checkpoints
    tensorboard: bool = False  # event files for TensorBoard too
    report: bool = True  # report.html at the end

    def __post_init__(self) -> None:
        if not isinstance(self.output_dir, str) or not self.output_dir:
            raise InputError(f"output_dir must name a folder, got {self.output_dir!r}")
        for name in ("num_train_epochs", "tokens_per_batch", "gradient_accumulation_steps", "logging_steps"):
            at_least(name, getattr(self, name), 1)
        for name in ("seed", "warmup_steps", "freeze_layers"):
            at_least(name, getattr(self, name), 0)
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
            between(name, getattr(self, name), low, high)
        if self.max_grad_norm is not None:
            between("max_grad_norm", self.max_grad_norm, 0.0, math.inf)
        for name in (
            "class_weights",
            "fully_shard",
            "gradient_checkpointing",
            "load_best_model_at_end",
            "tensorboard",
            "report",
        ):
            one_of(name, getattr(self, name), (True, False))
        one_of("precision", self.precision, PRECISIONS)
        if self.fully_shard and self.precision == "fp16":
            raise InputError(
                "fully_shard goes with fp32 or bf16: what overflows in fp16 would be told on one rank alone"
            )
        self.check_schedule()
        self.check_average()
        if isinstance(self.freeze, str | list):
            object.__setattr__(self, "freeze", (self.freeze,) if isinstance(self.freeze, str) else tuple(self.freeze))
        if not isinstance(self.freeze, tuple) or not all(isinstance(part, str) for part in self.freeze):
            raise InputError(f"freeze takes names of parts of the model, got {self.freeze!r}")

    def check_average(self) -> None:
        wanted, kept = self.average_checkpoints, self.save_total_limit
        if wanted is not None and kept is not None and kept < wanted:
            raise InputError(
                f"average_checkpoints {wanted} needs as many checkpoints, and save_total_limit keeps {kept}"
            )
        if wanted is not None and self.load_best_model_at_end:
            raise InputError("load_best_model_at_end and average_checkpoints name two models for the end; give one")
        if wanted is not None and self.fully_shard:
            raise InputError("average_checkpoints needs the whole model on every rank: fully_shard splits it")

    def check_schedule(self) -> None:
        if self.lr_scheduler_type not in SCHEDULE_NAMES:
            hint = nearest(str(self.lr_scheduler_type), SCHEDULE_NAMES)
            raise InputError(
                f"lr_scheduler_type must be one of {', '.join(SCHEDULE_NAMES)}, got {self.lr_scheduler_type!r}{hint}"
            )
        if self.warmup_steps and self.warmup_ratio:
            raise InputError("warmup_steps and warmup_ratio both tell how long the learning rate rises; give one")
        if self.lr_scheduler_type == "constant" and (self.warmup_steps or self.warmup_ratio):
            raise InputError("the schedule 'constant' has no warm-up; 'constant_with_warmup' has one")
        if not isinstance(self.lr_scheduler_kwargs, dict):
            raise InputError(f"lr_scheduler_kwargs must be a dictionary, got {self.lr_scheduler_kwargs!r}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], owner: str = "TrainSettings") -> TrainSettings:
        """Settings from names and values as a file has them; a name that is none raises, with the nearest one."""
        refuse_unknown(values, [spec.name for spec in dataclasses.fields(cls)], owner)
        if "output_dir" not in values:
            raise InputError(f"{owner} needs output_dir, the folder to write")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    def warmup(self, total: int) -> int:
        """The steps in which the learning rate rises."""
        return self.warmup_steps or math.ceil(self.warmup_ratio * total)


TrainSettings.__init__ = suggests(TrainSettings.__init__)  # type: ignore[method-assign]


def at_least(name: str, value: Any, least: int) -> None:
    if value is None:
        raise InputError(f"{name} must be a whole number of at least {least}, got None")
    check_whole_number(name, value, least)
