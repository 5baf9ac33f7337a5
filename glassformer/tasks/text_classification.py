"""text-classification: one label, several labels or a number for a text or a pair of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .batch import Example, truncation_note
from .classification import Classification, LabelOptions
from .inputs import Columns, Row
from .task_options import TruncationOptions
from .text_task import TextTask


@dataclass(frozen=True, kw_only=True)
class TextClassificationOptions(LabelOptions, TruncationOptions):
    """Options for the labels in an answer, and for texts that are too long."""


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

    def encode(self, row: Row) -> list[Example]:
        encoded = self.encode_text(row["text"], row.get("text_pair"), truncation=self.options.truncation_strategy)
        return [Example(encoded, {"labels": self.target(row["label"])} if row.get("label") is not None else {})]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        return self.labelled(outputs, **truncation_note(examples))

    def wrap(self, answer: Any, given: Any, requested: Iterable[str]) -> Any:
        return [answer] if isinstance(given, str) and "top_k" not in requested else answer
