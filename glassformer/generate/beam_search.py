"""Beam search: follow the best few continuations of every prompt at once.

Diverse beam search (Vijayakumar et al. 2018) splits the beams into groups and makes each group avoid the tokens that
the groups before it have just chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from .model_runner import RunnerFactory, max_decode_steps
from .request import EOS, LENGTH, STOP, Continuation, GenerationRequest, Search, SearchResult
from .sampling import sample, warp_logits
from .token_sequence import TokenSequence

DISABLED = -1e9  # the score of a beam that is there only to fill the batch, such as the copies of the first


def beam_search(request: GenerationRequest, make_runner: RunnerFactory) -> Search:
    """Continue all prompts; there are no steps to yield, since any beam may still be dropped."""
    return BeamSearch(request).run(make_runner)
    yield []


@dataclass
class BeamHypotheses:
    """The best finished continuations of one prompt."""

    size: int
    prompt_length: int
    max_length: int
    length_penalty: float
    counts_prompt: bool
    early_stopping: bool | str
    kept: list[Continuation] = field(default_factory=list)

    def normalise(self, log_prob: float, length: int) -> float:
        """The sum of log-probabilities over the sequence's length to the power of the penalty."""
        counted = length if self.counts_prompt else length - self.prompt_length
        return log_prob / max(counted, 1) ** self.length_penalty

    def add(self, tokens: list[int], eos: list[int], log_prob: float, reason: str, beam_indices: list[int]) -> None:
        """Keep a hypothesis if it is among the best; `eos` is the end token, which does not count as length."""
        score = self.normalise(log_prob, len(tokens) + (0 if self.counts_prompt else len(eos)))
        if len(self.kept) == self.size:
            worst = min(self.kept, key=lambda one: one.score)
            if score <= worst.score:
                return
            self.kept.remove(worst)
        self.kept.append(Continuation(tokens[self.prompt_length :] + eos, reason, score, beam_indices))

    def is_done(self, log_prob: float, length: int) -> bool:
        """Whether no beam can improve on what is kept; `log_prob` is the highest among beams of this length."""
        if len(self.kept) < self.size:
            return False
        if self.early_stopping is True:
            return True
        if self.early_stopping == "never" and self.length_penalty > 0:
            length = self.max_length
        return min(one.score for one in self.kept) >= self.normalise(log_prob, length)

    def best(self, count: int) -> list[Continuation]:
        """The `count` best, best first."""
        return sorted(self.kept, key=lambda one: one.score)[: -count - 1 : -1]


@dataclass
class Beam:
    """One running continuation."""

    tokens: list[int]  # prompt included
    log_prob: float
    beam_indices: list[int] = field(default_factory=list)  # the beam that each new token extended
    parent: int = 0


# The summed log-probability of a beam that is extended, its place in the group, and the next token.
Candidate = tuple[float, int, int]


