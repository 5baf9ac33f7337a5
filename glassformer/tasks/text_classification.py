"""text-classification: one label, several labels or a number for a text or a pair of texts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.pretrained_config import PretrainedConfig
from ..data.labels import find_label
from ..errors import InputError, nearest
from ..nn.loss import summed_label_loss, text_loss
from ..text.base.encoding_options import one_of
from ..text.base.text_inputs import describe
from .batch import Batch, Example, truncation_note
from .inputs import Columns, Row
from .metrics import by_label, classification, correlation, multi_label
from .objectives import LOSS
from .task_options import TruncationOptions, some
from .text_task import TextTask

FUNCTIONS = {"softmax": lambda logits: logits.softmax(-1), "sigmoid": torch.sigmoid, "none": lambda logits: logits}


def function_for(config: PretrainedConfig) -> str:
    """How the logits of a classifier become the scores that users read: by what it was trained for."""
    if config.problem_type == "regression":
        return "none"
    return "sigmoid" if config.problem_type == "multi_label_classification" or config.num_labels == 1 else "softmax"


@dataclass(frozen=True, kw_only=True)
class TextClassificationOptions(TruncationOptions):
    top_k: int | str | None = "best"  # how many labels, None for all; "best" is the best one, not in a list
    function_to_apply: str | None = None  # "softmax", "sigmoid", "none"; None: what the model was trained for

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.top_k not in ("best", None):
            some("top_k", self.top_k)
        one_of("function_to_apply", self.function_to_apply, (None, "default", *FUNCTIONS))


class TextClassification(TextTask):
    """Which label does a text have?

    >>> pipe = pipeline("sentiment-analysis", model="./sst2/")               # doctest: +SKIP
    >>> pipe("so good")                                                      # doctest: +SKIP
    [{'label': 'POSITIVE', 'score': 0.9998}]
    """

    name = "text-classification"
    aliases = ("sentiment-analysis",)
    head = "sequence-classification"
    columns = Columns(("text",), ("text_pair",), ("label",))
    Options = TextClassificationOptions

    @property
    def kind(self) -> str:
        """What the head is trained for: what its config says, else one label, or a number if there is one output."""
        config = self.model.config
        return config.problem_type or ("regression" if config.num_labels == 1 else "single_label_classification")

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        encoded = self.fit(row["text"], row.get("text_pair"), cut=self.options.cut)
        return [Example(encoded, {"labels": self.target(row["label"])} if row.get("label") is not None else {})]

    def target(self, label: Any) -> Any:
        """A row's label as the loss takes it: a number, an id, or a 0 or 1 for each label."""
        if self.kind == "regression":
            return numbers(label, self.model.config.num_labels)
        several = isinstance(label, list | tuple)
        if self.kind == "single_label_classification" and several:
            raise InputError(
                f"the model chooses one label, got {describe(label)}; the config says problem_type="
                "'multi_label_classification' for several"
            )
        if self.kind == "single_label_classification":
            return self.label_id(label)
        if not several:
            raise InputError(f"a row with several labels holds them in a list, got {describe(label)}")
        chosen = {self.label_id(each) for each in label}
        return [float(i in chosen) for i in range(self.model.config.num_labels)]

    def label_id(self, label: Any) -> int:
        """The number of a label given by name or number."""
        names = self.label_ids
        number = find_label(label, names)
        if number is None:
            known = ", ".join(list(names)[:20])
            raise InputError(f"label {label!r} is not one of {known}{nearest(str(label), names)}")
        return number

    def count_targets(self, batch: Batch) -> dict[str, int]:
        return {LOSS: batch.labels["labels"].numel()}

    @property
    def smooths_labels(self) -> bool:
        return self.kind == "single_label_classification"

    weighs_labels = chooses_labels = smooths_labels

    # --- tensors to answers ------------------------------------------------------------------------------------

    def scores(self, logits: Tensor) -> Tensor:
        """Logits as the scores that users read."""
        asked = self.options.function_to_apply
        return FUNCTIONS[function_for(self.model.config) if asked in (None, "default") else asked](logits)

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        scores, names = self.scores(outputs[0]).tolist(), self.model.config.id2label
        cut = truncation_note(examples)
        best = sorted(range(len(scores)), key=lambda i: -scores[i])
        found = [{"label": names[i], "score": scores[i], **cut} for i in best]
        return found[0] if self.options.top_k == "best" else found[: self.options.top_k]

    def wrap(self, answer: Any, given: Any, asked: Iterable[str]) -> Any:
        return [answer] if isinstance(given, str) and "top_k" not in asked else answer

    # --- training and evaluation -------------------------------------------------------------------------------

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        if self.model.training and self.model.config.problem_type is None:
            self.model.config.problem_type = self.kind  # its files tell what it learnt, and answers are given so
        labels = batch.labels["labels"]
        if self.kind == "single_label_classification":
            return summed_label_loss(logits, labels, self.label_weights, self.label_smoothing)
        return text_loss(logits, labels.view_as(logits), self.kind, reduction="sum")

    @property
    def metrics(self) -> tuple[str, ...]:
        return {
            "regression": ("pearson", "spearman"),
            "single_label_classification": ("accuracy", "f1", "matthews"),
            "multi_label_classification": ("accuracy", "f1_micro", "f1_macro"),
        }[self.kind]

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        if self.kind == "regression":
            return outputs[0].tolist() if len(outputs[0]) > 1 else float(outputs[0])
        if self.kind == "single_label_classification":
            return int(outputs[0].argmax())
        return [int(score > 0) for score in outputs[0]]

    def reference(self, row: Row) -> Any:
        target = self.target(row["label"])
        return [int(each) for each in target] if self.kind == "multi_label_classification" else target

    def metric(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        if self.kind == "regression" and self.model.config.num_labels > 1:
            each = [correlation(*columns) for columns in by_label(predictions, references)]
            return {name: math.fsum(found[name] for found in each) / len(each) for name in self.metrics}
        if self.kind == "regression":
            return correlation(predictions, references)
        if self.kind == "single_label_classification":
            return classification(predictions, references, self.model.config.num_labels)
        return multi_label(predictions, references)


def numbers(label: Any, count: int, name: str = "label") -> float | list[float]:
    """The number, or the numbers, of a row."""
    wanted = "a finite number" if count == 1 else f"{count} finite numbers"
    try:
        read = [float(each) for each in label] if count > 1 else float(label)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be {wanted}, got {describe(label)}") from None
    listed = read if isinstance(read, list) else [read]
    if len(listed) != count or not all(map(math.isfinite, listed)):
        raise InputError(f"{name} must be {wanted}, got {describe(label)}")
    return read
