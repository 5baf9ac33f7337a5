"""A model that is served: its tasks, and the workers that compute for it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import GlassformerError, InputError
from ...generate.continuous_batching import can_join
from ...generate.request import SearchResult
from ...tasks.batch import Example
from ...tasks.generation.generation_task import GenerationTask
from ...tasks.generation.text_generation import TextGeneration
from ...tasks.images.image_task import ImageTask
from ...tasks.pipeline import Pipeline, SentencePipeline, pipeline
from ...tasks.sentences.sentence_embedding import EmbeddingTask
from ...tasks.task import Task
from ...tasks.text_task import TextTask
from .batching import Batcher, Job, Worker
from .generation_worker import GenerationJob, GenerationWorker
from .metrics import Metrics, RequestRecord
from .refusal import Refusal, refusal_of
from .settings import ServiceSettings

TOKENIZER_THREADS = 2
SHORT = 500  # characters of a text that is encoded at once
EMBEDDING = "sentence-embedding"


class Admission:
    """The bounded queue: how many inputs of all requests wait or run. Used by the event loop only."""

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self.limit, self.count, self.metrics = limit, 0, metrics

    @contextlib.contextmanager
    def of(self, inputs: int) -> Iterator[None]:
        """Admit as many inputs while the block runs."""
        if inputs > self.limit:
            raise Refusal(413, f"a request has at most {self.limit} inputs, got {inputs}")
        if self.count + inputs > self.limit:
            raise Refusal(429, f"{self.count} of {self.limit} inputs wait or run: try again soon")
        self.count += inputs
        self.metrics.queue.set(self.count)
        try:
            yield
        finally:
            self.count -= inputs
            self.metrics.queue.set(self.count)


@dataclass(eq=False)
class ServedModel:
    """A pipeline by name."""

    name: str
    pipe: Pipeline
    metrics: Metrics
    settings: ServiceSettings
    admission: Admission
    tokenizing: ThreadPoolExecutor

    def __post_init__(self) -> None:
        worker = self.pipe.worker
        defaults: dict[str, Any] = {}
        if isinstance(worker, TextTask):  # texts come from anyone
            defaults["split_special_tokens"] = not worker.needs_special_tokens
        base = worker.with_options(**defaults)
        if isinstance(base, ImageTask):
            base.reads_files = False
        self.task: Task = base if base.uses_random_numbers else base.prepared()
        self.tasks: dict[str, Task] = {self.task.name: self.task}
        if isinstance(self.pipe, SentencePipeline):
            embedding = EmbeddingTask(self.pipe.encoder, truncation=False, **defaults)
            self.tasks[EMBEDDING] = embedding.prepared()
            self.task = self.tasks[self.task.name] = self.task.with_options(truncation=False)
        self.loaded = time.time()
        self.batcher = Batcher(self.name, self.metrics, self.settings.max_batch_tokens)
        self.generator: GenerationWorker | None = None
        if isinstance(self.task, TextGeneration):
            self.generator = GenerationWorker(self.name, self.metrics, self.task.model)

    @property
    def workers(self) -> list[Worker]:
        return [self.batcher] if self.generator is None else [self.batcher, self.generator]

    async def generate(self, jobs: Sequence[GenerationJob], record: RequestRecord) -> list[SearchResult]:
        """The result of each generation, which all run in the continuous batch."""
        assert self.generator is not None
        return await self.results(jobs, [self.generator] * len(jobs), record)

    async def results(self, jobs: Sequence[Any], workers: Sequence[Worker], record: RequestRecord) -> list[Any]:
        """What the jobs return; if one fails or the client leaves, all are cancelled."""
        try:
            for job, worker in zip(jobs, workers, strict=True):
                worker.submit(job)
            results = await asyncio.gather(*(asyncio.wrap_future(job.done) for job in jobs))
        except BaseException:
            for job in jobs:
                job.done.cancel()
            raise
        begin = max((job.started for job in jobs), default=0.0)
        record.queue = max((job.started - job.submitted for job in jobs), default=0.0)
        record.compute = time.perf_counter() - begin if begin else 0.0
        return results

    async def answers(
        self, task: Task, rows: Sequence[Any], record: RequestRecord, field: str = "inputs", single: bool = False
    ) -> list[Any]:
        """The answer to each row."""
        with self.admission.of(len(rows)):
            jobs = await self.encode(task, rows, record, field, single)
            generations = [job.generation for job in jobs]
            if self.generator is None or not all(generations):
                return await self.results(jobs, [self.batcher] * len(jobs), record)
            results = await self.generate(generations, record)
            record.generated += sum(len(each.steps) for each in generations)
            return [
                task.answer(job.row, job.examples, GenerationTask.sequences(result, 1))
                for job, result in zip(jobs, results, strict=True)
            ]

    async def encode(
        self, task: Task, rows: Sequence[Any], record: RequestRecord, field: str, single: bool = False
    ) -> list[Job]:
        """Rows as jobs; an error names the row."""
        begin = time.perf_counter()
        if len(rows) == 1 and isinstance(rows[0], str) and len(rows[0]) < SHORT and not task.uses_random_numbers:
            jobs = encode_rows(task, rows, field, single)  # sooner done than handed to another thread
        else:
            loop = asyncio.get_running_loop()
            jobs = await loop.run_in_executor(self.tokenizing, partial(encode_rows, task, rows, field, single))
        record.tokenize += time.perf_counter() - begin
        record.model = self.name
        record.inputs += len(jobs)
        record.tokens += sum(job.tokens for job in jobs)
        record.truncated += [number for number, job in enumerate(jobs) if job.truncated]
        return jobs


def encode_rows(task: Task, rows: Sequence[Any], field: str, single: bool) -> list[Job]:
    jobs = []
    for number, given in enumerate(rows):
        try:
            row = task.read_without_targets(given)
            examples = task.encode(row)
            for example in examples:
                example.labels, example.row = {}, number
            jobs.append(Job(task, row, examples, generation=generation_of(task, examples)))
        except Exception as error:
            raise located(error, field if single else f"{field}[{number}]") from None
    return jobs


def generation_of(task: Task, examples: Sequence[Example]) -> GenerationJob | None:
    """A generation that can run in a continuous batch; None for everything else."""
    if not isinstance(task, TextGeneration):
        return None
    generation = task.generation(task.collate(examples))
    return GenerationJob(generation) if can_join(generation) else None


def located(error: Exception, field: str) -> Exception:
    """An error of ours as a refusal that names the field; any other error as it is."""
    return refusal_of(error, field) if isinstance(error, GlassformerError) else error


def load_models(
    sources: Mapping[str, str],
    tasks: Sequence[str],
    metrics: Metrics,
    settings: ServiceSettings,
    dtype: str | None = None,
    device: str | None = None,
) -> dict[str, ServedModel]:
    """Models by name; `tasks` names one for all of them, or one for each."""
    admission = Admission(settings.max_queue, metrics)
    tokenizing = ThreadPoolExecutor(TOKENIZER_THREADS, thread_name_prefix="glassformer tokenize")
    named = list(tasks) * len(sources) if len(tasks) == 1 else [*tasks, *[None] * (len(sources) - len(tasks))]
    served = {}
    for (name, source), task in zip(sources.items(), named, strict=True):
        pipe = pipeline(task, model=source, device=device, **({"dtype": dtype} if dtype else {}))
        served[name] = ServedModel(name, pipe, metrics, settings, admission, tokenizing)
    return served


def model_names(models: Sequence[str]) -> dict[str, str]:
    """`NAME=FOLDER` or `FOLDER`, whose name is then the folder's."""
    found: dict[str, str] = {}
    for given in models:
        name, _, source = given.rpartition("=") if "=" in given and not Path(given).exists() else ("", "", given)
        name = name or Path(source).name or source
        if name in found:
            raise InputError(f"two models are called {name}: name one of them, as in NAME={source}")
        found[name] = source
    return found
