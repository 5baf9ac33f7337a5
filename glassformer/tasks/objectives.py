"""What training minimises and evaluation reports: the objectives of a task and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.loss import IGNORED
from ..text.base.encoding_options import check_choice
from .batch import Batch, Example
from .breakdown import Breakdown
from .inputs import Columns, Row

LOSS = "loss"  # the objective's name in tasks that have only one


class Objective(NamedTuple):
    """One loss of a task in a batch: its sum over targets, and the number of these targets.

    Sums and counts of several batches can be added; their quotient is exactly the mean over all of them.
    """

    total: Tensor
    count: int


def combine_objectives(objectives: Mapping[str, Objective], counts: Mapping[str, int]) -> Tensor:
    """The loss to minimise: the sum of all objectives, each divided by its own count.

    `counts` are those of the entire step, or of the batch alone. An objective without targets contributes nothing.
    """
    parts = [total * bool(count) / max(counts[name], 1) for name, (total, count) in objectives.items()]
    return reduce(torch.add, parts)


class Objectives:
    """The part of a task that compares the model's outputs with targets.

    The model runs once per batch (`outputs`); losses (`objectives_of`) and answers (`split`) are computed from that
    result. A task with one objective implements `loss_of`, and `target_logits` if it can be distilled.
    """

    name: ClassVar[str]
    columns: ClassVar[Columns]
    label_smoothing: float = 0.0  # in training
    class_weights: Tensor | None = None  # in training; None: all labels have the same weight
    objective_names: ClassVar[tuple[str, ...]] = (LOSS,)
    generates: ClassVar[bool] = False  # predictions come from `generate`, and need a second run beside the loss

    @property
    def title(self) -> str:
        """What messages about its objective call the task."""
        return self.name

    @property
    def supports_label_smoothing(self) -> bool:
        """Whether the loss uses `label_smoothing`."""
        return False

    @property
    def supports_class_weights(self) -> bool:
        """Whether the loss uses `class_weights`."""
        return False

    @property
    def supports_distillation(self) -> bool:
        """Whether `target_logits` can be compared with those of a teacher."""
        return False

    # --- the model's outputs -----------------------------------------------------------------------------------

    def outputs(self, model: nn.Module, batch: Batch) -> Any:
        """The model's outputs for a batch, from which losses and answers are computed."""
        return self.call(model, batch.inputs).logits

    def call(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
        raise NotImplementedError

    def split(self, outputs: Any, batch: Batch) -> list[Any]:
        """The outputs of each example, on the CPU."""
        return list(outputs.float().cpu())

    # --- objectives --------------------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> dict[str, int]:
        """The number of targets of each objective, known before the model runs."""
        return {LOSS: sum(int((labels != IGNORED).sum()) for labels in batch.labels.values())}

    def objectives(self, model: nn.Module, batch: Batch) -> dict[str, Objective]:
        """Every objective of this task for a batch, by name."""
        self.require_labels(batch)
        return self.objectives_of(self.outputs(model, batch), batch)

    def objectives_of(self, outputs: Any, batch: Batch) -> dict[str, Objective]:
        """The same from the result of `outputs`."""
        return {LOSS: Objective(self.loss_of(self.target_logits(outputs, batch), batch), batch.targets_count)}

    def target_logits(self, outputs: Any, batch: Batch) -> Tensor:
        """The logits that the loss compares with targets: the same number of rows for each target."""
        return outputs

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of `target_logits`, summed over targets."""
        raise NotImplementedError(f"{type(self).__name__} has no objective")

    def loss(self, model: nn.Module, batch: Batch, reduction: str = "sum") -> Tensor:
        """All objectives of a batch as one number: the sum of their means ("mean"), or that times `targets_count`."""
        check_choice("reduction", reduction, ("sum", "mean"))
        sums = self.objectives(model, batch)
        if reduction == "sum" and len(sums) == 1:
            return next(iter(sums.values())).total
        mean = combine_objectives(sums, batch.counts)
        return mean if reduction == "mean" else mean * batch.targets_count

    def require_labels(self, batch: Batch) -> None:
        """Raise if a batch has no targets."""
        if not batch.labels:
            targets = ", ".join(self.columns.targets)
            raise InputError(
                f"{self.name} is trained on rows with {targets}" if targets else f"{self.name} is not trained"
            )

    # --- evaluation --------------------------------------------------------------------------------------------

    def evaluation_sums(self, outputs: Any, batch: Batch) -> dict[str, tuple[float, int]]:
        """Sums and counts for the means over all batches: of each objective, and of all that `mean_metrics` needs."""
        objectives = self.objectives_of(outputs, batch)
        sums = {name: (float(total), count) for name, (total, count) in objectives.items()}
        return {**sums, **self.metric_sums(outputs, batch)}

    def metric_sums(self, outputs: Any, batch: Batch) -> dict[str, tuple[float, int]]:
        """Sums and counts of what `mean_metrics` needs beside the objectives."""
        return {}

    @property
    def mean_metric_names(self) -> tuple[str, ...]:
        """The names of the `mean_metrics`."""
        return ()

    def mean_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        """Metrics that follow from the means of `evaluation_sums` over all batches, such as the perplexity."""
        return {}

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The names of what `compute_metrics` returns; the first selects the best model by default."""
        return ()

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        """The prediction that evaluation compares with `reference(row)`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def reference(self, row: Row) -> Any:
        """The correct prediction according to the row."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def compute_metrics(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """A number for each of the `metric_names`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    # --- evaluation, row by row and class by class -------------------------------------------------------------

    def breakdown(self, predictions: Sequence[Any], references: Sequence[Any]) -> Breakdown | None:
        """The figures of each class; None for a task without classes."""
        return None

    def describe_prediction(self, row: Row, prediction: Any) -> str:
        """A prediction as people read it."""
        return str(prediction)

    def describe_reference(self, row: Row, reference: Any) -> str:
        """The correct prediction as people read it."""
        return self.describe_prediction(row, reference)

    def select_outputs(self, outputs: Any, batch: Batch, examples: Sequence[int]) -> Any:
        """The part of `outputs` that belongs to some examples of the batch, given by ascending index."""
        chosen = list(examples)
        return tuple(each[chosen] for each in outputs) if isinstance(outputs, tuple) else outputs[chosen]

    def row_losses(self, outputs: Any, batch: Batch) -> dict[int, float]:
        """The loss of each row of a batch, as if it were the only one."""
        by_row: dict[int, list[int]] = {}
        for index, example in enumerate(batch.examples):
            by_row.setdefault(example.row, []).append(index)
        losses = {}
        for row, examples in by_row.items():
            part = batch.select(examples)
            part.counts = self.count_targets(part)
            found = self.objectives_of(self.select_outputs(outputs, batch, examples), part)
            losses[row] = float(combine_objectives(found, part.counts))
        return losses