class BeamSearch:
    """The beams of all prompts."""

    def __init__(self, request: GenerationRequest):
        self.request = request
        settings = request.settings
        self.num_beams = settings.num_beams
        self.group_size = settings.num_beams // settings.num_beam_groups
        self.hypotheses = [
            self.make_hypotheses(
                self.num_beams,
                len(prompt),
                max_length,
                settings.length_penalty,
                settings.length_penalty_counts == "all",
                settings.early_stopping,
            )
            for prompt, max_length in zip(request.prompts, request.max_lengths, strict=True)
        ]
        self.beams = [
            [Beam(list(prompt), 0.0 if i % self.group_size == 0 else DISABLED) for i in range(self.num_beams)]
            for prompt in request.prompts
        ]
        self.active = list(range(len(request.prompts)))  # prompts that continue
        self.done: set[int] = set()  # prompts whose hypotheses no beam can improve on
        self.scores: list[Tensor] | None = [] if settings.output_scores else None  # of each step

    def make_hypotheses(self, *settings) -> BeamHypotheses:
        return BeamHypotheses(*settings)

    def run(self, make_runner: RunnerFactory) -> SearchResult:
        prompts = self.request.prompts
        runner = make_runner(max_decode_steps(self.request, prompts))
        logits = runner.prefill(prompts, self.num_beams)[:, None].expand(-1, self.num_beams, -1)  # B G V
        while True:
            self.step(logits)
            kept = [place for place, prompt in enumerate(self.active) if self.should_continue(prompt)]
            if not kept:
                return self.result()
            if len(kept) < len(self.active):
                runner.select(torch.tensor(kept, device=logits.device))
                self.active = [self.active[place] for place in kept]
            tokens = [[beam.tokens[-1] for beam in self.beams[prompt]] for prompt in self.active]
            parents = [[beam.parent for beam in self.beams[prompt]] for prompt in self.active]
            logits = runner.decode_step(*torch.tensor([tokens, parents], device=logits.device))

    def step(self, logits: Tensor) -> None:
        """Choose the next beams of every active prompt from the logits (B G V) of their next tokens."""
        log_probs = logits.log_softmax(-1)
        group_scores = []
        next_beams: dict[int, list[Beam]] = {prompt: [] for prompt in self.active}
        done: set[int] = set()
        for first in range(0, self.num_beams, self.group_size):
            group = slice(first, first + self.group_size)
            candidates, scores = self.rank_candidates(log_probs[:, group], group, next_beams)
            group_scores.append(scores)
            for prompt, ranked in zip(self.active, candidates, strict=True):
                if prompt in done:
                    next_beams[prompt] += self.beams[prompt][group]
                    continue
                next_beams[prompt] += self.choose_beams(prompt, first, ranked)
                best = max(log_prob for log_prob, _, _ in ranked)
                if self.hypotheses[prompt].is_done(best, len(self.beams[prompt][0].tokens) + 1):
                    done.add(prompt)
        for prompt in self.active:
            self.beams[prompt] = next_beams[prompt]
        self.done = done
        if self.scores is not None:
            all_scores = logits.new_zeros(len(self.beams), *logits.shape[1:])
            all_scores[self.active] = torch.cat(group_scores, 1)
            self.scores.append(all_scores.flatten(0, 1))

    def rank_candidates(
        self, log_probs: Tensor, group: slice, next_beams: dict[int, list[Beam]]
    ) -> tuple[list[list[Candidate]], Tensor]:
        """The best candidates of a group for every active prompt, best first, and the scores of all."""
        request, settings = self.request, self.request.settings
        batch, size, vocab_size = log_probs.shape
        beams = [beam for prompt in self.active for beam in self.beams[prompt][group]]
        sequences = [
            TokenSequence(beam.tokens, self.hypotheses[prompt].prompt_length, self.hypotheses[prompt].max_length)
            for prompt in self.active
            for beam in self.beams[prompt][group]
        ]
        scores = log_probs.reshape(batch * size, vocab_size)
        if next_beams[self.active[0]]:
            counts = self.count_chosen_tokens(next_beams, scores)  # B V
            scores = scores - settings.diversity_penalty * counts.repeat_interleave(size, 0)
        scores = request.process_logits(sequences, scores)
        count = max(2, 1 + len(request.eos)) * size
        if settings.do_sample:
            scores = warp_logits(scores, settings, min_tokens=count // size)
        totals = scores + torch.tensor([beam.log_prob for beam in beams], device=scores.device)[:, None]
        totals = totals.view(batch, size * vocab_size)
        if settings.do_sample:
            sampled = sample(totals, self.active_generators(), count)
            best, order = totals.gather(1, sampled).sort(1, descending=True)
            indices = sampled.gather(1, order)
        else:
            best, indices = totals.topk(min(count, totals.shape[1]))
        ranked = [
            [(total, i // vocab_size, i % vocab_size) for total, i in zip(*row, strict=True)]
            for row in zip(best.tolist(), indices.tolist(), strict=True)
        ]
        return ranked, scores.view(batch, size, vocab_size)

    def count_chosen_tokens(self, next_beams: dict[int, list[Beam]], like: Tensor) -> Tensor:
        """How often the groups before have just chosen each token (B V)."""
        tokens = [[beam.tokens[-1] for beam in next_beams[prompt]] for prompt in self.active]
        chosen = torch.tensor(tokens, device=like.device)
        counts = like.new_zeros(len(tokens), like.shape[1])
        return counts.scatter_add(1, chosen, torch.ones_like(chosen, dtype=like.dtype))

    def choose_beams(self, prompt: int, first: int, ranked: list[Candidate]) -> list[Beam]:
        """The group's next beams; finished sequences become hypotheses."""
        beams: list[Beam] = []
        for rank, (log_prob, place, token) in enumerate(ranked):
            beam = self.extend(prompt, first + place, token, log_prob, is_hypothesis=rank < self.group_size)
            if beam is not None:
                beams.append(beam)
            if len(beams) == self.group_size:
                return beams
        parent, beam_indices = self.beams[prompt][first + place], self.beam_indices(prompt, first + place)
        while len(beams) < self.group_size:  # nearly all tokens end the sequence: fill the batch
            beams.append(Beam([*parent.tokens, token], DISABLED, beam_indices, first + place))
        return beams

    def extend(self, prompt: int, place: int, token: int, log_prob: float, is_hypothesis: bool) -> Beam | None:
        """A beam extended by a token. If that finishes it, None: it becomes a hypothesis if `is_hypothesis`."""
        hypotheses, parent = self.hypotheses[prompt], self.beams[prompt][place]
        tokens, beam_indices = [*parent.tokens, token], self.beam_indices(prompt, place)
        if token in self.request.eos:
            if is_hypothesis:
                hypotheses.add(parent.tokens, [token], log_prob, EOS, beam_indices)
        elif self.request.ends_with_stop_string(tokens[hypotheses.prompt_length :]):
            if is_hypothesis:
                hypotheses.add(tokens, [], log_prob, STOP, beam_indices)
        else:
            return Beam(tokens, log_prob, beam_indices, place)
        return None

    def beam_indices(self, prompt: int, place: int) -> list[int]:
        """The beam indices of the tokens of a beam and of the next one."""
        return [*self.beams[prompt][place].beam_indices, prompt * self.num_beams + place]

    def should_continue(self, prompt: int) -> bool:
        """Whether a prompt needs another step; beams of maximum length become hypotheses."""
        if prompt in self.done:
            return False
        beams, hypotheses = self.beams[prompt], self.hypotheses[prompt]
        if len(beams[0].tokens) < hypotheses.max_length:
            return True
        for beam in beams:
            hypotheses.add(beam.tokens, [], beam.log_prob, LENGTH, beam.beam_indices)
        return False

    def active_generators(self):
        generators = self.request.generators
        return [generators[prompt] for prompt in self.active] if isinstance(generators, list) else generators

    def result(self) -> SearchResult:
        count = self.request.settings.num_return_sequences
        return SearchResult([one for hypotheses in self.hypotheses for one in hypotheses.best(count)], self.scores)
