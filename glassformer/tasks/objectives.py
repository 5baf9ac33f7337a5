"""What training minimises and evaluation reports: the objectives of a task and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.loss import IGNORED
from ..text.base.encoding_options import one_of
from .batch import Batch, Example
from .inputs import Columns, Row

LOSS = "loss"  # the name of the objective of a task that has only one


class Objective(NamedTuple):
    """One loss of a task in a batch: a sum, and how many values it is the sum of.

    Sums and counts of several batches can be added; their quotient is the mean over all of them, exactly.
    """

    total: Tensor
    count: int


def combined(objectives: Mapping[str, Objective], counts: Mapping[str, int]) -> Tensor:
    """The loss that is minimised: each objective's sum divided by a count, added up.

    `counts` are those of a whole step, or of the batch alone. An objective with nothing to learn from adds nothing.
    """
    parts = [total * bool(count) / max(counts[name], 1) for name, (total, count) in objectives.items()]
    return reduce(torch.add, parts)


class Objectives:
    """The part of a task that compares outputs of the model with what is right.

    From a batch the model makes `outputs`, once; losses (`objectives_of`) and answers (`split`) are made from them.
    A task with one objective says `loss_of`, of the `target_logits` if it chooses among labels.
    """

    name: ClassVar[str]
    columns: ClassVar[Columns]
    label_smoothing: float = 0.0  # the share of every target that training spreads over all labels
    label_weights: Tensor | None = None  # how much each label counts in training; None: all the same
    objective_names: ClassVar[tuple[str, ...]] = (LOSS,)  # of all that are minimised together
    generates: ClassVar[bool] = False  # predictions need a run of their own, beside that for the loss

    @property
    def smooths_labels(self) -> bool:
        """Whether its loss heeds `label_smoothing`."""
        return False

    @property
    def weighs_labels(self) -> bool:
        """Whether its loss heeds `label_weights`."""
        return False

    @property
    def chooses_labels(self) -> bool:
        """Whether it has `target_logits`, which can be compared with a teacher's."""
        return False

    # --- the model's outputs -----------------------------------------------------------------------------------

    def outputs(self, model: nn.Module, batch: Batch) -> Any:
        """What the model computes from a batch, for losses and answers alike."""
        return self.call(model, batch.inputs).logits

    def call(self, model: nn.Module, inputs: Mapping[str, Tensor]) -> Any:
        raise NotImplementedError

    def split(self, outputs: Any, batch: Batch) -> list[Any]:
        """The outputs of each example alone, on the host."""
        return list(outputs.float().cpu())

    # --- the objectives ----------------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> dict[str, int]:
        """How many values the sum of each objective is the sum of; known before the model runs."""
        return {LOSS: sum(int((labels != IGNORED).sum()) for labels in batch.labels.values())}

    def objectives(self, model: nn.Module, batch: Batch) -> dict[str, Objective]:
        """Every loss of this task in a batch, by name."""
        self.require_labels(batch)
        return self.objectives_of(self.outputs(model, batch), batch)

    def objectives_of(self, outputs: Any, batch: Batch) -> dict[str, Objective]:
        """The same from what `outputs` returned."""
        return {LOSS: Objective(self.loss_of(self.target_logits(outputs, batch), batch), batch.targets_count)}

    def target_logits(self, outputs: Any, batch: Batch) -> Tensor:
        """The scores that the loss judges: a row for each target, or the same number of rows for each."""
        return outputs

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of `target_logits`, summed over targets."""
        raise NotImplementedError(f"{type(self).__name__} has no objective")

    def loss(self, model: nn.Module, batch: Batch, reduction: str = "sum") -> Tensor:
        """All objectives of a batch as one number: the "mean" of each, added up; or that times `targets_count`."""
        one_of("reduction", reduction, ("sum", "mean"))
        found = self.objectives(model, batch)
        if reduction == "sum" and len(found) == 1:
            return next(iter(found.values())).total
        mean = combined(found, batch.counts)
        return mean if reduction == "mean" else mean * batch.targets_count

    def require_labels(self, batch: Batch) -> None:
        """Refuse a batch from which nothing can be learnt."""
        if not batch.labels:
            wanted = ", ".join(self.columns.targets)
            raise InputError(f"{self.name} learns from rows with {wanted}" if wanted else f"{self.name} is not trained")

    # --- evaluation --------------------------------------------------------------------------------------------

    def tally(self, outputs: Any, batch: Batch) -> dict[str, tuple[float, int]]:
        """What evaluation adds up over all batches to means: of each objective, and of what `rates` needs."""
        return {name: (float(total), count) for name, (total, count) in self.objectives_of(outputs, batch).items()}

    @property
    def rate_names(self) -> tuple[str, ...]:
        """The names of what `rates` reports."""
        return ()

    def rates(self, means: Mapping[str, float]) -> dict[str, float]:
        """What evaluation reports beside the loss: from the means over all batches of what `tally` returned."""
        return {}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what `metric` reports, the first of them the one to choose by."""
        return ()

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        """What evaluation holds against `reference(row)`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def reference(self, row: Row) -> Any:
        """The right prediction, as the row states it."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def metric(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """How good predictions are: a number for each name in `metrics`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")
