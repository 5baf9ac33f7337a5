"""summarization: the same in few words."""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics import rouge
from .text_to_text import TextToText


class Summarization(TextToText):
    """What does a long text say, in short?

    >>> pipe = pipeline("summarization", model="./summaries/")                         # doctest: +SKIP
    >>> pipe("Once upon a time ...", max_new_tokens=40)                               # doctest: +SKIP
    [{'summary_text': '...'}]
    """

    name = "summarization"
    answer_key = "summary_text"
    metrics = ("rouge1", "rouge2", "rougeL")

    def judge(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        return rouge(predictions, references)
