"""OpenAI's completions: continuations of prompts, whole or as a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from ...generate.request import LENGTH
from ...tasks.batch import EncodedIds, Example
from ...tasks.generation.text_generation import TextGeneration
from .completion_text import CompletionText, token_scores
from .embedding_routes import one_type
from .endpoint import Body, Endpoint, EventStream
from .generation_worker import GenerationJob, Step
from .metrics import RequestRecord
from .refusal import Refusal
from .served_model import ServedModel, located

if TYPE_CHECKING:
    from .service import Service

MAX_SCORES, MAX_COPIES, MAX_STOPS = 20, 16, 16
MAX_SEED = 2**63
Count = Annotated[int, msgspec.Meta(ge=0)]


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class CompletionBody(Body):
    model: str
    prompt: str | list[str | int | list[int]]
    max_tokens: Count | None = 16
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = 1.0
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = 1.0
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_COPIES)] | None = 1
    best_of: int | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=MAX_STOPS)] | None = None
    echo: bool | None = False
    logprobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_SCORES)] | None = None
    seed: Annotated[int, msgspec.Meta(ge=-MAX_SEED, le=MAX_SEED - 1)] | None = None
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    frequency_penalty: float | None = 0
    presence_penalty: float | None = 0
    logit_bias: dict[str, float] | None = None
    suffix: str | None = None
    user: str | None = None


class Completion:
    """One request: its prompts as jobs, and the texts of its choices."""

    def __init__(self, served: ServedModel, body: CompletionBody) -> None:
        self.served, self.body = served, body
        self.id = f"cmpl-{secrets.token_hex(12)}"
        self.created = int(time.time())
        self.copies = body.n or 1
        self.stops = [body.stop] if isinstance(body.stop, str) else body.stop or []
        self.check()
        self.task = served.task.with_options(**self.settings(), return_full_text=False)
        self.jobs: list[GenerationJob] = []
        self.prompts: list[tuple[str, list[int]]] = []

    def check(self) -> None:
        body = self.body
        for name, neutral in (("frequency_penalty", 0), ("presence_penalty", 0), ("logit_bias", {}), ("suffix", "")):
            if getattr(body, name) not in (None, neutral):
                raise Refusal(422, f"{name} is not supported", name)
        if body.best_of not in (None, self.copies):
            raise Refusal(422, f"best_of must equal n: all texts are returned, got {body.best_of}", "best_of")
        if not all(self.stops) and self.stops:
            raise Refusal(422, "stop must hold texts that are not empty", "stop")
        if body.max_tokens == 0 and (not body.echo or body.stream):
            raise Refusal(422, "max_tokens 0 needs echo, and no stream", "max_tokens")

    def settings(self) -> dict[str, Any]:
        body = self.body
        settings: dict[str, Any] = {
            "max_new_tokens": max(16 if body.max_tokens is None else body.max_tokens, 1),
            "num_return_sequences": self.copies,
            "num_beams": 1,
            "stop_strings": self.stops or None,
            "do_sample": bool(body.temperature is None or body.temperature),
        }
        if settings["do_sample"]:
            settings |= {"temperature": body.temperature or 1.0, "top_k": 0, "top_p": body.top_p or 1.0}
            settings |= {} if body.seed is None else {"seed": body.seed}
        elif self.copies > 1:
            raise Refusal(422, "n texts differ only if they are sampled: temperature must be above 0", "n")
        return settings

    def encode(self) -> None:
        """The prompts as jobs; an error names the prompt."""
        given = self.body.prompt
        several = isinstance(given, list) and one_type(given, "prompt") is not int
        prompts: list[Any] = given if several else [given]  # type: ignore[assignment]
        for number, prompt in enumerate(prompts):
            try:
                self.prompts.append(self.read_prompt(prompt))
                batch = self.task.collate([Example(EncodedIds(self.prompts[-1][1]))])
                job = GenerationJob(
                    self.task.generation(batch), self.body.logprobs, bool(self.body.echo) and self.scored
                )
            except Exception as error:
                raise located(error, f"prompt[{number}]" if several else "prompt") from None
            self.jobs.append(job)

    @property
    def scored(self) -> bool:
        return self.body.logprobs is not None

    def read_prompt(self, prompt: Any) -> tuple[str, list[int]]:
        """The text of a prompt and its ids; an empty one begins with the model's first token."""
        tokenizer = self.task.tokenizer
        if not isinstance(prompt, str):
            size = self.task.model.config.vocab_size
            wrong = next((each for each in prompt if not 0 <= each < size), None)
            if wrong is not None:
                raise Refusal(422, f"a token is between 0 and {size - 1}, got {wrong}", "prompt")
            return tokenizer.decode(prompt), list(prompt) or self.first_token()
        (example,) = self.task.encode({"text": prompt})
        return prompt, example.encoded.ids() or self.first_token()

    def first_token(self) -> list[int]:
        first: int | None = self.task.model.generation_config.bos_token_id  # type: ignore[union-attr]
        if first is None:
            raise Refusal(422, "the prompt is empty, and the model has no token to begin with", "prompt")
        return [first]

    def text_of(self, number: int) -> CompletionText:
        """The text of one choice, to be filled."""
        text, ids = self.prompts[number]
        return CompletionText(self.task.tokenizer, ids, self.stops, text if self.body.echo else "")

    def choice(self, number: int, copy: int, steps: list[Step], reason: str) -> dict[str, Any]:
        text = self.text_of(number)
        for step in steps:
            text.put(step.token)
        text.end()
        scores = None
        if self.scored:
            before = self.jobs[number].prompt_scores if self.body.echo else []
            prompt_ids = self.prompts[number][1] if self.body.echo else []
            scores = token_scores(self.task.tokenizer, prompt_ids, before, steps, text.full)
        return self.choice_object(number * self.copies + copy, text.full, reason, scores)

    def choice_object(self, index: int, text: str, reason: str | None, scores: Any = None) -> dict[str, Any]:
        finish = None if reason is None else "length" if reason == LENGTH else "stop"
        return {"index": index, "text": text, "finish_reason": finish, "logprobs": scores}

    def response(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> dict[str, Any]:
        head = {"id": self.id, "object": "text_completion", "created": self.created, "model": self.served.name}
        return {**head, "choices": choices, **({} if usage is None else {"usage": usage})}

    def usage(self, record: RequestRecord) -> dict[str, int]:
        record.generated = generated = sum(len(job.steps) for job in self.jobs)
        prompt = sum(len(ids) for _, ids in self.prompts)
        return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}


