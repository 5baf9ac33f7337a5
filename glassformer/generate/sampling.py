"""Drawing the next word: what sampling leaves to choose from, and the choice."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .config import GenerationConfig

NEVER = -float("inf")
Generators = torch.Generator | list[torch.Generator] | None


def narrow(scores: Tensor, settings: GenerationConfig, least: int = 1) -> Tensor:
    """Scores (R V) in which all that sampling must not draw is minus infinity; at least `least` words stay."""
    if settings.temperature != 1.0:
        scores = scores / settings.temperature
    if settings.top_k:
        scores = keep_top_k(scores, max(settings.top_k, least))
    if settings.top_p < 1.0:
        scores = keep_top_p(scores, settings.top_p, least)
    if settings.min_p:
        scores = keep_min_p(scores, settings.min_p, least)
    if settings.typical_p < 1.0:
        scores = keep_typical(scores, settings.typical_p, least)
    if settings.epsilon_cutoff:
        scores = keep_above(scores, torch.tensor(settings.epsilon_cutoff), least)
    if settings.eta_cutoff:
        epsilon = torch.tensor(settings.eta_cutoff, device=scores.device)
        entropy = torch.distributions.Categorical(logits=scores).entropy()
        scores = keep_above(scores, torch.min(epsilon, epsilon.sqrt() * (-entropy).exp())[:, None], least)
    return scores.log_softmax(-1) if settings.renormalize_logits else scores


def keep_top_k(scores: Tensor, k: int) -> Tensor:
    """The k best words (Fan et al. 2018)."""
    worst = scores.topk(min(k, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(scores < worst, NEVER)


def keep_top_p(scores: Tensor, p: float, least: int = 1) -> Tensor:
    """The fewest best words that together have the probability p (Holtzman et al. 2020)."""
    ranked, order = scores.sort()  # the worst first: what they have together is left out while it is at most 1 - p
    out = ranked.softmax(-1).cumsum(-1) <= 1 - p
    out[:, -least:] = False
    return scores.masked_fill(torch.zeros_like(out).scatter(1, order, out), NEVER)


def keep_min_p(scores: Tensor, p: float, least: int = 1) -> Tensor:
    """The words that are at least p times as likely as the best one."""
    chances = scores.softmax(-1)
    return keep_best(scores, chances < p * chances.amax(-1, keepdim=True), least)


def keep_typical(scores: Tensor, mass: float, least: int = 1) -> Tensor:
    """The words whose surprise is nearest to the expected one, up to a probability of `mass` (Meister et al. 2022)."""
    log_chances = scores.log_softmax(-1)
    chances = log_chances.exp()
    entropy = -(log_chances * chances).nansum(-1, keepdim=True)
    ranked, order = (-log_chances - entropy).abs().sort()
    last = (chances.gather(1, order).cumsum(-1) < mass).sum(1, keepdim=True).clamp(max=scores.shape[-1] - 1)
    out = ranked > ranked.gather(1, last)
    out[:, :least] = False
    return scores.masked_fill(torch.zeros_like(out).scatter(1, order, out), NEVER)


def keep_above(scores: Tensor, floor: Tensor, least: int = 1) -> Tensor:
    """The words whose probability reaches the floor (Hewitt et al. 2022)."""
    return keep_best(scores, scores.softmax(-1) < floor.to(scores), least)


def keep_best(scores: Tensor, out: Tensor, least: int) -> Tensor:
    """Leave out what `out` marks, but never the `least` best words."""
    floor = scores.topk(min(least, scores.shape[-1])).values[:, -1:]
    return scores.masked_fill(out & (scores < floor), NEVER)


def draw(scores: Tensor, generators: Generators, count: int = 1) -> Tensor:
    """Draw `count` words for each row (R count), without putting back."""
    chances = scores.softmax(-1)
    if isinstance(generators, list):
        drawn = [torch.multinomial(row, count, generator=g) for row, g in zip(chances, generators, strict=True)]
        return torch.stack(drawn)
    return torch.multinomial(chances, count, generator=generators)


def make_generators(given, rows: int, device: torch.device) -> Generators:
    """Seeds or generators, one for all or one for each row, as `draw` takes them."""
    if given is None:
        return None

    def make(one) -> torch.Generator:
        if isinstance(one, torch.Generator):
            return one
        if isinstance(one, int) and not isinstance(one, bool):
            return torch.Generator(device).manual_seed(one)
        raise InputError(f"generator takes torch.Generators or whole numbers as seeds, got {one!r:.60}")

    if not isinstance(given, list | tuple):
        return make(given)
    if len(given) != rows:
        raise InputError(f"generator takes one for all or one for each of the {rows} sequences, got {len(given)}")
    return [make(one) for one in given]
