"""Constrained beam search: words that must be said (`force_words_ids`).

Every step considers, beside the likeliest next words, those that bring a beam one token nearer to what must be said.
All of them are sorted into banks by how far they have come, and the banks take turns in giving the next beams, so that
likely beams and obedient ones live on side by side (Post and Vilar 2018).

A sequence is followed through its words one at a time. A token that breaks off a word begins no other one, and no token
belongs to two words. The prompt is read in the same way: what it says need not be said again.

The sequences are those of transformers 4.30, but for these points, where it contradicts its own purpose:
- Sequences that say everything come before all others. There, better scored ones without the words displace them.
- Words of a choice may begin alike. There, only the first of them counts as a step forward where they part, and one
  that is the beginning of another is refused; here it is enough.
- However unlikely a beam is, its bank is that of its words. There, 100 lost in log-probability outweigh a token said.
- A word that a rule forbids is no step forward. There, it can fill a beam with an impossible sequence.
- Padding says nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import ConfigError
from .beams import UNLIKELY, Beam, BeamSearch, Hypotheses
from .job import LENGTH, Continuation, Found, Job
from .processors import History
from .search import ReaderMaker

log = logging.getLogger("glassformer")

Tree = dict[int, "Tree"]  # a token and what may follow it; nothing where a word is complete


def constrained_beam_search(job: Job, make_reader: ReaderMaker) -> Iterator[list[tuple[int, int]]]:
    """Continue all prompts with sequences that say the forced words."""
    return ConstrainedBeamSearch(job).run(make_reader)
    yield []


class Demand:
    """One thing that must be said: any one of several words, which share what they begin with."""

    def __init__(self, words: list[list[int]]):
        self.words = words
        self.tree: Tree = {}
        needed = [word for word in words if not any(begins(word, other) for other in words if other != word)]
        self.height = max(map(len, needed))
        for word in needed:
            branch = self.tree
            for token in word:
                branch = branch.setdefault(token, {})

    def is_in(self, history: History) -> bool:
        return any(begins(history[place:], word) for word in self.words for place in range(len(history)))


def begins(text: list[int], word: list[int]) -> bool:
    return text[: len(word)] == word


def read_demands(forced: list, eos: list[int]) -> tuple[Demand, ...]:
    """What `force_words_ids` demand: each entry is a word, or a list of words of which one is enough."""
    demands = tuple(Demand(entry if isinstance(entry[0], list) else [entry]) for entry in forced)
    for word in (word for demand in demands for word in demand.words):
        if not set(word).isdisjoint(eos):
            raise ConfigError(
                f"force_words_ids must not hold a token that ends a sequence, got {word!r:.60} and eos_token_id {eos}: "
                f"encode the words with add_special_tokens=False"
            )
    return demands


@dataclass(frozen=True)
class Standing:
    """How far a sequence has come with what it must say."""

    waiting: tuple[Demand, ...]  # not begun yet
    height: int  # tokens of the longest word of all
    met: int = 0
    begun: Demand | None = None
    said: int = 0  # tokens of the begun one
    rest: Tree | None = None  # what may follow them

    @classmethod
    def at_start(cls, demands: tuple[Demand, ...]) -> Standing:
        return cls(demands, max(demand.height for demand in demands))

    @property
    def is_complete(self) -> bool:
        return not self.waiting and self.begun is None

    @property
    def bank(self) -> int:
        """The longest word's tokens for everything met, and for what is begun as many less as it still needs."""
        begun = self.height - (self.begun.height - self.said) if self.begun else 0
        return self.met * self.height + begun

    def steps(self) -> list[int]:
        """The tokens that bring it nearer; what is begun goes on before anything else begins."""
        if self.begun:
            return list(self.rest)
        return list(dict.fromkeys(token for demand in self.waiting for token in demand.tree))

    def after(self, *tokens: int) -> Standing:
        standing = self
        for token in tokens:
            standing = standing.go_on(token) if standing.begun else standing.begin(token)
        return standing

    def begin(self, token: int) -> Standing:
        for place, demand in enumerate(self.waiting):
            if token in demand.tree:
                others = self.waiting[:place] + self.waiting[place + 1 :]
                return replace(self, waiting=others, begun=demand).reach(1, demand.tree[token])
        return self

    def go_on(self, token: int) -> Standing:
        if token in self.rest:
            return self.reach(self.said + 1, self.rest[token])
        return replace(self, waiting=(*self.waiting, self.begun), begun=None)

    def reach(self, said: int, rest: Tree) -> Standing:
        if rest:
            return replace(self, said=said, rest=rest)
        return replace(self, met=self.met + 1, begun=None)


