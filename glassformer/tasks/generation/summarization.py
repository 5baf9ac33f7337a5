"""summarization: a short version of a text."""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics import rouge
from .text_to_text import TextToText


class Summarization(TextToText):
    """Summarize texts.

    >>> pipe = pipeline("summarization", model="./summaries/")                         # doctest: +SKIP
    >>> pipe("Once upon a time ...", max_new_tokens=40)                               # doctest: +SKIP
    [{'summary_text': '...'}]
    """

    name = "summarization"
    answer_key = "summary_text"
    metric_names = ("rouge1", "rouge2", "rougeL")

    def score_texts(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        return rouge(predictions, references)
