"""text2text-generation: whatever text a model was trained to write for another."""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics import exact_match, rouge
from .text_to_text import TextToText


class Text2TextGeneration(TextToText):
    """Write a text for a text: an answer, a label, a translation, as the prompt says.

    >>> pipe = pipeline("text2text-generation", model="./flan-t5-small/")              # doctest: +SKIP
    >>> pipe("translate English to German: The house is small.")                      # doctest: +SKIP
    [{'generated_text': 'Das Haus ist klein.'}]
    """

    name = "text2text-generation"
    answer_key = "generated_text"
    metric_names = ("exact_match", "rouge1", "rouge2", "rougeL")

    def score_texts(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        return {**exact_match(predictions, references), **rouge(predictions, references)}