class ObedientHypotheses(Hypotheses):
    """Keeps the best sequences that say everything; the others wait in case there are too few of those."""

    def __init__(self, at_start: Standing, *settings):
        super().__init__(*settings)
        self.at_start = at_start
        self.cut_off = Hypotheses(*settings)  # those without room for more
        self.ended = Hypotheses(*settings)  # those that ended all the same: better than nothing

    def add(self, history: History, tail: list[int], total: float, reason: str, beams: list[int]) -> None:
        if self.at_start.after(*history).is_complete:
            super().add(history, tail, total, reason, beams)
        elif reason == LENGTH and total > UNLIKELY:
            self.cut_off.add(history, tail, total, reason, beams)
        else:
            self.ended.add(history, tail, total, reason, beams)

    def best(self, count: int) -> list[Continuation]:
        ranked = super().best(count) + self.cut_off.best(count) + self.ended.best(count)
        return ranked[:count]


class ConstrainedBeamSearch(BeamSearch):
    """A beam search whose beams are also led to what must be said."""

    def __init__(self, job: Job):
        self.demands = read_demands(job.settings.force_words_ids, job.eos)
        self.at_start = Standing.at_start(self.demands)
        super().__init__(job)
        self.standings = [[self.at_start.after(*prompt)] * self.width for prompt in job.prompts]  # of the beams
        self.chances: dict[int, Tensor] = {}  # for every open prompt G V

    def make_hypotheses(self, *settings) -> Hypotheses:
        return ObedientHypotheses(self.at_start, *settings)

    def candidates(
        self, log_chances: Tensor, group: slice, grown: dict[int, list[Beam]]
    ) -> tuple[list[list[tuple]], Tensor]:
        ranked, chances = super().candidates(log_chances, group, grown)
        self.chances = dict(zip(self.open, chances, strict=True))
        return ranked, chances

    def grow(self, prompt: int, first: int, ranked: list[tuple]) -> list[Beam]:
        """The next beams: from every bank its best, then from every bank its second best, and so on."""
        beams = super().grow(prompt, first, ranked)
        tried = {(beam.parent, beam.history[-1]) for beam in beams}
        tried.update((place, token) for _, place, token in ranked[: self.width])
        beams += self.led(prompt, tried)
        standings = [self.standings[prompt][beam.parent].after(beam.history[-1]) for beam in beams]
        chosen = take_turns([standing.bank for standing in standings], [beam.total for beam in beams])[: self.width]
        self.standings[prompt] = [standings[place] for place in chosen]
        return [beams[place] for place in chosen]

    def led(self, prompt: int, tried: set[tuple[int, int]]) -> list[Beam]:
        """Beams that take a step towards what must be said, other than those (beam, token) that were tried."""
        beams, chances = self.beams[prompt], self.chances[prompt]
        steps = [
            (place, token)
            for place, standing in enumerate(self.standings[prompt])
            for token in standing.steps()
            if (place, token) not in tried
        ]
        if not steps:
            return []
        places, tokens = torch.tensor(steps, device=chances.device).unbind(1)
        totals = torch.tensor([beam.total for beam in beams], device=chances.device)[places] + chances[places, tokens]
        followed = [
            self.follow(prompt, place, token, total, counts=True)
            for (place, token), total in zip(steps, totals.tolist(), strict=True)
            if total > UNLIKELY
        ]
        return [beam for beam in followed if beam is not None]

    def best(self) -> Found:
        found = super().best()
        each = self.job.settings.num_return_sequences
        lacking = [
            row
            for row, one in enumerate(found.continuations)
            if not all(demand.is_in(self.job.prompts[row // each] + one.tokens) for demand in self.demands)
        ]
        if lacking:
            log.warning(
                "rows %s of the result lack some of the force_words_ids, for nothing better was found: "
                "allow more new tokens, or more beams",
                lacking,
            )
        return found


def take_turns(banks: list[int], totals: list[float]) -> list[int]:
    """All places in the order in which the banks give them, the fullest bank first; the hopeless come last."""
    ranked = sorted(range(len(banks)), key=lambda place: (banks[place], totals[place]), reverse=True)
    given: Counter[int] = Counter()
    turns = {}
    for place in ranked:
        turns[place] = given[banks[place]]
        given[banks[place]] += 1
    return sorted(ranked, key=lambda place: (totals[place] <= UNLIKELY, turns[place]))
