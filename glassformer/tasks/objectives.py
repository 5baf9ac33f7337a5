"""What training makes small and evaluation reports: the loss of a task and its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from torch import Tensor, nn

from ..errors import InputError
from ..nn.loss import IGNORED
from ..text.base.encoding_options import one_of
from .batch import Batch, Example
from .inputs import Columns, Row


class Learns:
    """The part of a task that compares what the model says with what is right.

    A task that chooses among labels says `target_logits` and `loss_of`; one that does not says `summed_loss`.
    """

    name: ClassVar[str]
    columns: ClassVar[Columns]
    label_smoothing: float = 0.0  # the share of every target that training spreads over all labels
    label_weights: Tensor | None = None  # how much each label counts in training; None: all the same

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
        """Whether it has `target_logits`, about which a teacher can tell something."""
        return False

    # --- the loss ----------------------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> int:
        """How many values a summed loss is the sum of."""
        return sum(int((labels != IGNORED).sum()) for labels in batch.labels.values())

    def loss(self, model: nn.Module, batch: Batch, reduction: str = "sum") -> Tensor:
        """What training makes small: the "sum" over `batch.targets_count` values, or their "mean"."""
        one_of("reduction", reduction, ("sum", "mean"))
        if not batch.labels:
            wanted = ", ".join(self.columns.targets)
            raise InputError(f"{self.name} learns from rows with {wanted}" if wanted else f"{self.name} is not trained")
        total = self.summed_loss(model, batch)
        return total if reduction == "sum" else total / batch.targets_count

    def summed_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.loss_of(self.target_logits(model, batch), batch)

    def target_logits(self, model: nn.Module, batch: Batch) -> Tensor:
        """The scores that the loss judges: a row for each target, or the same number of rows for each."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns")

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of `target_logits`, summed over targets."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it learns")

    def tally(self, model: nn.Module, batch: Batch) -> dict[str, float]:
        """What evaluation sums over all batches: the loss, how many values it is the sum of, and what `rates` needs."""
        return {"loss": float(self.loss(model, batch, reduction="sum")), "targets": batch.targets_count}

    @property
    def rate_names(self) -> tuple[str, ...]:
        """The names of what `rates` tells."""
        return ()

    def rates(self, sums: Mapping[str, float]) -> dict[str, float]:
        """What the sums of `tally` over all batches tell beside the mean loss."""
        return {}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what `metric` reports, the first of them the one to choose by."""
        return ()

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        """What evaluation holds against `reference(row)`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def reference(self, row: Row) -> Any:
        """The right prediction, as the row tells it."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")

    def metric(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """How good predictions are: a number for each name in `metrics`."""
        raise NotImplementedError(f"{type(self).__name__} is not evaluated")
