"""multiple-choice: which of several texts fits a prompt best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..data.choices import read_choices
from ..data.file_row import Row as FileRow
from ..errors import InputError
from ..nn.loss import summed_choice_loss
from .batch import Batch, Example, examples_per_row, split_by_row, truncation_note
from .inputs import Columns, Row
from .metrics import ratio
from .objectives import LOSS
from .task_options import TruncationOptions
from .text_task import TextTask


class MultipleChoice(TextTask):
    """Choose the text that fits a prompt best.

    >>> pipe = pipeline("multiple-choice", model="./swag/")                             # doctest: +SKIP
    >>> pipe(prompt="The cat is hungry.", choices=["It eats.", "It flies."])            # doctest: +SKIP
    {'answer': 'It eats.', 'index': 0, 'score': 0.97, 'scores': [0.97, 0.03]}

    Every choice is an example of its own, numbered like the windows of other tasks.
    """

    name = "multiple-choice"
    head = "multiple-choice"
    columns = Columns(("prompt", "choices"), (), ("label",), lists=("choices",))
    Options = TruncationOptions

    # --- rows to tensors ---------------------------------------------------------------------------------------

    @classmethod
    def from_published(cls, row: FileRow) -> FileRow:
        return read_choices(row)

    def is_single_row(self, given: Any) -> bool:
        return isinstance(given, Mapping) or (
            isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], list | tuple)
        )

    def encode(self, row: Row) -> list[Example]:
        correct = self.reference(row) if row.get("label") is not None else None
        return [
            Example(
                self.encode_text(row["prompt"], choice, truncation=self.options.truncation_strategy),
                {} if correct is None else {"labels": int(i == correct)},
                window=i,
            )
            for i, choice in enumerate(row["choices"])
        ]

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        inputs = super().collate_inputs(examples, labels)
        return {name: tensor[:, None] for name, tensor in inputs.items()}  # N 1 T: rows may differ in choices

    def count_targets(self, batch: Batch) -> dict[str, int]:
        return {LOSS: len(examples_per_row(batch.examples))}

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> dict[str, Any]:
        scores = torch.cat(list(outputs)).softmax(-1).tolist()
        best = max(range(len(scores)), key=scores.__getitem__)
        answer = {"answer": row["choices"][best], "index": best, "score": scores[best], "scores": scores}
        return {**answer, **truncation_note(examples)}

    # --- training and evaluation -------------------------------------------------------------------------------

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        groups = split_by_row(batch.examples, logits.squeeze(1), batch.labels["labels"])
        return summed_choice_loss(*zip(*groups, strict=True))

    @property
    def metric_names(self) -> tuple[str, ...]:
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

    def compute_metrics(self, predictions: Sequence[int], references: Sequence[int]) -> dict[str, float]:
        hits = sum(predicted == correct for predicted, correct in zip(predictions, references, strict=True))
        return {"accuracy": ratio(hits, len(references))}

    def describe_prediction(self, row: Row, prediction: int) -> str:
        return row["choices"][prediction]
