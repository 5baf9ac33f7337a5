"""Decoding strategies side by side: their settings, their texts, and the measures of these."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..output.terminal import print_heading, print_table
from ..verbs.generate import without_control_codes

if TYPE_CHECKING:
    from ...generate.text_generator import GeneratedText
    from ...models.base.pretrained_model import PreTrainedModel

# The base of every strategy, so that the model's own files have no influence.
BASE_SETTINGS = {
    "do_sample": False,
    "num_beams": 1,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "penalty_alpha": None,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "min_p": None,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
}
BEAM_SETTINGS = {"length_penalty": 1.0, "early_stopping": False}  # the same for beam searches
STRATEGIES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "no-repeat": {"no_repeat_ngram_size": 3},
    "beam": {"num_beams": 4},
    "diverse-beam": {"num_beams": 4, "num_beam_groups": 4, "diversity_penalty": 1.0},
    "contrastive": {"penalty_alpha": 0.6, "top_k": 4},
    "sampling": {"do_sample": True},
    "temperature": {"do_sample": True, "temperature": 0.7},
    "top-k": {"do_sample": True, "top_k": 40},
    "top-p": {"do_sample": True, "top_p": 0.9},
    "typical": {"do_sample": True, "typical_p": 0.9},
    "min-p": {"do_sample": True, "min_p": 0.05},
}


def full_settings(settings: dict[str, Any], samples: int) -> dict[str, Any]:
    """All settings of a strategy, for as many texts of a prompt as it can return: some return only one."""
    beams = settings.get("num_beams", 1)
    sequences = samples if settings.get("do_sample") else min(samples, beams)
    return {**BASE_SETTINGS, **(BEAM_SETTINGS if beams > 1 else {}), **settings, "num_return_sequences": sequences}


@dataclass(frozen=True)
class Measure:
    """One number about the texts of a strategy."""

    key: str
    heading: str  # for a narrow column
    meaning: str
    digits: int = 2


MEASURES = (
    Measure("distinct_1", "dist-1", "the share of distinct tokens"),
    Measure("distinct_2", "dist-2", "the share of distinct 2-grams"),
    Measure("distinct_3", "dist-3", "the share of distinct 3-grams"),
    Measure("repetition", "rep-4", "the share of tokens in 4-grams that occur more than once in their text"),
    Measure("repeated_tail", "tail", "the longest loop at the end of a text, in tokens", 0),
    Measure("self_bleu_prompts", "BLEU-p", "self-BLEU: how similar the texts of different prompts are, from 0 to 1"),
    Measure("self_bleu_samples", "BLEU-s", "self-BLEU: how similar several texts of one prompt are, from 0 to 1"),
    Measure("log_probability", "log p", "the mean log-probability of a token, by the same model"),
    Measure("perplexity", "ppl", "the model's perplexity of its own texts: low is likely", 1),
    Measure("tokens_per_second", "tok/s", "new tokens per second, all texts together", 1),
)


@dataclass
class Outcome:
    """The texts of one strategy. Only the first one for each prompt is measured, so that strategies are comparable."""

    name: str
    settings: dict[str, Any]
    texts: list[list[GeneratedText]] = field(default_factory=list)  # for each prompt
    seconds: float = 0.0
    measures: dict[str, float | None] = field(default_factory=dict)

    @property
    def settings_text(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items()) or "the likeliest token"

    def measure(self, model: PreTrainedModel, special: set[int]) -> None:
        """Compute the measures; special tokens count only for the log-probability."""
        from ...generate.diversity import distinct, log_probabilities, repeated_tail, repetition, self_bleu

        firsts = [texts[0] for texts in self.texts]
        tokens = [[[one for one in text.ids if one not in special] for text in texts] for texts in self.texts]
        first_tokens = [texts[0] for texts in tokens]
        similarities = [self_bleu(texts) for texts in tokens if len(texts) > 1]
        rows = log_probabilities(model, [text.prompt for text in firsts], [text.ids for text in firsts])
        scores = [value for row in rows for value in row]
        mean = sum(scores) / len(scores)
        count = sum(len(text.ids) for texts in self.texts for text in texts)
        self.measures = {
            **{f"distinct_{size}": distinct(first_tokens, size) for size in (1, 2, 3)},
            "repetition": repetition(first_tokens),
            "repeated_tail": max(map(repeated_tail, first_tokens)),
            "self_bleu_prompts": self_bleu(first_tokens),
            "self_bleu_samples": sum(similarities) / len(similarities) if similarities else None,
            "log_probability": mean,
            "perplexity": math.exp(-mean),
            "tokens_per_second": count / self.seconds,
        }

    def to_dict(self) -> dict[str, Any]:
        texts = [
            [{"text": one.text, "ids": one.ids, "finish_reason": one.finish_reason} for one in texts]
            for texts in self.texts
        ]
        return {"name": self.name, "settings": self.settings, "measures": self.measures, "texts": texts}


@dataclass
class Comparison:
    """Several strategies on the same prompts."""

    model: str
    prompts: list[str]
    max_new_tokens: int
    seed: int
    samples: int
    outcomes: list[Outcome] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return {**vars(self), "outcomes": [outcome.to_dict() for outcome in self.outcomes]}

    def print(self) -> None:
        header = ("strategy", *(measure.heading for measure in MEASURES))
        rows = [(one.name, *(format_number(one.measures[m.key], m.digits) for m in MEASURES)) for one in self.outcomes]
        print_table(header, rows, right=range(1, len(header)))
        print()
        for measure in MEASURES:
            print(f"  {measure.heading:<8}{measure.meaning}")
        width = max(len(outcome.name) for outcome in self.outcomes)
        for number, prompt in enumerate(self.prompts):
            print()
            print_heading(one_line(prompt))
            for outcome in self.outcomes:
                for i, text in enumerate(outcome.texts[number]):
                    name = "" if i else outcome.name
                    print(f"  {name:{width}}  {one_line(text.text)}")


def format_number(value: float | None, digits: int) -> str:
    """A number for a table; wide ones in scientific notation."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.1e}"


def one_line(text: str) -> str:
    """A text without line breaks and control characters.

    >>> one_line("a\\n\\tb")
    'a\\\\n\\\\tb'
    """
    return without_control_codes(text).replace("\n", "\\n").replace("\t", "\\t")
