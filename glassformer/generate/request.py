"""A request to `generate`, its sequences while they grow, and what a search returns."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .config import GenerationConfig
from .sampling import RandomGenerators
from .token_sequence import LogitsProcessor, TokenSequence

EOS, STOP, LENGTH = "eos", "stop", "length"  # why a sequence ended


@dataclass
class GenerationRequest:
    """What a search needs to know. Prompts are without padding."""

    prompts: list[list[int]]
    max_lengths: list[int]  # of each prompt with its continuation
    settings: GenerationConfig
    eos: list[int]
    processors: list[LogitsProcessor]
    generators: RandomGenerators
    ends_with_stop_string: Callable[[list[int]], bool]  # for the new tokens of a sequence
    context_length: int | None  # how many tokens the model reads at once; None for any number
    vocab_size: int

    def exceeds_context(self, length: int) -> bool:
        return self.context_length is not None and length > self.context_length

    def process_logits(self, sequences: list[TokenSequence], logits: Tensor) -> Tensor:
        for processor in self.processors:
            logits = processor(sequences, logits)
        return logits

    def finish_reason(self, sequence: TokenSequence) -> str | None:
        """Why a sequence ends with its last token, or None if it continues."""
        if sequence.tokens[-1] in self.eos:
            return EOS
        if self.ends_with_stop_string(sequence.tokens[sequence.prompt_length :]):
            return STOP
        return LENGTH if len(sequence.tokens) >= sequence.max_length else None


@dataclass
class Continuation:
    """One finished sequence."""

    tokens: list[int]  # the new ones alone
    finish_reason: str
    score: float | None = None
    beam_indices: list[int] = field(default_factory=list)  # the beam that each new token extended


@dataclass
class SearchResult:
    """The continuations of each prompt, one prompt after the other."""

    continuations: list[Continuation]
    scores: list[Tensor] | None = None  # for each step R V


# A search yields the (sequence, token) pairs of each step and returns its result.
Search = Generator[list[tuple[int, int]], None, SearchResult]


class SequenceBatch:
    """Sequences that grow by one token a step, until each has a reason to finish."""

    def __init__(self, request: GenerationRequest, copies: int = 1):
        self.request = request
        prompts = zip(request.prompts, request.max_lengths, strict=True)
        self.sequences = [
            TokenSequence(list(prompt), len(prompt), length) for prompt, length in prompts for _ in range(copies)
        ]
        self.finish_reasons: dict[int, str] = {}
        self.active = list(range(len(self.sequences)))  # the sequences that continue
        self.scores: list[Tensor] | None = [] if request.settings.output_scores else None

    def process_logits(self, logits: Tensor) -> Tensor:
        """The scores of the next token of each active sequence."""
        return self.request.process_logits([self.sequences[row] for row in self.active], logits)

    def record_scores(self, scores: Tensor) -> None:
        """Keep the scores that the tokens of this step are chosen by, if requested."""
        if self.scores is not None:
            self.scores.append(scores.new_zeros(len(self.sequences), scores.shape[1]))
            self.scores[-1][self.active] = scores

    def append(self, tokens: Tensor) -> tuple[list[tuple[int, int]], Tensor]:
        """Add a token to each active sequence; the (sequence, token) pairs, and the indices of those that continue."""
        pairs = list(zip(self.active, tokens.tolist(), strict=True))
        for row, token in pairs:
            self.sequences[row].tokens.append(token)
            reason = self.request.finish_reason(self.sequences[row])
            if reason is not None:
                self.finish_reasons[row] = reason
        kept = [index for index, row in enumerate(self.active) if row not in self.finish_reasons]
        self.active = [self.active[index] for index in kept]
        return pairs, torch.tensor(kept, dtype=torch.long, device=tokens.device)

    def result(self) -> SearchResult:
        continuations = [
            Continuation(sequence.tokens[sequence.prompt_length :], self.finish_reasons[row])
            for row, sequence in enumerate(self.sequences)
        ]
        return SearchResult(continuations, self.scores)
