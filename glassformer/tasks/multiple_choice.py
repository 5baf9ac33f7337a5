"""multiple-choice: which of several texts goes best with a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .batch import Batch, Example, group_sizes, grouped, told_cut
from .inputs import Columns, Row
from .metrics import ratio
from .task import Task
from .task_options import CutOptions


class MultipleChoice(Task):
    """Which choice fits?

    >>> pipe = pipeline("multiple-choice", model="./swag/")                             # doctest: +SKIP
    >>> pipe(prompt="The cat is hungry.", choices=["It eats.", "It flies."])            # doctest: +SKIP
    {'answer': 'It eats.', 'index': 0, 'score': 0.97, 'scores': [0.97, 0.03]}

    Every choice is an example of its own, numbered as the windows of other tasks are.
    """

    name = "multiple-choice"
    head = "AutoModelForMultipleChoice"
    columns = Columns(("prompt", "choices"), (), ("label",), lists=("choices",))
    Options = CutOptions

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping) or (
            isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], list | tuple)
        )

    def encode(self, row: Row) -> list[Example]:
        right = self.reference(row) if row.get("label") is not None else None
        return [
            Example(
                self.fit(row["prompt"], choice, cut=self.options.cut),
                {} if right is None else {"labels": int(i == right)},
                window=i,
            )
            for i, choice in enumerate(row["choices"])
        ]

    def collate(self, examples: Sequence[Example]) -> Batch:
        batch = super().collate(examples)
        batch.inputs = {name: tensor[:, None] for name, tensor in batch.inputs.items()}  # N 1 T: rows may differ
        return batch

    def count_targets(self, batch: Batch) -> int:
        return len(group_sizes(batch.examples))

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> dict[str, Any]:
        scores = torch.cat(list(outputs)).softmax(-1).tolist()
        best = max(range(len(scores)), key=scores.__getitem__)
        told = {"answer": row["choices"][best], "index": best, "score": scores[best], "scores": scores}
        return {**told, **told_cut(examples)}

    # --- training and evaluation -------------------------------------------------------------------------------

    def summed_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        logits = self.call(model, batch.inputs).logits.squeeze(1)  # N
        groups = grouped(batch.examples, logits, batch.labels["labels"])
        return torch.stack([-(scores.log_softmax(0) * right).sum() for scores, right in groups]).sum()

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("accuracy",)

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> int:
        return self.answer(row, examples, outputs)["index"]

    def reference(self, row: Row) -> int:
        label, choices = row["label"], row["choices"]
        if label in choices:
            return list(choices).index(label)
        if str(label).isdecimal() and int(label) < len(choices):
            return int(label)
        raise InputError(f"label must be one of the {len(choices)} choices or its number from 0, got {label!r}")

    def metric(self, predictions: Sequence[int], references: Sequence[int]) -> dict[str, float]:
        hits = sum(mine == right for mine, right in zip(predictions, references, strict=True))
        return {"accuracy": ratio(hits, len(references))}
