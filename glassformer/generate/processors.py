"""What may be said next: every rule changes the scores of the next word, seeing what was said so far.

A rule takes the texts so far (their own tokens, prompt included, never padding) and the scores (R V), and returns new
scores. They run in the order of `rules_for`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .config import GenerationConfig

History = list[int]


class Text(NamedTuple):
    """A sequence so far, with the number of its prompt's tokens and the most it may have."""

    tokens: History
    start: int
    limit: int


Rule = Callable[[list[Text], Tensor], Tensor]
NEVER = -float("inf")


def rules_for(settings: GenerationConfig, eos: Sequence[int]) -> list[Rule]:
    """The rules that the settings ask for."""
    rules: list[Rule] = []
    if settings.repetition_penalty != 1.0:
        rules.append(RepetitionPenalty(settings.repetition_penalty))
    if settings.no_repeat_ngram_size:
        rules.append(NoRepeatedNgram(settings.no_repeat_ngram_size))
    if settings.bad_words_ids:
        rules.append(NoBadWords([words for words in settings.bad_words_ids if words not in [[e] for e in eos]]))
    if eos and (settings.min_length or settings.min_new_tokens):
        rules.append(NotBefore(settings.min_length, settings.min_new_tokens or 0, eos))
    if settings.forced_bos_token_id is not None:
        rules.append(ForcedAt([settings.forced_bos_token_id], lambda text: len(text.tokens) == 1))
    if settings.forced_eos_token_id is not None:
        forced = settings.forced_eos_token_id
        tokens = [forced] if isinstance(forced, int) else forced
        rules.append(ForcedAt(tokens, lambda text: len(text.tokens) == text.limit - 1))
    if settings.suppress_tokens:
        rules.append(Suppressed(settings.suppress_tokens))
    if settings.begin_suppress_tokens:
        rules.append(NotBefore(0, 1, settings.begin_suppress_tokens))
    return rules


class RepetitionPenalty:
    """Make what was said less likely: divide positive scores, multiply negative ones (Keskar et al. 2019)."""

    def __init__(self, penalty: float):
        self.penalty = penalty

    def __call__(self, texts: list[Text], scores: Tensor) -> Tensor:
        longest = max(len(text.tokens) for text in texts)
        padded = [text.tokens + text.tokens[-1:] * (longest - len(text.tokens)) for text in texts]
        said = torch.tensor(padded, device=scores.device)
        old = scores.gather(1, said)
        return scores.scatter(1, said, torch.where(old < 0, old * self.penalty, old / self.penalty))


class NoRepeatedNgram:
    """Never say the same n words twice."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, texts: list[Text], scores: Tensor) -> Tensor:
        return forbid(scores, [self.repeats(text.tokens) for text in texts])

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

    def __call__(self, texts: list[Text], scores: Tensor) -> Tensor:
        return forbid(scores, [self.finishing(text.tokens) for text in texts])

    def finishing(self, history: History) -> list[int]:
        return [word[-1] for word in self.words if len(word) == 1 or history[1 - len(word) :] == word[:-1]]


class NotBefore:
    """None of these tokens before a text has its least length, and its least number of new tokens."""

    def __init__(self, length: int, new: int, tokens: Sequence[int]):
        self.length = length
        self.new = new
        self.tokens = list(tokens)

    def __call__(self, texts: list[Text], scores: Tensor) -> Tensor:
        early = [len(text.tokens) < max(self.length, text.start + self.new) for text in texts]
        return forbid(scores, [self.tokens if is_early else [] for is_early in early])


class ForcedAt:
    """Only these tokens at a certain moment."""

    def __init__(self, tokens: list[int], is_moment: Callable[[Text], bool]):
        self.tokens = tokens
        self.is_moment = is_moment

    def __call__(self, texts: list[Text], scores: Tensor) -> Tensor:
        scores = scores.clone()
        for row, text in enumerate(texts):
            if self.is_moment(text):
                scores[row] = NEVER
                scores[row, self.tokens] = 0.0
        return scores


class Suppressed:
    """None of these tokens, ever."""

    def __init__(self, tokens: list[int]):
        self.tokens = tokens

    def __call__(self, texts: list[Text], scores: Tensor) -> Tensor:
        return forbid(scores, [self.tokens] * len(texts))


def forbid(scores: Tensor, tokens: list[list[int]]) -> Tensor:
    """Scores of minus infinity for each row's tokens."""
    places = [(row, token) for row, forbidden in enumerate(tokens) for token in forbidden]
    if not places:
        return scores
    rows, columns = torch.tensor(places, device=scores.device).unbind(1)
    return scores.index_put((rows, columns), scores.new_tensor(NEVER))
