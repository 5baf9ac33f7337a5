"""Which tokens an answer depends on, by four methods that measure four different things.

None of them is the explanation: gradients show how the answer would change with tiny changes of the word vectors,
occlusion how it changes when a token is hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError, nearest
from ...models.base.outputs import BodyOutput
from ...nn.scoped_hooks import HookScope
from ..reading import EmbeddedTokens, Reading

STEPS = 32  # of the path of integrated gradients
ROWS = 16  # sequences in one batch

METHODS = {  # name -> what its number is
    "saliency": "length of the gradient at the word vector: how sensitive the answer is to it, without a direction",
    "input-x-gradient": "word vector times gradient: a first guess of what the token adds or takes away",
    "integrated-gradients": "gradients summed along the way from a hidden text: together they add up to the change",
    "occlusion": "how much lower the answer is when the token is hidden",
}


@dataclass(frozen=True)
class Attribution:
    """A score for each token."""

    method: str
    target: str  # a description of the answer
    word: str  # the word or label in question; empty for a model without a head
    value: float  # the answer itself
    tokens: list[str]
    scores: list[float]
    source: int  # how many of the tokens are the source's, for an encoder-decoder
    hidden: str  # the token that stands for one that is hidden; special tokens are never hidden
    gap: float | None = None  # integrated gradients: how far the sum is from the change that it should equal
    change: float = 0.0  # how much higher the answer is than when every token is hidden
    steps: int | None = None  # of the path of integrated gradients

    @property
    def total(self) -> float:
        """The sum of all scores."""
        return math.fsum(self.scores)

    @property
    def error(self) -> float | None:
        """The gap as a share of the sizes of all scores, or of the change if that is larger."""
        if self.gap is None:
            return None
        size = max(math.fsum(map(abs, self.scores)), abs(self.change))
        return abs(self.gap) / size if size else 0.0


class ScoredAnswer(NamedTuple):
    """What is attributed: a function from the outputs of B runs to B numbers, and what these are."""

    score: Callable[[BodyOutput], Tensor]
    description: str
    word: str  # the word or label in question


def attribute(
    reading: Reading,
    method: str,
    position: int = -1,
    target: int | None = None,
    *,
    answer: ScoredAnswer | None = None,
    steps: int = STEPS,
) -> Attribution:
    """How much an answer depends on each token.

    The answer is the log-probability of the word `target` at `position` (the likeliest if None), or the score of a
    label, or, for a model without a head, the last vector at `position`: its projection on its
    present direction. (Its length alone means little: after a LayerNorm all are about equally long.) `answer` is
    another one.
    """
    check_method(method)
    score, description, word = answer or answer_for(reading, reading.index(position), target)

    def value_of(vectors: Tensor) -> Tensor:
        """B T C -> B"""
        with embeddings_replaced(reading, vectors):
            return score(reading.subject.forward(reading, copies=len(vectors)))

    texts = reading.embedded_tokens
    words = torch.cat([each.table.weight[each.side.ids] for each in texts]).detach()  # T C
    baseline = torch.cat([baseline_vectors(each) for each in texts]).detach()
    with torch.no_grad():
        value = value_of(words[None]).item()
        change = value - value_of(baseline[None]).item()
    gap = None
    if method == "occlusion":
        scores = value - occluded(value_of, words, baseline)
    elif method == "integrated-gradients":
        path = (torch.arange(steps) + 0.5) / steps
        scores = ((words - baseline) * mean_gradient(value_of, words, baseline, path)).sum(-1)
        gap = scores.sum().item() - change
    else:
        gradient = mean_gradient(value_of, words, baseline, torch.ones(1))
        scores = gradient.norm(dim=-1) if method == "saliency" else (words * gradient).sum(-1)
    sides = [each.side for each in texts]
    return Attribution(
        method,
        description,
        word,
        value,
        tokens=[token for side in sides for token in side.tokens],
        scores=scores.tolist(),
        source=sum(len(side.ids) for side in sides[:-1]),
        hidden=", ".join(dict.fromkeys(each.tokenizer.convert_ids_to_tokens(baseline_token(each)) for each in texts)),
        gap=gap,
        change=change,
        steps=None if gap is None else steps,
    )


def check_method(method: str) -> None:
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}{nearest(method, METHODS)}; there are {', '.join(METHODS)}")


def answer_for(reading: Reading, position: int, target: int | None) -> ScoredAnswer:
    """The answer of the model's head at a position."""
    subject, at = reading.subject, f"{position} ({reading.tokens[position]})"
    if subject.kind == "none":
        direction = F.normalize(reading.hidden[-1][position], dim=0)
        description = f"last vector at {at}, along itself"
        return ScoredAnswer(lambda body: body.last_hidden_state[:, position] @ direction, description, "")
    is_label = subject.kind in ("label", "tag")

    def scores(body: BodyOutput) -> Tensor:
        """B V, or B L"""
        found = subject.scores(reading, body, position)
        return found if is_label else found.log_softmax(-1)

    with torch.no_grad():
        known = scores(reading.body)[0]
    if target is not None and not 0 <= target < len(known):
        raise InputError(f"there are answers 0 to {len(known) - 1}, got {target}")
    chosen = int(known.argmax()) if target is None else target
    (word,) = subject.names([chosen])
    description = {
        "label": f"score of the label {word}",
        "tag": f"score of the label {word} at {at}",
        "mask": f"log-probability of {word} at {at}",
        "next": f"log-probability of {word} behind {at}",
    }[subject.kind]
    return ScoredAnswer(lambda body: scores(body)[:, chosen], description, word)


