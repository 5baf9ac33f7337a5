"""Predictions of the model: at the end, and at every layer as if it were the last (the logit lens)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import InputError
from ...generate.config import GenerationConfig
from ...generate.sampling import warp_logits
from ...tasks.classification import FUNCTIONS
from ..reading import Reading


@dataclass(frozen=True)
class Prediction:
    """A word or label with its probability (of a regression: its value), and the probability after narrowing.

    Temperature, top-k and top-p narrow a choice between words or labels; they do not apply to other outputs.
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
) -> list[Prediction]:
    """The predictions of the model's head, the likeliest first; none for a model without a head.

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
    return [Prediction(i, name, plain[i].item(), narrowed[i].item()) for i, name in named]


def lens_rows(reading: Reading, layer: int) -> Tensor:
    """The vectors after `layer` layers, as the head would receive them if these were all: T C."""
    states = reading.hidden[layer]
    return states if layer == len(reading.hidden) - 1 else reading.subject.finish(states)


@torch.no_grad()
def lens(reading: Reading, positions: list[int], count: int = 3) -> list[list[list[Prediction]]]:
    """For every layer, the embeddings first, and every position: the likeliest words if this were the last layer.

    The head was trained on the last layer only; for earlier ones its predictions are an interpretation.
    """
    subject = reading.subject
    if subject.kind not in ("mask", "next"):
        raise InputError("the logit lens needs a model that predicts words; this one has no such head")
    indices = [reading.index(position) for position in positions]
    table = []
    for layer in range(len(reading.hidden)):
        probabilities = subject.model.word_logits(lens_rows(reading, layer)[indices]).float().softmax(-1)
        best = probabilities.topk(min(count, probabilities.shape[-1]), dim=-1)
        table.append(
            [
                [Prediction(i, text, p, p) for i, text, p in zip(row, subject.names(row), values, strict=True)]
                for row, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
            ]
        )
    return table
