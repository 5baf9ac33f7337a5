"""translation: the same in another language."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import spelt
from ...text.base.encoding_options import one_of
from ..metrics import exact_match, machine_translation
from ..task_options import switch
from .text_to_text import TextToText, TextToTextOptions

log = logging.getLogger("glassformer")

TOKENIZERS = ("13a", "zh", "char", "intl", "none")
AT_SPACES = ("13a", "intl")
CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")  # of Chinese and Japanese


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(TextToTextOptions):
    """How BLEU cuts texts into words, beside what all such tasks can be asked for."""

    bleu_tokenize: str = "13a"  # "zh" for Chinese targets, "none" for texts that are cut already
    bleu_lowercase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("bleu_tokenize", self.bleu_tokenize, TOKENIZERS)
        switch("bleu_lowercase", self.bleu_lowercase)


class Translation(TextToText):
    """What is this in another language?

    >>> pipe = pipeline("translation", model="./de-en/", num_beams=5)                 # doctest: +SKIP
    >>> pipe("Ein Hund schläft.")                                                     # doctest: +SKIP
    [{'translation_text': 'A dog is sleeping.'}]
    """

    name = "translation"
    Options = TranslationOptions
    answer_key = "translation_text"

    @property
    def metrics(self) -> tuple[str, ...]:
        """BLEU and chrF need the extra `translation`; without it only whole sentences that are right are counted."""
        known = importlib.util.find_spec("sacrebleu") is not None
        return ("bleu", "chrf", "exact_match") if known else ("exact_match",)

    def judge(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        found = exact_match(predictions, references)
        if "bleu" not in self.metrics:
            return found
        options = self.options
        judged = machine_translation(predictions, references, options.bleu_tokenize, options.bleu_lowercase)
        return {**judged, **found}

    def metric(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        self.warn_of_characters(references)
        return super().metric(predictions, references)

    def warn_of_characters(self, references: Sequence[str]) -> None:
        """Say once that BLEU finds no words in what is written without spaces, where it is asked to cut at these."""
        how = self.options.bleu_tokenize
        if how not in AT_SPACES or "bleu" not in self.metrics or "characters" in self.kept:
            return
        letters = "".join(references)
        if len(CHARACTER.findall(letters)) * 3 > len(letters):
            self.kept["characters"] = True
            cut = spelt("option", "bleu_tokenize", "zh")
            log.warning("BLEU takes what has no spaces for one word; %s cuts Chinese into characters, got %s", cut, how)
