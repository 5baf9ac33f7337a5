"""Dynamic batches: inputs of requests that wait at the same time run together, without padding."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ...errors import GlassformerError
from ...models.base.evaluation_mode import evaluation_mode
from ...tasks.batch import Example
from ...tasks.inference import run
from ...tasks.parallel import parallel_map, thread_count
from ...tasks.task import Task
from .metrics import Metrics

PARALLEL_FROM = 256  # tokens of a batch from which its parts run in parallel


@dataclass(eq=False)
class Job:
    """One input of a request: its examples, and the future of its answer."""

    task: Task
    row: dict[str, Any]
    examples: Sequence[Example]
    generation: Any = None  # what runs in its place in a continuous batch
    done: Future = field(default_factory=Future)
    submitted: float = field(default_factory=time.perf_counter)
    started: float = 0.0
    outputs: dict[int, Any] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        return sum(map(len, self.examples))

    @property
    def truncated(self) -> bool:
        return any(getattr(example.encoded, "truncated", False) for example in self.examples)


Unit = tuple[Job, int]  # one example of a job


class Worker:
    """A thread that works on a queue of jobs until it is stopped."""

    def __init__(self, name: str, metrics: Metrics) -> None:
        self.name, self.metrics = name, metrics
        self.waiting = threading.Condition()
        self.is_stopping = False
        self.thread = threading.Thread(target=self._work, name=f"glassformer {name}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self, seconds: float) -> bool:
        """End after the work that runs; whether it ended in time."""
        with self.waiting:
            self.is_stopping = True
            self.waiting.notify_all()
        if self.thread.ident is not None:
            self.thread.join(seconds)
        return not self.thread.is_alive()

    def submit(self, job: Any) -> None:
        raise NotImplementedError

    def _work(self) -> None:
        raise NotImplementedError


class Batcher(Worker):
    """Runs the examples of all waiting jobs in batches of a token budget, first come first served.

    Examples share a batch only if their tasks have equal options: an option may change what the model computes.
    """

    def __init__(self, name: str, metrics: Metrics, max_tokens: int) -> None:
        super().__init__(name, metrics)
        self.max_tokens = max_tokens
        self.queue: deque[Unit] = deque()

    def submit(self, job: Job) -> None:
        if not job.examples:
            self._finish(job)
            return
        with self.waiting:
            self.queue.extend((job, number) for number in range(len(job.examples)))
            self.waiting.notify()

    def _work(self) -> None:
        while True:
            with self.waiting:
                while not self.queue and not self.is_stopping:
                    self.waiting.wait()
                if self.is_stopping:
                    return
                batch = self._take()
            if batch:
                self._compute(batch)

    def _take(self) -> list[Unit]:
        """The next batch: the first unit that waits, and those of its kind that fit beside it."""
        batch: list[Unit] = []
        skipped: list[Unit] = []
        tokens = 0
        while self.queue:
            job, number = self.queue.popleft()
            if job.done.done():  # its client has disconnected, or another part of it failed
                continue
            size = len(job.examples[number])
            if batch and not is_alike(batch[0][0].task, job.task):
                skipped.append((job, number))
                continue
            if batch and tokens + size > self.max_tokens:
                skipped.append((job, number))
                break
            batch.append((job, number))
            tokens += size
        self.queue.extendleft(reversed(skipped))
        return batch

    def _compute(self, batch: list[Unit]) -> None:
        begin = time.perf_counter()
        for job, _ in batch:
            job.started = job.started or begin
        try:
            outputs = self._outputs(batch)
        except Exception as error:
            if len(batch) == 1:
                fail(batch[0][0], error)
                return
            for unit in batch:  # only the one at fault fails
                self._compute([unit])
            return
        seconds = time.perf_counter() - begin
        self.metrics.batch(self.name, len(batch), sum(len(job.examples[i]) for job, i in batch), seconds)
        for (job, number), output in zip(batch, outputs, strict=True):
            job.outputs[number] = output
            if len(job.outputs) == len(job.examples) and not job.done.done():
                self._finish(job)

    def _outputs(self, batch: list[Unit]) -> list[Any]:
        task = batch[0][0].task
        with evaluation_mode(task.model):
            parts = parallel_map(partial(run, task), list(self._split(task, [job.examples[i] for job, i in batch])))
            return [output for part in parts for output in part]

    def _split(self, task: Task, examples: list[Example]) -> Iterator[list[Example]]:
        """A large batch in parts of about equal size, one for each thread."""
        tokens = sum(map(len, examples))
        count = thread_count(torch.get_num_threads())
        is_split = tokens >= PARALLEL_FROM and task.model.device.type == "cpu" and not task.uses_random_numbers
        share = tokens / count if is_split else tokens
        part: list[Example] = []
        size = 0
        for example in examples:
            if part and size + len(example) / 2 > share:
                yield part
                part, size = [], 0
            part.append(example)
            size += len(example)
        yield part

    def _finish(self, job: Job) -> None:
        try:
            answer = job.task.answer(job.row, job.examples, [job.outputs[i] for i in range(len(job.examples))])
        except Exception as error:
            fail(job, error)
        else:
            succeed(job, answer)


def is_alike(task: Task, other: Task) -> bool:
    return task is other or (task.name == other.name and task.options == other.options)


def succeed(job: Any, answer: Any) -> None:
    if job.done.set_running_or_notify_cancel():
        job.done.set_result(answer)


def fail(job: Any, error: Exception) -> None:
    """An error of ours goes to the client; any other is a fault."""
    if not isinstance(error, GlassformerError):
        error.__context__ = None
    if job.done.set_running_or_notify_cancel():
        job.done.set_exception(error)
