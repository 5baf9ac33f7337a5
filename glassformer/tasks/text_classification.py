"""text-classification: one label, several labels or a number for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, spelt
from ..text.base.encoding_options import check_choice
from .batch import Batch, Example, examples_per_row, truncation_note
from .classification import Classification, LabelOptions
from .inputs import Columns, Row
from .objectives import LOSS
from .task_options import TruncationOptions, check_at_least
from .text_task import TextTask

COMBINED = {
    "mean": lambda scores: scores.mean(0),
    "max": lambda scores: scores.amax(0),
    "first": lambda scores: scores[0],
}


@dataclass(frozen=True, kw_only=True)
class TextClassificationOptions(LabelOptions, TruncationOptions):
    """Options for the labels in an answer, and for texts that are too long.

    Attributes:
        windows: In answers and evaluation: how to read a text that is longer than the model accepts: its scores are the
            "mean" or the "max" of those of its windows, or those of the "first". Training reads no windows.
        doc_stride: How many tokens two windows share.
    """

    windows: str | None = None
    doc_stride: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("windows", self.windows, (None, *COMBINED))
        check_at_least("doc_stride", self.doc_stride, 0)
        if self.doc_stride and self.windows is None:
            raise InputError(f"doc_stride is for windows: pass {spelt('option', 'windows', 'mean')} too")


class TextClassification(Classification, TextTask):
    """Classify texts.

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
    def other_remedy(self) -> str:
        return f"; answers and evaluation read all of it with {spelt('option', 'windows', 'mean')}"

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        """A text in windows if they are requested, else as training reads it."""
        options = self.options
        if options.windows is None:
            return self.encode_at_once(row)
        found = self.windows(row["text"], row.get("text_pair"), limit=self.limit, stride=options.doc_stride)
        read = found[:1] if options.windows == "first" else found
        labels = self.labels(row)
        return [Example(each, dict(labels), window=i, windows=len(found)) for i, each in enumerate(read)]

    def encode_at_once(self, row: Row) -> list[Example]:
        """A text that fits, or as much of it as does if truncation is requested."""
        truncation = self.options.truncation_strategy
        return [Example(self.encode_text(row["text"], row.get("text_pair"), truncation=truncation), self.labels(row))]

    def labels(self, row: Row) -> dict[str, Any]:
        return {"labels": self.target(row["label"])} if row.get("label") is not None else {}

    def training_examples(self, row: Any, seed: Sequence[int]) -> list[Example]:
        return self.encode_at_once(self.read(row))

    def evaluation_examples(self, row: Any, seed: Sequence[int]) -> list[Example]:
        return self.encode(self.read(row))

    # --- tensors to answers ------------------------------------------------------------------------------------

    def combined(self, scores: Tensor) -> Tensor:
        return COMBINED[self.options.windows or "first"](scores)

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        notes: dict[str, Any] = dict(truncation_note(examples))
        if examples[0].windows > 1:
            notes |= {"windows": examples[0].windows, "combined": self.options.windows}
        return self.labelled(outputs, **notes)

    def wrap(self, answer: Any, given: Any, requested: Iterable[str]) -> Any:
        return [answer] if isinstance(given, str) and "top_k" not in requested else answer

    # --- evaluation --------------------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> dict[str, int]:
        labels = batch.labels["labels"]
        return {LOSS: labels.numel() // len(labels) * len(examples_per_row(batch.examples))}

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The loss of a text in windows is the mean of theirs."""
        if not any(example.window for example in batch.examples):
            return super().loss_of(logits, batch)
        losses, start = [], 0
        for count in examples_per_row(batch.examples):
            rows = range(start, start + count)
            losses.append(super().loss_of(logits[start : start + count], batch.select(rows)) / count)
            start += count
        return torch.stack(losses).sum()
