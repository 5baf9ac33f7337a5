"""Which tokens an answer rests on, in four ways that measure four different things.

None of them is the explanation: gradients tell how the answer would change with tiny changes of the word vectors,
occlusion how it changes when a token is hidden.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InputError, nearest
from .subject import Reading, Subject

STEPS = 32  # of the path of integrated gradients
ROWS = 16  # sequences that are read at once

METHODS = {  # name -> what its number is
    "saliency": "length of the gradient at the word vector: how sensitive the answer is to it, without a direction",
    "input-x-gradient": "word vector times gradient: a first guess of what the token adds or takes away",
    "integrated-gradients": "gradients summed along the way from a masked text: together they add up to the change",
    "occlusion": "how much lower the answer is when the token is hidden behind a mask",
}


@dataclass(frozen=True)
class Attribution:
    """A number for each token, and what they are about."""

    method: str
    target: str  # what the answer is, in words
    value: float  # the answer itself
    scores: list[float]
    gap: float | None = None  # integrated gradients: how far the sum is from the change it should add up to


def attribute(reading: Reading, method: str, position: int = -1, target: int | None = None) -> Attribution:
    """How much each token has to do with an answer.

    The answer is the log-probability of the word `target` at `position` (the likeliest if None), or the score of a
    label, or, for a model without a head, the length of the last vector at `position`.
    """
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}{nearest(method, METHODS)}; there are {', '.join(METHODS)}")
    subject, place = reading.subject, reading.place(position)
    if subject.model.config.is_encoder_decoder:
        raise InputError("attribution needs a model that reads one text; this one is an encoder-decoder")
    answer, said = answer_of(subject, reading, place, target)
    words = word_vectors(subject, reading.ids)
    hidden = word_vectors(subject, [hiding_token(subject)] * len(reading))
    hidden = torch.where(torch.tensor(reading.special)[:, None], words, hidden)  # special tokens stay
    value = answer(words[None]).item()
    gap = None
    if method == "occlusion":
        scores = value - occluded(answer, words, hidden)
    elif method == "integrated-gradients":
        steps = (torch.arange(STEPS) + 0.5) / STEPS
        scores = ((words - hidden) * mean_gradient(answer, words, hidden, steps)).sum(-1)
        gap = (scores.sum() - (value - answer(hidden[None]).item())).item()
    else:
        gradient = mean_gradient(answer, words, hidden, torch.ones(1))
        scores = gradient.norm(dim=-1) if method == "saliency" else (words * gradient).sum(-1)
    return Attribution(method, said, value, scores.tolist(), gap)


def answer_of(
    subject: Subject, reading: Reading, place: int, target: int | None
) -> tuple[Callable[[Tensor], Tensor], str]:
    """(word vectors B T C -> B answers, what they are)"""
    inputs = subject.inputs(reading)
    types = inputs.get("token_type_ids")

    def run(vectors: Tensor):
        segments = None if types is None else types.expand(len(vectors), -1)
        return subject.model.base_model.run(inputs_embeds=vectors, token_type_ids=segments, use_cache=False)

    if subject.kind == "none":
        said = f"length of the last vector at {place} ({reading.tokens[place]})"
        return lambda vectors: run(vectors).last_hidden_state[:, place].norm(dim=-1), said
    if subject.kind == "label":
        chosen = int(subject.label_logits(reading.body, inputs).argmax()) if target is None else target

        def score(vectors: Tensor) -> Tensor:
            body = run(vectors)
            if hasattr(subject.model, "last_tokens"):
                return subject.model.score(body.last_hidden_state[:, -1])[:, chosen]
            return subject.model.text_logits(body)[:, chosen]

        return score, f"score of the label {subject.label(chosen)}"
    chosen = int(reading.logits(place).argmax()) if target is None else target

    def log_probability(vectors: Tensor) -> Tensor:
        rows = run(vectors).last_hidden_state[:, place]
        return subject.model.word_logits(rows).log_softmax(-1)[:, chosen]

    where = f"behind {place}" if subject.kind == "next" else f"at {place}"
    return log_probability, f"log-probability of {subject.shown([chosen])[0]} {where} ({reading.tokens[place]})"


def word_vectors(subject: Subject, ids: list[int]) -> Tensor:
    table = subject.model.get_input_embeddings()
    return table.weight[torch.tensor(ids, device=table.weight.device)].detach()


def hiding_token(subject: Subject) -> int:
    """The token that stands for "nothing is known here"."""
    tokenizer = subject.tokenizer
    names = ("mask_token_id", "unk_token_id", "pad_token_id", "eos_token_id")
    found = [getattr(tokenizer, name) for name in names]
    return next((i for i in found if i is not None), 0)


def mean_gradient(answer: Callable[[Tensor], Tensor], words: Tensor, hidden: Tensor, steps: Tensor) -> Tensor:
    """The mean gradient at places on the way from the hidden text to the words: T C"""
    total = torch.zeros_like(words)
    with torch.enable_grad():
        for part in steps.to(words).split(ROWS):
            vectors = (hidden + part[:, None, None] * (words - hidden)).requires_grad_()
            (gradient,) = torch.autograd.grad(answer(vectors).sum(), vectors)
            total += gradient.sum(0)
    return total / len(steps)


@torch.no_grad()
def occluded(answer: Callable[[Tensor], Tensor], words: Tensor, hidden: Tensor) -> Tensor:
    """The answer with each token hidden in turn: T"""
    found = []
    for places in torch.arange(len(words)).split(ROWS):
        vectors = words.expand(len(places), -1, -1).clone()
        vectors[torch.arange(len(places)), places] = hidden[places]
        found.append(answer(vectors))
    return torch.cat(found)
