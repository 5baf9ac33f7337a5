"""Predictions of the model: at the end, and at every layer as if it were the last (the logit lens)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import InputError
from ...generate.config import GenerationConfig
from ...generate.sampling import warp_logits
from ...tasks.text_classification import FUNCTIONS
from ..reading import Reading


@dataclass(frozen=True)
class Guess:
    """A word or label with its probability (of a regression: its value), and the probability after narrowing.

    Temperature, top-k and top-p narrow a choice between words or labels; where nothing is chosen they change nothing.
    """

    id: int
    text: str
    probability: float
    narrowed: float


def predict(
    reading: Reading,
    position: int = -1,
    *,
    count: int = 10,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> list[Guess]:
    """What the model's head answers, the likeliest first; nothing from a model without one.

    A model that fills masks or labels tokens predicts for `position`, one that continues predicts the word after it.
    """
    if count < 1:
        raise InputError(f"count must be 1 or more, got {count}")
    settings = GenerationConfig(do_sample=True, temperature=temperature, top_k=top_k, top_p=top_p)
    subject = reading.subject
    if subject.kind == "none":
        return []
    with torch.no_grad():
        scores = reading.logits(position).float()[None]
    plain = narrowed = FUNCTIONS[subject.function](scores)[0]
    if subject.function == "softmax":
        narrowed = warp_logits(scores, settings).softmax(-1)[0]
    best = plain.topk(min(count, len(plain))).indices.tolist()
    named = zip(best, subject.names(best), strict=True)
    return [Guess(i, name, plain[i].item(), narrowed[i].item()) for i, name in named]


def lens_rows(reading: Reading, layer: int) -> Tensor:
    """The vectors behind `layer` layers as the head would get them if these were all: T C."""
    states = reading.hidden[layer]
    return states if layer == len(reading.hidden) - 1 else reading.subject.finish(states)


@torch.no_grad()
def lens(reading: Reading, positions: list[int], count: int = 3) -> list[list[list[Guess]]]:
    """For every layer, the embeddings first, and every position: the likeliest words if this were the last layer.

    The head was trained on the last layer only; what it says of earlier ones is a reading, not what the model knows.
    """
    subject = reading.subject
    if subject.kind not in ("mask", "next"):
        raise InputError("the logit lens needs a model that predicts words; this one has no such head")
    places = [reading.index(position) for position in positions]
    found = []
    for layer in range(len(reading.hidden)):
        chances = subject.model.word_logits(lens_rows(reading, layer)[places]).float().softmax(-1)
        best = chances.topk(min(count, chances.shape[-1]), dim=-1)
        found.append(
            [
                [Guess(i, text, p, p) for i, text, p in zip(row, subject.names(row), probabilities, strict=True)]
                for row, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        )
    return found
