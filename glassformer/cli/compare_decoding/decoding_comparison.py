"""Strategies of decoding side by side: which ones there are, what each wrote, and the measures of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..output.terminal import print_heading, print_table
from ..verbs.generate import without_control_codes

if TYPE_CHECKING:
    from ...generate.writing import Written
    from ...models.base import PreTrainedModel

# Whatever a model's own files say, every strategy starts from here.
PLAIN = {
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
RANKING = {"length_penalty": 1.0, "early_stopping": False}  # the same for beams
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


def whole_call(settings: dict[str, Any], samples: int) -> dict[str, Any]:
    """All settings of a strategy, and as many texts for a prompt as it can give: some know only one."""
    beams = settings.get("num_beams", 1)
    each = samples if settings.get("do_sample") else min(samples, beams)
    return {**PLAIN, **(RANKING if beams > 1 else {}), **settings, "num_return_sequences": each}


@dataclass(frozen=True)
class Measure:
    """One number about what a strategy wrote."""

    key: str
    heading: str  # for a narrow column
    meaning: str
    digits: int = 2


MEASURES = (
    Measure("distinct_1", "dist-1", "of all tokens, the share of different ones"),
    Measure("distinct_2", "dist-2", "of all pairs of tokens, the share of different ones"),
    Measure("distinct_3", "dist-3", "of all stretches of three tokens, the share of different ones"),
    Measure("repetition", "rep-4", "the share of tokens in stretches of four that their text says more than once"),
    Measure("repeated_tail", "tail", "the longest end, in tokens, that is one stretch said again and again", 0),
    Measure("self_bleu_prompts", "BLEU-p", "self-BLEU: how alike the texts of different prompts are, from 0 to 1"),
    Measure("self_bleu_samples", "BLEU-s", "self-BLEU: how alike several texts of one prompt are, from 0 to 1"),
    Measure("log_probability", "log p", "the mean log-probability of a token, by the model itself"),
    Measure("perplexity", "ppl", "the model's perplexity of its own texts: low is likely", 1),
    Measure("tokens_per_second", "tok/s", "new tokens a second, all texts together", 1),
)


@dataclass
class Outcome:
    """What one strategy wrote. The first text of each prompt is measured, so that all strategies are judged alike."""

    name: str
    settings: dict[str, Any]
    written: list[list[Written]] = field(default_factory=list)  # for each prompt its texts
    seconds: float = 0.0
    measures: dict[str, float | None] = field(default_factory=dict)

    @property
    def said(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items()) or "the likeliest word"

    def measure(self, model: PreTrainedModel, special: set[int]) -> None:
        """Work out the measures; special tokens are no words, but the model finds them likely or not."""
        from ...generate.diversity import distinct, log_probabilities, repeated_tail, repetition, self_bleu

        firsts = [texts[0] for texts in self.written]
        words = [[[one for one in text.ids if one not in special] for text in texts] for texts in self.written]
        first_words = [texts[0] for texts in words]
        alike = [self_bleu(texts) for texts in words if len(texts) > 1]
        rows = log_probabilities(model, [text.prompt for text in firsts], [text.ids for text in firsts])
        scores = [value for row in rows for value in row]
        mean = sum(scores) / len(scores)
        count = sum(len(text.ids) for texts in self.written for text in texts)
        self.measures = {
            **{f"distinct_{size}": distinct(first_words, size) for size in (1, 2, 3)},
            "repetition": repetition(first_words),
            "repeated_tail": max(map(repeated_tail, first_words)),
            "self_bleu_prompts": self_bleu(first_words),
            "self_bleu_samples": sum(alike) / len(alike) if alike else None,
            "log_probability": mean,
            "perplexity": math.exp(-mean),
            "tokens_per_second": count / self.seconds,
        }

    def to_dict(self) -> dict[str, Any]:
        texts = [
            [{"text": one.text, "ids": one.ids, "finish_reason": one.finish_reason} for one in several]
            for several in self.written
        ]
        return {"name": self.name, "settings": self.settings, "measures": self.measures, "texts": texts}


@dataclass
class Comparison:
    """All strategies on the same prompts."""

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
        rows = [(one.name, *(shown(one.measures[m.key], m.digits) for m in MEASURES)) for one in self.outcomes]
        print_table(header, rows, right=range(1, len(header)))
        print()
        for measure in MEASURES:
            print(f"  {measure.heading:<8}{measure.meaning}")
        width = max(len(outcome.name) for outcome in self.outcomes)
        for number, prompt in enumerate(self.prompts):
            print()
            print_heading(one_line(prompt))
            for outcome in self.outcomes:
                for place, text in enumerate(outcome.written[number]):
                    name = "" if place else outcome.name
                    print(f"  {name:{width}}  {one_line(text.text)}")


def shown(value: float | None, digits: int) -> str:
    """A number as tables write it; numbers that would be too wide lose their digits behind the point."""
    if value is None:
        return "-"
    return f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.1e}"


def one_line(text: str) -> str:
    """A text without line breaks or characters that would steer a terminal.

    >>> one_line("a\\n\\tb")
    'a\\\\n\\\\tb'
    """
    return without_control_codes(text).replace("\n", "\\n").replace("\t", "\\t")
