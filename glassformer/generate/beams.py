"""Beam search: follow the best few continuations of every prompt at once.

Diverse beam search (Vijayakumar et al. 2018) splits the beams into groups and makes each group avoid the words that
the groups before it have just chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .job import EOS, LENGTH, STOP, Continuation, Found, Job
from .processors import History, Text
from .sampling import draw, narrow
from .search import ReaderMaker, room

UNLIKELY = -1e9  # of the beams that begin as copies of the first


def beam_search(job: Job, make_reader: ReaderMaker) -> Iterator[list[tuple[int, int]]]:
    """Continue all prompts; nothing can be shown on the way, since any beam may be given up."""
    return BeamSearch(job).run(make_reader)
    yield []


@dataclass
class Hypotheses:
    """The best finished continuations of one prompt."""

    size: int
    start: int  # tokens of the prompt
    limit: int
    length_penalty: float
    counts_prompt: bool
    early_stopping: bool | str
    kept: list[Continuation] = field(default_factory=list)

    def normalised(self, total: float, length: int) -> float:
        """The sum of log-probabilities over the sequence's length to the power of the penalty."""
        counted = length if self.counts_prompt else length - self.start
        return total / max(counted, 1) ** self.length_penalty

    def add(self, history: History, tail: list[int], total: float, reason: str, beams: list[int]) -> None:
        """Keep a hypothesis if it is among the best; `tail` is the end mark, which does not count."""
        score = self.normalised(total, len(history) + (0 if self.counts_prompt else len(tail)))
        if len(self.kept) == self.size:
            worst = min(self.kept, key=lambda one: one.score)
            if score <= worst.score:
                return
            self.kept.remove(worst)
        self.kept.append(Continuation(history[self.start :] + tail, reason, score, beams))

    def satisfied(self, best: float, length: int) -> bool:
        """Whether no beam can become better than what is kept; `best` is the highest sum among beams of `length`."""
        if len(self.kept) < self.size:
            return False
        if self.early_stopping is True:
            return True
        if self.early_stopping == "never" and self.length_penalty > 0:
            length = self.limit
        return min(one.score for one in self.kept) >= self.normalised(best, length)

    def best(self, count: int) -> list[Continuation]:
        """The best of what is kept, best first."""
        return sorted(self.kept, key=lambda one: one.score)[: -count - 1 : -1]


@dataclass
class Beam:
    """One continuation that is still followed."""

    history: History
    total: float
    path: list[int] = field(default_factory=list)  # the beam that each new token was found on
    parent: int = 0


