"""Constrained beam search: words that must occur (`force_words_ids`).

Every step considers, beside the likeliest next tokens, those that advance the constraints of a beam. All candidates are
sorted into banks by how many constraint tokens they have met, and the next beams are allocated round-robin over the
banks, so that likely beams and constrained ones continue side by side (Post and Vilar 2018).

A sequence is matched against one word at a time. A token that breaks off a word begins no other one, and no token
belongs to two words. The prompt is matched in the same way: words that it contains need not occur again.

The sequences are those of transformers 4.30, except where it contradicts its own purpose:
- Sequences that meet all constraints come before all others. There, better scored ones without the words come first.
- Alternative words may share a prefix. There, only the first of them advances the constraint where they part, and one
  that is a prefix of another is refused; here it is enough.
- The bank of a beam depends on its words alone. There, 100 lost in log-probability outweigh a matched token.
- A forbidden token never advances a constraint. There, it can fill a beam with an impossible sequence.
- Padding matches nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import ConfigError
from .beam_search import DISABLED, Beam, BeamHypotheses, BeamSearch, Candidate
from .model_runner import RunnerFactory
from .request import LENGTH, Continuation, GenerationRequest, Search, SearchResult

log = logging.getLogger("glassformer")

Trie = dict[int, "Trie"]  # a token and what may follow it; empty where a word is complete


def constrained_beam_search(request: GenerationRequest, make_runner: RunnerFactory) -> Search:
    """Continue all prompts with sequences that contain the forced words; no steps, as in `beam_search`."""
    return ConstrainedBeamSearch(request).run(make_runner)
    yield []


class Constraint:
    """One requirement: any one of several words must occur."""

    def __init__(self, words: list[list[int]]):
        self.words = words
        self.trie: Trie = {}
        shortest = [word for word in words if not any(starts_with(word, other) for other in words if other != word)]
        self.length = max(map(len, shortest))
        for word in shortest:
            node = self.trie
            for token in word:
                node = node.setdefault(token, {})

    def is_met_by(self, tokens: list[int]) -> bool:
        return any(starts_with(tokens[i:], word) for word in self.words for i in range(len(tokens)))


def starts_with(tokens: list[int], prefix: list[int]) -> bool:
    return tokens[: len(prefix)] == prefix


def parse_constraints(force_words_ids: list, eos: list[int]) -> tuple[Constraint, ...]:
    """Each entry is a word, or a list of alternative words."""
    constraints = tuple(Constraint(entry if isinstance(entry[0], list) else [entry]) for entry in force_words_ids)
    for word in (word for constraint in constraints for word in constraint.words):
        if not set(word).isdisjoint(eos):
            raise ConfigError(
                f"force_words_ids must not contain a token that ends a sequence, got {word!r:.60} and eos_token_id "
                f"{eos}: encode the words with add_special_tokens=False"
            )
    return constraints


@dataclass(frozen=True)
class ConstraintState:
    """Which constraints a sequence has met, and how much of the current one."""

    pending: tuple[Constraint, ...]  # neither met nor current
    max_length: int  # tokens of the longest word of all
    met: int = 0
    current: Constraint | None = None
    matched: int = 0  # tokens of the current one
    node: Trie | None = None  # what may follow them

    @classmethod
    def initial(cls, constraints: tuple[Constraint, ...]) -> ConstraintState:
        return cls(constraints, max(constraint.length for constraint in constraints))

    @property
    def is_complete(self) -> bool:
        return not self.pending and self.current is None

    @property
    def bank(self) -> int:
        """The longest word's length for each constraint met, and for the current one as many less as it still needs."""
        partial = self.max_length - (self.current.length - self.matched) if self.current else 0
        return self.met * self.max_length + partial

    def advancing_tokens(self) -> list[int]:
        """The tokens that advance it: of the current constraint if there is one, else of all pending ones."""
        if self.current:
            return list(self.node)
        return list(dict.fromkeys(token for constraint in self.pending for token in constraint.trie))

    def after(self, *tokens: int) -> ConstraintState:
        state = self
        for token in tokens:
            state = state.continue_current(token) if state.current else state.begin_pending(token)
        return state

    def begin_pending(self, token: int) -> ConstraintState:
        for i, constraint in enumerate(self.pending):
            if token in constraint.trie:
                others = self.pending[:i] + self.pending[i + 1 :]
                return replace(self, pending=others, current=constraint).match(1, constraint.trie[token])
        return self

    def continue_current(self, token: int) -> ConstraintState:
        if token in self.node:
            return self.match(self.matched + 1, self.node[token])
        return replace(self, pending=(*self.pending, self.current), current=None)

    def match(self, matched: int, node: Trie) -> ConstraintState:
        if node:
            return replace(self, matched=matched, node=node)
        return replace(self, met=self.met + 1, current=None)


