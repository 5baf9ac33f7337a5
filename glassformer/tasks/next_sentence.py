"""next-sentence: does one text follow another?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ..errors import InputError
from ..nn.loss import summed_label_loss
from .batch import Batch, Example, truncation_note
from .breakdown import Breakdown, label_breakdown
from .inputs import Columns, Row
from .metrics import classification
from .task_options import TruncationOptions
from .text_task import TextTask

LABELS = ("IsNext", "NotNext")  # in the order in which BERT was trained


class NextSentence(TextTask):
    """Classify whether the second text follows the first.

    >>> pipe = pipeline("next-sentence", model="./bert-base-uncased/")       # doctest: +SKIP
    >>> pipe("The cat sat down.", "Then it slept.")                          # doctest: +SKIP
    {'label': 'IsNext', 'score': 0.9999}
    """

    name = "next-sentence"
    aliases = ("next-sentence-prediction",)
    head = "next-sentence"
    columns = Columns(("text", "text_pair"), (), ("label",))
    Options = TruncationOptions

    def encode(self, row: Row) -> list[Example]:
        encoded = self.encode_text(row["text"], row["text_pair"], truncation=self.options.truncation_strategy)
        return [Example(encoded, {"labels": self.reference(row)} if row.get("label") is not None else {})]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> dict[str, Any]:
        scores = outputs[0].softmax(-1)
        best = int(scores.argmax())
        return {"label": LABELS[best], "score": float(scores[best]), **truncation_note(examples)}

    # --- training and evaluation -------------------------------------------------------------------------------

    supports_distillation = True

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        return summed_label_loss(logits, batch.labels["labels"])

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("accuracy", "f1", "matthews")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> int:
        return int(outputs[0].argmax())

    def reference(self, row: Row) -> int:
        label = row["label"]
        if label in LABELS:
            return LABELS.index(label)
        if str(label) in ("0", "1"):
            return int(label)
        raise InputError(f"label must be 0 or 'IsNext', 1 or 'NotNext'; got {label!r}")

    def compute_metrics(self, predictions: Sequence[int], references: Sequence[int]) -> dict[str, float]:
        return classification(predictions, references, len(LABELS))

    def breakdown(self, predictions: Sequence[int], references: Sequence[int]) -> Breakdown:
        return label_breakdown(predictions, references, LABELS)

    def describe_prediction(self, row: Row, prediction: int) -> str:
        return LABELS[prediction]
