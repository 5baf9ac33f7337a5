"""translation: a text in another language."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...errors import spelt
from ...text.base.encoding_options import check_choice
from ..batch import Example
from ..inputs import Row
from ..metrics import exact_match, translation_scores
from ..task_options import check_bool
from .text_to_text import TextToText, TextToTextOptions

PAIR = re.compile(r"translation_\w+_to_\w+")  # a task in `task_specific_params`
TOKENIZERS = ("13a", "zh", "char", "intl", "none")
SPACE_TOKENIZERS = ("13a", "intl")  # which split at spaces
CHINESE_OR_JAPANESE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(TextToTextOptions):
    """How BLEU tokenizes texts, beside the options of all text-to-text tasks.

    Attributes:
        bleu_tokenize: How BLEU splits texts: "13a", "zh" for Chinese targets, "none" for texts that are tokenized
            already, ...
        bleu_lowercase: Whether BLEU ignores case.
    """

    bleu_tokenize: str = "13a"
    bleu_lowercase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("bleu_tokenize", self.bleu_tokenize, TOKENIZERS)
        check_bool("bleu_lowercase", self.bleu_lowercase)


class Translation(TextToText):
    """Translate texts. The task translation_en_to_de has the prefix and the settings that the model's config gives it.

    >>> pipe = pipeline("translation", model="./de-en/", num_beams=5)                 # doctest: +SKIP
    >>> pipe("Ein Hund schläft.")                                                     # doctest: +SKIP
    [{'translation_text': 'A dog is sleeping.'}]
    """

    name = "translation"
    Options = TranslationOptions
    answer_key = "translation_text"

    def encode(self, row: Row) -> list[Example]:
        self.warn_without_prefix(row["source"])
        return super().encode(row)

    def warn_without_prefix(self, source: str) -> None:
        """Warn that a model with several languages is not told which are meant."""
        params = self.model.config.task_specific_params
        if self.settings_name or self.options.prefix is not None or not params or self.name in params:
            return
        known = {name: each.get("prefix") for name, each in params.items() if PAIR.fullmatch(name) and each}
        if known and not source.startswith(tuple(str(prefix) for prefix in known.values())):
            message = "the model is not told which languages are meant: name the task %s, or give a prefix"
            self.warn_once("languages", message, " or ".join(known))

    @property
    def metric_names(self) -> tuple[str, ...]:
        """BLEU and chrF need the extra `translation`; without it only exact matches are counted."""
        is_installed = importlib.util.find_spec("sacrebleu") is not None
        return ("bleu", "chrf", "exact_match") if is_installed else ("exact_match",)

    def score_texts(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        matches = exact_match(predictions, references)
        if "bleu" not in self.metric_names:
            self.warn_once("sacrebleu", "BLEU and chrF need sacrebleu: pip install 'glassformer[translation]'")
            return matches
        options = self.options
        scores = translation_scores(predictions, references, options.bleu_tokenize, options.bleu_lowercase)
        return {**scores, **matches}

    def compute_metrics(self, predictions: Sequence[str], references: Sequence[str]) -> dict[str, float]:
        self.warn_without_spaces(references)
        return super().compute_metrics(predictions, references)

    def warn_without_spaces(self, references: Sequence[str]) -> None:
        """Warn that BLEU splits texts at spaces and the references have none."""
        tokenize = self.options.bleu_tokenize
        if tokenize not in SPACE_TOKENIZERS or "bleu" not in self.metric_names:
            return
        text = "".join(references)
        if len(CHINESE_OR_JAPANESE.findall(text)) * 3 > len(text):
            message = "BLEU takes text without spaces for one word; %s splits Chinese into characters, got %s"
            self.warn_once("no spaces", message, spelt("option", "bleu_tokenize", "zh"), tokenize)


def __getattr__(name: str) -> type[Translation]:
    """The class of a task such as translation_en_to_de, under that name, so that its objects can be pickled."""
    if not PAIR.fullmatch(name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    kind = type(name, (Translation,), {"settings_name": name, "__module__": __name__, "__doc__": Translation.__doc__})
    return globals().setdefault(name, kind)
