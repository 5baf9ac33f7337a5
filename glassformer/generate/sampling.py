"""Sampling the next token: temperature and truncation (top-k, top-p, ...), and the random draw."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError, shown
from .config import GenerationConfig

RandomGenerators = torch.Generator | list[torch.Generator] | None


def warp_logits(scores: Tensor, settings: GenerationConfig, min_tokens: int = 1) -> Tensor:
    """Scores (R V) with temperature, and minus infinity for all but the candidates, at least `min_tokens` of them."""
    if settings.temperature != 1.0:
        scores = scores / settings.temperature
    if settings.top_k:
        scores = keep_top_k(scores, max(settings.top_k, min_tokens))
    if settings.top_p < 1.0:
        scores = keep_top_p(scores, settings.top_p, min_tokens)
    if settings.min_p:
        scores = keep_min_p(scores, settings.min_p, min_tokens)
    if settings.typical_p < 1.0:
        scores = keep_typical(scores, settings.typical_p, min_tokens)
    if settings.epsilon_cutoff:
        scores = keep_above(scores, torch.tensor(settings.epsilon_cutoff), min_tokens)
    if settings.eta_cutoff:
        epsilon = torch.tensor(settings.eta_cutoff, device=scores.device)
        entropy = torch.distributions.Categorical(logits=scores).entropy()
        scores = keep_above(scores, torch.min(epsilon, epsilon.sqrt() * (-entropy).exp())[:, None], min_tokens)
    return scores.log_softmax(-1) if settings.renormalize_logits else scores


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """The k likeliest tokens (Fan et al. 2018)."""
    worst = scores.topk(min(k, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(scores < worst, -torch.inf)


def keep_top_p(scores: Tensor, p: float, min_tokens: int = 1) -> Tensor:
    """The smallest set of likeliest tokens whose total probability reaches p (Holtzman et al. 2020)."""
    ranked, order = scores.sort()  # ascending: tokens are removed while their total is at most 1 - p
    removed = ranked.softmax(-1).cumsum(-1) <= 1 - p
    removed[:, -min_tokens:] = False
    return scores.masked_fill(torch.zeros_like(removed).scatter(1, order, removed), -torch.inf)


def keep_min_p(scores: Tensor, p: float, min_tokens: int = 1) -> Tensor:
    """The tokens that are at least p times as likely as the likeliest."""
    probs = scores.softmax(-1)
    return remove(scores, probs < p * probs.amax(-1, keepdim=True), min_tokens)


def keep_typical(scores: Tensor, mass: float, min_tokens: int = 1) -> Tensor:
    """The tokens whose surprise is nearest to the expected, up to a probability of `mass` (Meister et al. 2022)."""
    log_probs = scores.log_softmax(-1)
    probs = log_probs.exp()
    entropy = -(log_probs * probs).nansum(-1, keepdim=True)
    ranked, order = (-log_probs - entropy).abs().sort()
    last = (probs.gather(1, order).cumsum(-1) < mass).sum(1, keepdim=True).clamp(max=scores.shape[-1] - 1)
    removed = ranked > ranked.gather(1, last)
    removed[:, :min_tokens] = False
    return scores.masked_fill(torch.zeros_like(removed).scatter(1, order, removed), -torch.inf)


def keep_above(scores: Tensor, floor: Tensor, min_tokens: int = 1) -> Tensor:
    """The tokens whose probability reaches the floor (Hewitt et al. 2022)."""
    return remove(scores, scores.softmax(-1) < floor.to(scores), min_tokens)


def remove(scores: Tensor, removed: Tensor, min_tokens: int) -> Tensor:
    """Remove the marked tokens, but never the `min_tokens` likeliest."""
    floor = scores.topk(min(min_tokens, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(removed & (scores < floor), -torch.inf)


def sample(scores: Tensor, generators: RandomGenerators, count: int = 1) -> Tensor:
    """Sample `count` tokens for each row (R count), without replacement."""
    probs = scores.softmax(-1)
    if isinstance(generators, list):
        rows = [torch.multinomial(row, count, generator=g) for row, g in zip(probs, generators, strict=True)]
        return torch.stack(rows)
    return torch.multinomial(probs, count, generator=generators)


def make_generators(given, rows: int, device: torch.device) -> RandomGenerators:
    """Generators from seeds or generators, one for all rows or one for each."""
    if given is None:
        return None

    def make(one) -> torch.Generator:
        if isinstance(one, torch.Generator):
            return one
        if isinstance(one, int) and not isinstance(one, bool):
            if not -(2**63) <= one < 2**64:
                raise InputError(f"a seed has at most 64 bits, got {shown(one, 40)}")
            return torch.Generator(device).manual_seed(one)
        raise InputError(f"generator takes torch.Generators or whole numbers as seeds, got {one!r:.60}")

    if not isinstance(given, list | tuple):
        return make(given)
    if len(given) != rows:
        raise InputError(f"generator takes one for all or one for each of the {rows} sequences, got {len(given)}")
    return [make(one) for one in given]