async def complete(service: Service, body: CompletionBody, record: RequestRecord) -> Any:
    served = service.model(body.model, lambda model: isinstance(model.task, TextGeneration))
    completion = Completion(served, body)
    begin = time.perf_counter()
    await asyncio.get_running_loop().run_in_executor(served.tokenizing, completion.encode)
    record.tokenize, record.model = time.perf_counter() - begin, served.name
    record.inputs = len(completion.jobs)
    record.tokens = sum(len(ids) for _, ids in completion.prompts)
    if body.stream:
        admitted = contextlib.ExitStack()
        admitted.enter_context(served.admission.of(len(completion.jobs) * completion.copies))
        return EventStream(stream(completion, record, admitted))
    with served.admission.of(len(completion.jobs) * completion.copies):
        if body.max_tokens == 0 and not completion.scored:
            results: list[Any] = []
            choices = [completion.choice(number, 0, [], LENGTH) for number in range(len(completion.jobs))]
        else:
            results = await served.generate(completion.jobs, record)
            choices = [
                completion.choice(number, copy, *finished(completion, number, copy, result))
                for number, result in enumerate(results)
                for copy in range(completion.copies)
            ]
        return completion.response(choices, completion.usage(record))


def finished(completion: Completion, number: int, copy: int, result: Any) -> tuple[list[Step], str]:
    """The steps of one sequence, and why it ended."""
    if completion.body.max_tokens == 0:
        completion.jobs[number].steps.clear()
        return [], LENGTH
    steps = [step for step in completion.jobs[number].steps if step.sequence == copy]
    return steps, result.continuations[copy].finish_reason


async def stream(completion: Completion, record: RequestRecord, admitted: contextlib.ExitStack) -> AsyncIterator[bytes]:
    """An event for each piece of text, then one with the reason to stop for each choice, then [DONE]."""
    served, loop = completion.served, asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[int, list[Step] | None]] = asyncio.Queue()

    def receive(number: int, steps: list[Step]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(arrived.put_nowait, (number, steps))

    for number, job in enumerate(completion.jobs):
        job.on_steps = partial(receive, number)
        job.done.add_done_callback(lambda _, number=number: receive_end(loop, arrived, number))
    with admitted:
        try:
            for job in completion.jobs:
                served.generator.submit(job)  # type: ignore[union-attr]
            async for event in events_of(completion, arrived):
                yield msgspec.json.encode(event)
            usage = completion.usage(record)
            options = completion.body.stream_options
            if options is not None and options.include_usage:
                yield msgspec.json.encode(completion.response([], usage))
            yield b"[DONE]"
        finally:
            for job in completion.jobs:
                job.done.cancel()


def receive_end(loop: asyncio.AbstractEventLoop, arrived: asyncio.Queue, number: int) -> None:
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(arrived.put_nowait, (number, None))


async def events_of(completion: Completion, arrived: asyncio.Queue) -> AsyncIterator[dict[str, Any]]:
    texts: dict[int, CompletionText] = {}
    if completion.body.echo:
        for number in range(len(completion.jobs)):
            for copy in range(completion.copies):
                index = number * completion.copies + copy
                yield completion.response([completion.choice_object(index, completion.prompts[number][0], None)])
    left = len(completion.jobs)
    while left:
        number, steps = await arrived.get()
        job = completion.jobs[number]
        if steps is None:
            left -= 1
            result = job.done.result()
            for copy in range(completion.copies):
                index = number * completion.copies + copy
                text = texts.get(index) or completion.text_of(number)
                reason = result.continuations[copy].finish_reason
                yield completion.response([completion.choice_object(index, text.end(), reason)])
            continue
        for step in steps:
            index = number * completion.copies + step.sequence
            text = texts.setdefault(index, completion.text_of(number))
            begin = len(text.full)
            piece = text.put(step.token)
            scores = None
            if step.scores is not None and not text.is_cut:
                scores = token_scores(completion.task.tokenizer, [], [], [step], text.full, begin)
            if piece or scores:
                yield completion.response([completion.choice_object(index, piece, None, scores)])


COMPLETIONS = [
    Endpoint(
        "POST",
        "/v1/completions",
        "Continuations of a prompt, whole or streamed",
        complete,
        CompletionBody,
        {"model": "gpt2", "prompt": "Once upon a time", "max_tokens": 20, "temperature": 0},
    ),
]
