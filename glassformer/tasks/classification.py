"""What all tasks share that give a row one label, several labels or a number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.pretrained_config import PretrainedConfig
from ..data.labels import find_label
from ..errors import InputError, nearest
from ..nn.loss import summed_label_loss, text_loss
from ..text.base.encoding_options import check_choice
from ..text.base.text_inputs import describe
from .batch import Batch, Example
from .breakdown import Breakdown, label_breakdown, multi_label_breakdown
from .inputs import Row
from .metrics import by_label, classification, correlation, multi_label
from .objectives import LOSS
from .task import Task
from .task_options import Options, check_at_least

FUNCTIONS = {"softmax": lambda logits: logits.softmax(-1), "sigmoid": torch.sigmoid, "none": lambda logits: logits}


def function_for(config: PretrainedConfig) -> str:
    """The function that turns a classifier's logits into scores, which follows from its training."""
    if config.problem_type == "regression":
        return "none"
    return "sigmoid" if config.problem_type == "multi_label_classification" or config.num_labels == 1 else "softmax"


@dataclass(frozen=True, kw_only=True)
class LabelOptions(Options):
    """Options for the labels in an answer.

    Attributes:
        top_k: How many labels an answer has; None: all, "best": the best one, not in a list.
        function_to_apply: How logits become scores: "softmax", "sigmoid" or "none"; None: as the model was trained.
    """

    top_k: int | str | None = "best"
    function_to_apply: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_k not in ("best", None):
            check_at_least("top_k", self.top_k)
        check_choice("function_to_apply", self.function_to_apply, (None, "default", *FUNCTIONS))


class Classification(Task):
    """A task whose rows have a `label`: one, several, or a number, as the model's config says."""

    @property
    def kind(self) -> str:
        """The head's `problem_type`: that of its config, else single-label, or regression for one output."""
        config = self.model.config
        return config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")

    # --- labels ------------------------------------------------------------------------------------------------

    def target(self, label: Any) -> Any:
        """A row's label as the loss expects it: a number, an id, or a 0 or 1 for each label."""
        if self.kind == "regression":
            return numbers(label, self.model.config.num_labels)
        several = isinstance(label, list | tuple)
        if self.kind == "single_label_classification" and several:
            raise InputError(
                f"the model chooses one label, got {describe(label)}; set problem_type="
                "'multi_label_classification' in the config for several"
            )
        if self.kind == "single_label_classification":
            return self.label_id(label)
        if not several:
            raise InputError(f"a row with several labels holds them in a list, got {describe(label)}")
        chosen = {self.label_id(each) for each in label}
        return [float(i in chosen) for i in range(self.model.config.num_labels)]

    def label_id(self, label: Any) -> int:
        """The id of a label given by name or number."""
        names = self.label_ids
        number = find_label(label, names)
        if number is None:
            known = ", ".join(list(names)[:20])
            raise InputError(f"label {label!r} is not one of {known}{nearest(str(label), names)}")
        return number

    def count_targets(self, batch: Batch) -> dict[str, int]:
        return {LOSS: batch.labels["labels"].numel()}

    @property
    def supports_label_smoothing(self) -> bool:
        return self.kind == "single_label_classification"

    supports_class_weights = supports_distillation = supports_label_smoothing

    # --- answers -----------------------------------------------------------------------------------------------

    def scores(self, logits: Tensor) -> Tensor:
        """Logits as scores."""
        requested = self.options.function_to_apply
        return FUNCTIONS[function_for(self.model.config) if requested in (None, "default") else requested](logits)

    def combined(self, scores: Tensor) -> Tensor:
        """The scores of a row from those of its examples, usually one: E L -> L."""
        return scores[0]

    def labelled(self, outputs: Sequence[Tensor], **more: Any) -> Any:
        """The labels of an answer with their scores, the best first."""
        scores = self.combined(self.scores(torch.stack([*outputs]))).tolist()
        names = self.model.config.id2label
        best = sorted(range(len(scores)), key=lambda i: -scores[i])
        answers = [{"label": names[i], "score": scores[i], **more} for i in best]
        return answers[0] if self.options.top_k == "best" else answers[: self.options.top_k]

    # --- training and evaluation -------------------------------------------------------------------------------

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        if self.model.training and self.model.config.problem_type is None:
            self.model.config.problem_type = self.kind  # saved with the model, which then scores as it was trained
        labels = batch.labels["labels"]
        if self.kind == "single_label_classification":
            return summed_label_loss(logits, labels, self.class_weights, self.label_smoothing)
        return text_loss(logits, labels.view_as(logits), self.kind, reduction="sum")

    @property
    def metric_names(self) -> tuple[str, ...]:
        return {
            "regression": ("pearson", "spearman"),
            "single_label_classification": ("accuracy", "f1", "matthews"),
            "multi_label_classification": ("accuracy", "f1_micro", "f1_macro"),
        }[self.kind]

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        single = len(outputs) == 1
        function = FUNCTIONS["none" if single else function_for(self.model.config)]
        scores = self.combined(function(torch.stack([*outputs])))
        if self.kind == "regression":
            return scores.tolist() if len(scores) > 1 else float(scores)
        if self.kind == "single_label_classification":
            return int(scores.argmax())
        return [int(score > (0 if single else 0.5)) for score in scores]

    def reference(self, row: Row) -> Any:
        target = self.target(row["label"])
        return [int(each) for each in target] if self.kind == "multi_label_classification" else target

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        if self.kind == "regression" and self.model.config.num_labels > 1:
            each = [correlation(*columns) for columns in by_label(predictions, references)]
            return {name: math.fsum(metrics[name] for metrics in each) / len(each) for name in self.metric_names}
        if self.kind == "regression":
            return correlation(predictions, references)
        if self.kind == "single_label_classification":
            return classification(predictions, references, self.model.config.num_labels)
        return multi_label(predictions, references)

    @property
    def label_names(self) -> list[str]:
        """The names of labels 0, 1, ..."""
        known = self.model.config.id2label
        return [str(known.get(number, number)) for number in range(self.model.config.num_labels)]

    def breakdown(self, predictions: Sequence[Any], references: Sequence[Any]) -> Breakdown | None:
        if self.kind == "regression":
            return None
        by_class = label_breakdown if self.kind == "single_label_classification" else multi_label_breakdown
        return by_class(predictions, references, self.label_names)

    def describe_prediction(self, row: Row, prediction: Any) -> str:
        if self.kind == "single_label_classification":
            return self.label_names[prediction]
        values = prediction if isinstance(prediction, list) else [prediction]
        if self.kind == "regression":
            return ", ".join(f"{value:.4g}" for value in values)
        return ", ".join(name for name, value in zip(self.label_names, values, strict=True) if value) or "none"


def numbers(label: Any, count: int, name: str = "label") -> float | list[float]:
    """The number, or the numbers, of a row."""
    expected = "a finite number" if count == 1 else f"{count} finite numbers"
    try:
        read = [float(each) for each in label] if count > 1 else float(label)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be {expected}, got {describe(label)}") from None
    listed = read if isinstance(read, list) else [read]
    if len(listed) != count or not all(map(math.isfinite, listed)):
        raise InputError(f"{name} must be {expected}, got {describe(label)}")
    return read
