"""Logits processors: penalties, and tokens that are forced or forbidden by what a sequence contains so far.

A processor takes the sequences so far (prompt included, without padding) and the scores of their next tokens (R V), and
returns new scores. They run in the order of `make_processors`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .config import GenerationConfig
from .timestamps import TimestampRules
from .token_sequence import LogitsProcessor, TokenSequence


def make_processors(settings: GenerationConfig, eos: Sequence[int]) -> list[LogitsProcessor]:
    """The processors that the settings request."""
    processors: list[LogitsProcessor] = []
    if settings.repetition_penalty != 1.0:
        processors.append(RepetitionPenalty(settings.repetition_penalty))
    if settings.no_repeat_ngram_size:
        processors.append(NoRepeatNGram(settings.no_repeat_ngram_size))
    if settings.bad_words_ids:
        processors.append(NoBadWords([words for words in settings.bad_words_ids if words not in [[e] for e in eos]]))
    if eos and (settings.min_length or settings.min_new_tokens):
        processors.append(SuppressUntilLength(settings.min_length, settings.min_new_tokens or 0, eos))
    if settings.forced_bos_token_id is not None:
        processors.append(ForceTokens([settings.forced_bos_token_id], lambda sequence: len(sequence.tokens) == 1))
    if settings.forced_eos_token_id is not None:
        forced = settings.forced_eos_token_id
        tokens = [forced] if isinstance(forced, int) else forced
        processors.append(ForceTokens(tokens, lambda sequence: len(sequence.tokens) == sequence.max_length - 1))
    if settings.suppress_tokens:
        processors.append(SuppressTokens(settings.suppress_tokens))
    if settings.begin_suppress_tokens:
        processors.append(SuppressUntilLength(0, 1, settings.begin_suppress_tokens))
    if settings.return_timestamps:
        times = settings.no_timestamps_token_id + 1
        processors.append(TimestampRules(times, min(eos, default=times), settings.max_initial_timestamp_index))
    return processors


class RepetitionPenalty:
    """Make tokens less likely that occur: divide positive scores, multiply negative ones (Keskar et al. 2019)."""

    def __init__(self, penalty: float):
        self.penalty = penalty

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        longest = max(len(sequence.tokens) for sequence in sequences)
        padded = [each.tokens + each.tokens[-1:] * (longest - len(each.tokens)) for each in sequences]
        tokens = torch.tensor(padded, device=scores.device)
        old = scores.gather(1, tokens)
        return scores.scatter(1, tokens, torch.where(old < 0, old * self.penalty, old / self.penalty))


class NoRepeatNGram:
    """No n tokens in a row occur twice."""

    def __init__(self, size: int):
        self.size = size

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        return forbid(scores, [self.repeating(sequence.tokens) for sequence in sequences])

    def repeating(self, tokens: list[int]) -> list[int]:
        """The tokens that followed earlier occurrences of the last n - 1 tokens."""
        last = len(tokens) - self.size + 1
        if last < 0:
            return []
        prefix = tokens[last:]
        return [tokens[i + len(prefix)] for i in range(last) if tokens[i : i + len(prefix)] == prefix]


class NoBadWords:
    """No word (a list of tokens) is completed."""

    def __init__(self, words: list[list[int]]):
        self.words = words

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        return forbid(scores, [self.completing(sequence.tokens) for sequence in sequences])

    def completing(self, tokens: list[int]) -> list[int]:
        return [word[-1] for word in self.words if len(word) == 1 or tokens[1 - len(word) :] == word[:-1]]


class SuppressUntilLength:
    """None of these tokens before a sequence has a minimum length, and a minimum number of new tokens."""

    def __init__(self, min_length: int, min_new_tokens: int, tokens: Sequence[int]):
        self.min_length = min_length
        self.min_new_tokens = min_new_tokens
        self.tokens = list(tokens)

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        return forbid(scores, [self.tokens if self.is_short(sequence) else [] for sequence in sequences])

    def is_short(self, sequence: TokenSequence) -> bool:
        return len(sequence.tokens) < max(self.min_length, sequence.prompt_length + self.min_new_tokens)


class ForceTokens:
    """Only these tokens where a condition holds."""

    def __init__(self, tokens: list[int], condition: Callable[[TokenSequence], bool]):
        self.tokens = tokens
        self.condition = condition

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        scores = scores.clone()
        for row, sequence in enumerate(sequences):
            if self.condition(sequence):
                scores[row] = -torch.inf
                scores[row, self.tokens] = 0.0
        return scores


class SuppressTokens:
    """None of these tokens, ever."""

    def __init__(self, tokens: list[int]):
        self.tokens = torch.tensor(tokens)

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        return scores.index_fill(1, self.tokens.to(scores.device), -torch.inf)


def forbid(scores: Tensor, tokens: list[list[int]]) -> Tensor:
    """Scores in which each row's forbidden tokens are minus infinity."""
    places = [(row, token) for row, forbidden in enumerate(tokens) for token in forbidden]
    if not places:
        return scores
    rows, columns = torch.tensor(places, device=scores.device).unbind(1)
    return scores.index_put((rows, columns), scores.new_tensor(-torch.inf))