class BeamSearch:
    """The beams of all prompts, and one step after the other."""

    def __init__(self, job: Job):
        self.job = job
        settings = job.settings
        self.width = settings.num_beams
        self.groups = settings.num_beam_groups
        self.each = self.width // self.groups  # beams of a group
        self.hypotheses = [
            self.make_hypotheses(
                self.width,
                len(prompt),
                limit,
                settings.length_penalty,
                settings.length_penalty_counts == "all",
                settings.early_stopping,
            )
            for prompt, limit in zip(job.prompts, job.limits, strict=True)
        ]
        self.beams = [
            [Beam(list(prompt), 0.0 if i % self.each == 0 else UNLIKELY) for i in range(self.width)]
            for prompt in job.prompts
        ]
        self.open = list(range(len(job.prompts)))  # prompts that go on
        self.finished: set[int] = set()  # prompts whose hypotheses no beam can better
        self.seen: list[Tensor] | None = [] if settings.output_scores else None

    def make_hypotheses(self, *settings) -> Hypotheses:
        return Hypotheses(*settings)

    def run(self, make_reader: ReaderMaker) -> Found:
        job = self.job
        reader = make_reader(room(job, job.prompts))
        scores = reader.begin(job.prompts, self.width)[:, None].expand(-1, self.width, -1)  # B G V
        while True:
            self.step(scores)
            going_on = [place for place, prompt in enumerate(self.open) if self.goes_on(prompt)]
            if not going_on:
                break
            if len(going_on) < len(self.open):
                reader.select(torch.tensor(going_on, device=scores.device))
                self.open = [self.open[place] for place in going_on]
            tokens = [[beam.history[-1] for beam in self.beams[prompt]] for prompt in self.open]
            parents = [[beam.parent for beam in self.beams[prompt]] for prompt in self.open]
            scores = reader.read(*torch.tensor([tokens, parents], device=scores.device))
        return self.best()

    def step(self, scores: Tensor) -> None:
        """Choose the next beams of every open prompt from the scores (B G V) of their next words."""
        log_chances = scores.log_softmax(-1)
        chosen_from = []
        grown: dict[int, list[Beam]] = {prompt: [] for prompt in self.open}
        finished: set[int] = set()
        for first in range(0, self.width, self.each):
            group = slice(first, first + self.each)
            candidates, chances = self.candidates(log_chances[:, group], group, grown)
            chosen_from.append(chances)
            for prompt, ranked in zip(self.open, candidates, strict=True):
                if prompt in finished:
                    grown[prompt] += self.beams[prompt][group]
                    continue
                grown[prompt] += self.grow(prompt, first, ranked)
                best = max(total for total, _, _ in ranked)
                if self.hypotheses[prompt].satisfied(best, len(self.beams[prompt][0].history) + 1):
                    finished.add(prompt)
        for prompt in self.open:
            self.beams[prompt] = grown[prompt]
        self.finished = finished
        if self.seen is not None:
            everyone = scores.new_zeros(len(self.beams), *scores.shape[1:])
            everyone[self.open] = torch.cat(chosen_from, 1)
            self.seen.append(everyone.flatten(0, 1))

    def candidates(
        self, log_chances: Tensor, group: slice, grown: dict[int, list[Beam]]
    ) -> tuple[list[list[tuple]], Tensor]:
        """For every open prompt the best (total, beam of the group, token), best first; and what they come from."""
        job, settings = self.job, self.job.settings
        batch, each, words = log_chances.shape
        beams = [beam for prompt in self.open for beam in self.beams[prompt][group]]
        texts = [
            Text(beam.history, self.hypotheses[prompt].start, self.hypotheses[prompt].limit)
            for prompt in self.open
            for beam in self.beams[prompt][group]
        ]
        scores = log_chances.reshape(batch * each, words)
        if grown[self.open[0]]:
            others = self.said_by_others(grown, words, scores)  # B V
            scores = scores - settings.diversity_penalty * others.repeat_interleave(each, 0)
        scores = job.apply_rules(texts, scores)
        count = max(2, 1 + len(job.eos)) * each
        if settings.do_sample:
            scores = narrow(scores, settings, least=count // each)
        totals = scores + torch.tensor([beam.total for beam in beams], device=scores.device)[:, None]
        totals = totals.view(batch, each * words)
        if settings.do_sample:
            drawn = draw(totals, self.generators(), count)
            best, order = totals.gather(1, drawn).sort(1, descending=True)
            places = drawn.gather(1, order)
        else:
            best, places = totals.topk(min(count, totals.shape[1]))
        ranked = [
            [(total, place // words, place % words) for total, place in zip(row, where, strict=True)]
            for row, where in zip(best.tolist(), places.tolist(), strict=True)
        ]
        return ranked, scores.view(batch, each, words)

    def said_by_others(self, grown: dict[int, list[Beam]], words: int, like: Tensor) -> Tensor:
        """How often the groups before have just chosen each word (B V)."""
        said = [[beam.history[-1] for beam in grown[prompt]] for prompt in self.open]
        chosen = torch.tensor(said, device=like.device)
        return like.new_zeros(len(said), words).scatter_add(1, chosen, torch.ones_like(chosen, dtype=like.dtype))

    def grow(self, prompt: int, first: int, ranked: list[tuple]) -> list[Beam]:
        """The group's next beams; words that end a sequence go to the hypotheses."""
        beams: list[Beam] = []
        for rank, (total, place, token) in enumerate(ranked):
            beam = self.follow(prompt, first + place, token, total, counts=rank < self.each)
            if beam is not None:
                beams.append(beam)
            if len(beams) == self.each:
                return beams
        parent, path = self.beams[prompt][first + place], self.path(prompt, first + place)
        while len(beams) < self.each:  # nearly all words end it here: what is left is not worth following
            beams.append(Beam([*parent.history, token], UNLIKELY, path, first + place))
        return beams

    def follow(self, prompt: int, place: int, token: int, total: float, counts: bool) -> Beam | None:
        """The beam that goes on from another one with a word, unless that ends it: then, if it counts, a hypothesis."""
        hypotheses, parent = self.hypotheses[prompt], self.beams[prompt][place]
        history, path = [*parent.history, token], self.path(prompt, place)
        if token in self.job.eos:
            if counts:
                hypotheses.add(parent.history, [token], total, EOS, path)
        elif self.job.says_stop(history[hypotheses.start :]):
            if counts:
                hypotheses.add(history, [], total, STOP, path)
        else:
            return Beam(history, total, path, place)
        return None

    def path(self, prompt: int, place: int) -> list[int]:
        """The beams that the tokens of what follows a beam were found on."""
        return [*self.beams[prompt][place].path, prompt * self.width + place]

    def goes_on(self, prompt: int) -> bool:
        """Whether a prompt needs another step; if it only ran out of room, its beams become hypotheses."""
        if prompt in self.finished:
            return False
        beams, hypotheses = self.beams[prompt], self.hypotheses[prompt]
        if len(beams[0].history) < hypotheses.limit:
            return True
        for beam in beams:
            hypotheses.add(beam.history, [], beam.total, LENGTH, beam.path)
        return False

    def generators(self):
        given = self.job.generators
        return [given[prompt] for prompt in self.open] if isinstance(given, list) else given

    def best(self) -> Found:
        wanted = self.job.settings.num_return_sequences
        return Found([one for hypotheses in self.hypotheses for one in hypotheses.best(wanted)], self.seen)
