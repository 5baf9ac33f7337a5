"""What may be said next: every rule changes the scores of the next word, seeing what was said so far.

A rule takes the histories (for each row its own tokens, prompt included, never padding) and the scores (R V), and
returns new scores. They run in the order of `rules_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .config import GenerationConfig

History = list[int]
Rule = Callable[[list[History], Tensor], Tensor]
NEVER = -float("inf")


def rules_for(settings: GenerationConfig, eos: Sequence[int], starts: list[int], limits: list[int]) -> list[Rule]:
    """The rules that the settings ask for; rows began with `starts` tokens and end at `limits`."""
    rules: list[Rule] = []
    if settings.repetition_penalty != 1.0:
        rules.append(RepetitionPenalty(settings.repetition_penalty))
    if settings.no_repeat_ngram_size:
        rules.append(NoRepeatedNgram(settings.no_repeat_ngram_size))
    if settings.bad_words_ids:
        rules.append(NoBadWords([words for words in settings.bad_words_ids if words not in [[e] for e in eos]]))
    if eos and (settings.min_length or settings.min_new_tokens):
        least = [max(settings.min_length, start + (settings.min_new_tokens or 0)) for start in starts]
        rules.append(NotBefore(least, eos))
    if settings.forced_bos_token_id is not None:
        rules.append(ForcedAt([1] * len(starts), [settings.forced_bos_token_id]))
    if settings.forced_eos_token_id is not None:
        forced = settings.forced_eos_token_id
        rules.append(ForcedAt([limit - 1 for limit in limits], [forced] if isinstance(forced, int) else forced))
    if settings.suppress_tokens:
        rules.append(Suppressed(settings.suppress_tokens))
    if settings.begin_suppress_tokens:
        rules.append(SuppressedAt(starts, settings.begin_suppress_tokens))
    return rules


class RepetitionPenalty:
    """Make what was said less likely: divide positive scores, multiply negative ones (Keskar et al. 2019)."""

    def __init__(self, penalty: float):
        self.penalty = penalty

    def __call__(self, histories: list[History], scores: Tensor) -> Tensor:
        longest = max(map(len, histories))
        said = torch.tensor([h + h[-1:] * (longest - len(h)) for h in histories], device=scores.device)
        old = scores.gather(1, said)
        return scores.scatter(1, said, torch.where(old < 0, old * self.penalty, old / self.penalty))


class NoRepeatedNgram:
    """Never say the same n words twice."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, histories: list[History], scores: Tensor) -> Tensor:
        return forbid(scores, [self.repeats(history) for history in histories])

    def repeats(self, history: History) -> list[int]:
        """The words that followed the last n - 1 words before."""
        last = len(history) - self.size + 1
        if last < 0:
            return []
        prefix = history[last:]
        return [history[i + len(prefix)] for i in range(last) if history[i : i + len(prefix)] == prefix]


class NoBadWords:
    """Never finish one of these sequences of tokens."""

    def __init__(self, words: list[list[int]]):
        self.words = words

    def __call__(self, histories: list[History], scores: Tensor) -> Tensor:
        return forbid(scores, [self.finishing(history) for history in histories])

    def finishing(self, history: History) -> list[int]:
        return [word[-1] for word in self.words if len(word) == 1 or history[1 - len(word) :] == word[:-1]]


class NotBefore:
    """None of these tokens before a row has its least length."""

    def __init__(self, least: list[int], tokens: Sequence[int]):
        self.least = least
        self.tokens = list(tokens)

    def __call__(self, histories: list[History], scores: Tensor) -> Tensor:
        rows = [len(h) < least for h, least in zip(histories, spread(self.least, histories), strict=True)]
        return forbid(scores, [self.tokens if early else [] for early in rows])


class ForcedAt:
    """Only these tokens when a row has this length."""

    def __init__(self, lengths: list[int], tokens: list[int]):
        self.lengths = lengths
        self.tokens = tokens

    def __call__(self, histories: list[History], scores: Tensor) -> Tensor:
        scores = scores.clone()
        for row, (history, length) in enumerate(zip(histories, spread(self.lengths, histories), strict=True)):
            if len(history) == length:
                scores[row] = NEVER
                scores[row, self.tokens] = 0.0
        return scores


class Suppressed:
    """None of these tokens, ever."""

    def __init__(self, tokens: list[int]):
        self.tokens = tokens

    def __call__(self, histories: list[History], scores: Tensor) -> Tensor:
        return forbid(scores, [self.tokens] * len(histories))


class SuppressedAt(NotBefore):
    """None of these tokens as the first new one."""

    def __init__(self, starts: list[int], tokens: list[int]):
        super().__init__([start + 1 for start in starts], tokens)


def forbid(scores: Tensor, tokens: list[list[int]]) -> Tensor:
    """Scores of minus infinity for each row's tokens."""
    places = [(row, token) for row, forbidden in enumerate(tokens) for token in forbidden]
    if not places:
        return scores
    rows, columns = torch.tensor(places, device=scores.device).unbind(1)
    return scores.index_put((rows, columns), scores.new_tensor(NEVER))


def spread(values: list[int], histories: list) -> list[int]:
    """One value for each row, where several rows belong to each prompt."""
    each = len(histories) // len(values)
    return [value for value in values for _ in range(each)]
