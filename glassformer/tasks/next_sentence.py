"""next-sentence: does one text follow another?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .batch import Batch, Example, told_cut
from .inputs import Columns, Row
from .metrics import classification
from .task import Task
from .task_options import CutOptions

LABELS = ("IsNext", "NotNext")  # in the order in which BERT was trained


class NextSentence(Task):
    """Does the second text follow the first?

    >>> pipe = pipeline("next-sentence", model="./bert-base-uncased/")       # doctest: +SKIP
    >>> pipe("The cat sat down.", "Then it slept.")                          # doctest: +SKIP
    {'label': 'IsNext', 'score': 0.9999}
    """

    name = "next-sentence"
    aliases = ("next-sentence-prediction",)
    head = "AutoModelForNextSentencePrediction"
    columns = Columns(("text", "text_pair"), (), ("label",))
    Options = CutOptions

    def encode(self, row: Row) -> list[Example]:
        encoded = self.fit(row["text"], row["text_pair"], cut=self.options.cut)
        return [Example(encoded, {"labels": self.reference(row)} if row.get("label") is not None else {})]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> dict[str, Any]:
        scores = outputs[0].softmax(-1)
        best = int(scores.argmax())
        return {"label": LABELS[best], "score": float(scores[best]), **told_cut(examples)}

    # --- training and evaluation -------------------------------------------------------------------------------

    chooses_labels = True

    def target_logits(self, model: nn.Module, batch: Batch) -> Tensor:
        return self.call(model, batch.inputs).logits  # B 2

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(logits, batch.labels["labels"], reduction="sum")

    @property
    def metrics(self) -> tuple[str, ...]:
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

    def metric(self, predictions: Sequence[int], references: Sequence[int]) -> dict[str, float]:
        return classification(predictions, references, len(LABELS))
