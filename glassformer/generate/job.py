"""One call of `generate`, worked out: what is continued, how, how far, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..models.outputs import ModelOutput, output
from .config import GenerationConfig
from .processors import History, Rule, Text
from .sampling import Generators

EOS, STOP, LENGTH = "eos", "stop", "length"  # why a sequence ended


@dataclass
class Job:
    """What a search needs to know. Prompts are their own tokens, without padding."""

    prompts: list[History]
    limits: list[int]  # how many tokens each prompt may grow to
    settings: GenerationConfig
    eos: list[int]
    rules: list[Rule]
    generators: Generators
    says_stop: Callable[[History], bool]  # whether new tokens end in a string that stops them
    context: int | None  # how many tokens the model reads at once; None for any number
    words: int  # the size of its vocabulary

    def is_full(self, tokens: int) -> bool:
        """Whether the model cannot read so many."""
        return self.context is not None and tokens > self.context

    def apply_rules(self, texts: list[Text], scores: Tensor) -> Tensor:
        for rule in self.rules:
            scores = rule(texts, scores)
        return scores

    def reason_to_end(self, text: Text) -> str | None:
        """Why a sequence ends with its last token, if it does."""
        if text.tokens[-1] in self.eos:
            return EOS
        if self.says_stop(text.tokens[text.start :]):
            return STOP
        return LENGTH if len(text.tokens) >= text.limit else None


@dataclass
class Continuation:
    """One finished sequence."""

    tokens: History  # the new ones alone
    reason: str
    score: float | None = None
    beams: list[int] = field(default_factory=list)  # which beam each new token was found on


@dataclass
class Found:
    """What a search found: for each prompt its continuations, one prompt after the other."""

    continuations: list[Continuation]
    scores: list[Tensor] | None = None  # for each step R V


class Progress:
    """Sequences that grow by one token a step, until each has a reason to end."""

    def __init__(self, job: Job, copies: int = 1):
        self.job = job
        prompts = zip(job.prompts, job.limits, strict=True)
        self.texts = [Text(list(prompt), len(prompt), limit) for prompt, limit in prompts for _ in range(copies)]
        self.reasons: dict[int, str] = {}
        self.rows = list(range(len(self.texts)))  # the sequences that go on
        self.scores: list[Tensor] | None = [] if job.settings.output_scores else None

    def open_texts(self) -> list[Text]:
        return [self.texts[row] for row in self.rows]

    def note(self, scores: Tensor) -> None:
        """Remember what the words of this step are chosen from."""
        if self.scores is not None:
            self.scores.append(scores.new_zeros(len(self.texts), scores.shape[1]))
            self.scores[-1][self.rows] = scores

    def say(self, tokens: Tensor) -> tuple[list[tuple[int, int]], Tensor]:
        """Add a token to every open sequence; the (sequence, token) pairs, and which places go on."""
        said = list(zip(self.rows, tokens.tolist(), strict=True))
        for row, token in said:
            self.texts[row].tokens.append(token)
            reason = self.job.reason_to_end(self.texts[row])
            if reason is not None:
                self.reasons[row] = reason
        places = [place for place, row in enumerate(self.rows) if row not in self.reasons]
        self.rows = [self.rows[place] for place in places]
        return said, torch.tensor(places, dtype=torch.long, device=tokens.device)

    def found(self) -> Found:
        ended = [Continuation(text.tokens[text.start :], self.reasons[row]) for row, text in enumerate(self.texts)]
        return Found(ended, self.scores)


@output
class GenerateOutput(ModelOutput):
    """`sequences` holds the prompts as they were given and what follows; the rest is there if it was asked for."""

    sequences: Tensor | None = None  # R T
    scores: tuple[Tensor, ...] | None = None  # for each step R V, as they were chosen from
    sequences_scores: Tensor | None = None  # R: of beam searches
    beam_indices: Tensor | None = None  # R new tokens, -1 behind the end: of beam searches
    finish_reasons: tuple[str, ...] | None = None  # for each sequence "eos", "stop" or "length"


def assemble(given: Tensor, found: Found, settings: GenerationConfig, pad: int) -> Tensor | GenerateOutput:
    """Prompts as they were given (B T), each followed by its continuations."""
    continuations = found.continuations
    longest = max(len(one.tokens) for one in continuations)
    new = [one.tokens + [pad] * (longest - len(one.tokens)) for one in continuations]
    copies = len(continuations) // given.shape[0]
    new_tokens = torch.tensor(new, dtype=given.dtype, device=given.device)
    sequences = torch.cat((given.repeat_interleave(copies, 0), new_tokens), 1)
    if not settings.return_dict_in_generate:
        return sequences
    scored = settings.output_scores and continuations[0].score is not None
    beams = [one.beams + [-1] * (longest - len(one.beams)) for one in continuations]
    return GenerateOutput(
        sequences=sequences,
        scores=tuple(found.scores) if found.scores is not None else None,
        sequences_scores=torch.tensor([one.score for one in continuations], device=given.device) if scored else None,
        beam_indices=torch.tensor(beams, device=given.device) if scored else None,
        finish_reasons=tuple(one.reason for one in continuations),
    )