@contextmanager
def embeddings_replaced(reading: Reading, vectors: Tensor) -> Iterator[None]:
    """The runs inside the `with` read these vectors (B T C) instead of word embeddings."""
    parts = vectors.split([len(each.side.ids) for each in reading.embedded_tokens], dim=1)
    with HookScope() as scope:
        for each, part in zip(reading.embedded_tokens, parts, strict=True):
            scope.after(each.table, lambda *_, part=part: part.flatten(0, 1))
        yield


def baseline_token(words: EmbeddedTokens) -> int:
    """The token that replaces a hidden one: the mask token, or the nearest one that the tokenizer has."""
    names = ("mask_token_id", "unk_token_id", "pad_token_id", "eos_token_id")
    found = [getattr(words.tokenizer, name) for name in names]
    return next((i for i in found if i is not None), 0)


def baseline_vectors(words: EmbeddedTokens) -> Tensor:
    """The vectors of a text whose tokens are hidden, except special ones: T C"""
    side, hidden = words.side, baseline_token(words)
    ids = [i if is_special else hidden for i, is_special in zip(side.ids, side.special, strict=True)]
    return words.table.weight[ids]


def mean_gradient(answer: Callable[[Tensor], Tensor], words: Tensor, baseline: Tensor, steps: Tensor) -> Tensor:
    """The mean gradient along the path from the baseline to the words: T C"""
    total = torch.zeros_like(words)
    with torch.enable_grad():
        for part in steps.to(words).split(ROWS):
            vectors = (baseline + part[:, None, None] * (words - baseline)).requires_grad_()
            (gradient,) = torch.autograd.grad(answer(vectors).sum(), vectors)
            total += gradient.sum(0)
    return total / len(steps)


@torch.no_grad()
def occluded(answer: Callable[[Tensor], Tensor], words: Tensor, baseline: Tensor) -> Tensor:
    """The answer with each token hidden in turn: T"""
    found = []
    for places in torch.arange(len(words)).split(ROWS):
        vectors = words.expand(len(places), -1, -1).clone()
        vectors[torch.arange(len(places)), places] = baseline[places]
        found.append(answer(vectors))
    return torch.cat(found)