class ConstrainedHypotheses(BeamHypotheses):
    """Keeps the best sequences that meet all constraints; others are a fallback if there are too few of those."""

    def __init__(self, initial: ConstraintState, *settings):
        super().__init__(*settings)
        self.initial = initial
        self.truncated = BeamHypotheses(*settings)  # incomplete at the maximum length
        self.ended = BeamHypotheses(*settings)  # incomplete and ended: the last resort

    def add(self, tokens: list[int], eos: list[int], log_prob: float, reason: str, beam_indices: list[int]) -> None:
        if self.initial.after(*tokens).is_complete:
            super().add(tokens, eos, log_prob, reason, beam_indices)
        elif reason == LENGTH and log_prob > DISABLED:
            self.truncated.add(tokens, eos, log_prob, reason, beam_indices)
        else:
            self.ended.add(tokens, eos, log_prob, reason, beam_indices)

    def best(self, count: int) -> list[Continuation]:
        ranked = super().best(count) + self.truncated.best(count) + self.ended.best(count)
        return ranked[:count]


class ConstrainedBeamSearch(BeamSearch):
    """A beam search that also considers the tokens that advance the constraints."""

    def __init__(self, request: GenerationRequest):
        self.constraints = parse_constraints(request.settings.force_words_ids, request.eos)
        self.initial = ConstraintState.initial(self.constraints)
        super().__init__(request)
        self.states = [[self.initial.after(*prompt)] * self.num_beams for prompt in request.prompts]  # of the beams
        self.token_scores: dict[int, Tensor] = {}  # for every active prompt G V

    def make_hypotheses(self, *settings) -> BeamHypotheses:
        return ConstrainedHypotheses(self.initial, *settings)

    def rank_candidates(
        self, log_probs: Tensor, group: slice, next_beams: dict[int, list[Beam]]
    ) -> tuple[list[list[Candidate]], Tensor]:
        ranked, scores = super().rank_candidates(log_probs, group, next_beams)
        self.token_scores = dict(zip(self.active, scores, strict=True))
        return ranked, scores

    def choose_beams(self, prompt: int, first: int, ranked: list[Candidate]) -> list[Beam]:
        """The next beams: the best of every bank, then the second best of every bank, and so on."""
        beams = super().choose_beams(prompt, first, ranked)
        tried = {(beam.parent, beam.tokens[-1]) for beam in beams}
        tried.update((place, token) for _, place, token in ranked[: self.num_beams])
        beams += self.advance_constraints(prompt, tried)
        states = [self.states[prompt][beam.parent].after(beam.tokens[-1]) for beam in beams]
        order = allocate_round_robin([state.bank for state in states], [beam.log_prob for beam in beams])
        chosen = order[: self.num_beams]
        self.states[prompt] = [states[i] for i in chosen]
        return [beams[i] for i in chosen]

    def advance_constraints(self, prompt: int, tried: set[tuple[int, int]]) -> list[Beam]:
        """The beams whose last token advances a constraint, except the (beam, token) pairs that were tried."""
        beams, scores = self.beams[prompt], self.token_scores[prompt]
        pairs = [
            (place, token)
            for place, state in enumerate(self.states[prompt])
            for token in state.advancing_tokens()
            if (place, token) not in tried
        ]
        if not pairs:
            return []
        places, tokens = torch.tensor(pairs, device=scores.device).unbind(1)
        log_probs = torch.tensor([beam.log_prob for beam in beams], device=scores.device)[places]
        totals = log_probs + scores[places, tokens]
        extended = [
            self.extend(prompt, place, token, total, is_hypothesis=True)
            for (place, token), total in zip(pairs, totals.tolist(), strict=True)
            if total > DISABLED
        ]
        return [beam for beam in extended if beam is not None]

    def result(self) -> SearchResult:
        result = super().result()
        copies = self.request.settings.num_return_sequences
        incomplete = [
            row
            for row, one in enumerate(result.continuations)
            if not all(each.is_met_by(self.request.prompts[row // copies] + one.tokens) for each in self.constraints)
        ]
        if incomplete:
            log.warning(
                "rows %s of the result lack some of the force_words_ids, since no better sequences were found: "
                "allow more new tokens, or more beams",
                incomplete,
            )
        return result


def allocate_round_robin(banks: list[int], log_probs: list[float]) -> list[int]:
    """The order in which the banks give their beams, the highest bank first; disabled beams come last."""
    ranked = sorted(range(len(banks)), key=lambda i: (banks[i], log_probs[i]), reverse=True)
    taken: Counter[int] = Counter()
    rounds = {}
    for i in ranked:
        rounds[i] = taken[banks[i]]
        taken[banks[i]] += 1
    return sorted(ranked, key=lambda i: (log_probs[i] <= DISABLED, rounds[i]))
