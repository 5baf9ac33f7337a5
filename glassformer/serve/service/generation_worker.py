"""Text generation for many requests at once, in one continuous batch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError
from ...generate.continuous_batching import ContinuousBatch, Member
from ...generate.generation import Generation
from ...tasks.inference import BUDGET
from .batching import Worker, fail, succeed
from .metrics import Metrics

MAX_SEQUENCES = 32  # that are generated at once
TokenScores = tuple[float, list[tuple[int, float]]]  # of a token, and the likeliest tokens with theirs


@dataclass(frozen=True)
class Step:
    """What one decode step added to a request: a token, its sequence, and its scores if requested."""

    sequence: int
    token: int
    scores: TokenScores | None


@dataclass(eq=False)
class GenerationJob:
    """One prompt of a request; its future is of a `SearchResult`."""

    generation: Generation
    top_scores: int | None = None  # the number of likeliest tokens to report beside each token; None for no scores
    wants_prompt_scores: bool = False
    on_steps: Callable[[list[Step]], None] | None = None
    done: Future = field(default_factory=Future)
    submitted: float = field(default_factory=time.perf_counter)
    started: float = 0.0
    steps: list[Step] = field(default_factory=list)
    prompt_scores: list[TokenScores] = field(default_factory=list)  # of all tokens but the first

    @property
    def sequences(self) -> int:
        return self.generation.request.settings.num_return_sequences


class GenerationWorker(Worker):
    """The thread of one model's continuous batch. Prompts join in the order in which they came."""

    def __init__(self, name: str, metrics: Metrics, model: Any, max_sequences: int = MAX_SEQUENCES) -> None:
        super().__init__(name, metrics)
        self.batch = ContinuousBatch(model, max_sequences)
        self.queue: deque[GenerationJob] = deque()

    def submit(self, job: GenerationJob) -> None:
        if job.sequences > self.batch.max_rows:
            raise InputError(f"at most {self.batch.max_rows} sequences for a prompt, got {job.sequences}")
        with self.waiting:
            self.queue.append(job)
            self.waiting.notify()

    def _work(self) -> None:
        while True:
            with self.waiting:
                while not self.queue and not self.batch.members and not self.is_stopping:
                    self.waiting.wait()
                if self.is_stopping:
                    return
                joining = self._take()
            for member in list(self.batch.members):
                if member.owner.done.done():  # its client has disconnected
                    self.batch.drop(member)
            if joining:
                self._join(joining)
            if self.batch.members:
                self._step()

    def _take(self) -> list[GenerationJob]:
        """The jobs that join now: as many as fit, with prompts of a batch's tokens in all."""
        taken: list[GenerationJob] = []
        rows = tokens = 0
        while self.queue:
            job = self.queue[0]
            size = len(job.generation.request.prompts[0])
            if rows + job.sequences > self.batch.free_rows or (taken and tokens + size > BUDGET):
                break
            self.queue.popleft()
            if not job.done.done():
                taken.append(job)
                rows, tokens = rows + job.sequences, tokens + size
        return taken

    def _join(self, jobs: list[GenerationJob]) -> None:
        begin = time.perf_counter()
        members = [Member(job.generation, job, keeps_prompt_logits=job.wants_prompt_scores) for job in jobs]
        for job in jobs:
            job.started = begin
        try:
            done = self.batch.join(members)
        except Exception as error:
            self._fail_all(error)
            return
        tokens = sum(len(member.prompt) for member in members)
        self.metrics.batch(self.name, len(members), tokens, time.perf_counter() - begin)
        self._report(members, done)

    def _step(self) -> None:
        begin, members = time.perf_counter(), list(self.batch.members)
        rows = len(self.batch.rows)
        try:
            done = self.batch.step()
        except Exception as error:
            self._fail_all(error)
            return
        self.metrics.batch(self.name, rows, rows, time.perf_counter() - begin)
        self._report(members, done)

    def _fail_all(self, error: Exception) -> None:
        for member in self.batch.members:
            fail(member.owner, error)
        self.batch = ContinuousBatch(self.batch.model, self.batch.max_rows)

    def _report(self, members: list[Member], done: list[Member]) -> None:
        for member in members:
            job: GenerationJob = member.owner
            if member.error is not None:
                fail(job, member.error)
                continue
            if member.prompt_logits is not None:
                job.prompt_scores = scores_of(member.prompt_logits[:-1], member.prompt[1:], job.top_scores or 0)
                member.prompt_logits = None
            tokens = [token for _, token in member.pairs]
            scores: list[Any] = [None] * len(tokens)
            if job.top_scores is not None:
                scores = scores_of(member.logits, tokens, job.top_scores)
            steps = [Step(sequence, token, one) for (sequence, token), one in zip(member.pairs, scores, strict=True)]
            job.steps += steps
            if job.on_steps is not None:
                job.on_steps(steps)
            member.logits = None
        for member in done:
            if member.error is None:
                succeed(member.owner, member.result())


def scores_of(logits: Any, tokens: list[int], count: int) -> list[TokenScores]:
    """The log-probability of each token under its logits (N V), beside those of the `count` likeliest."""
    scores = logits.float().log_softmax(-1)
    best = scores.topk(count, dim=-1)
    return [
        (scores[row, token].item(), list(zip(best.indices[row].tolist(), best.values[row].tolist(), strict=True)))
        for row, token in enumerate(tokens)
    ]
