"""Eight threads at once on one model, some with captures and patches: the numbers of one thread, bit for bit."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

import glassformer

from ..train.small import bert, gpt2, tokenizer
from .case import Case
from .pipelines import trained

NAME = "threads"
THREADS, ROUNDS = 8, 3
Work = Callable[[], Any]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    torch.manual_seed(rng.randrange(2**31))
    reader = glassformer.BertForMaskedLM(bert()).eval()
    writer = trained(glassformer.GPT2LMHeadModel(gpt2(eos_token_id=3, bos_token_id=2)).eval())
    words = tokenizer(folder)
    pipes = {
        "text-classification": glassformer.TextClassification(
            trained(glassformer.BertForSequenceClassification(bert()).eval()), words
        ),
        "text-generation": glassformer.TextGeneration(writer, words),
    }
    answer = {name: glassformer.pipeline(name, task.model, words) for name, task in pipes.items()}
    while True:
        seed = rng.randrange(2**31)
        kinds: dict[str, Work] = {}
        for number in range(THREADS):
            kind = rng.choice(("plain", "padded", "capture", "heads", "skip", "generate", "beams", "sample", *answer))
            work = make_work(kind, rng, reader, writer, answer)
            kinds[f"{number}: {kind}"] = work
        yield Case(f"{', '.join(kinds)} (seed {seed})", partial(run, kinds))


def run(kinds: dict[str, Work]) -> None:
    expected = {name: work() for name, work in kinds.items()}
    start = threading.Barrier(len(kinds))

    def repeat(work: Work) -> list[Any]:
        start.wait()
        return [work() for _ in range(ROUNDS)]

    number = torch.get_num_threads()
    with ThreadPoolExecutor(len(kinds)) as pool:
        found = {name: pool.submit(repeat, work) for name, work in kinds.items()}
        for name, results in found.items():
            for result in results.result():
                assert same(result, expected[name]), f"another result beside other threads: {name}"
    assert torch.get_num_threads() == number, "the number of threads has changed"
    for name, work in kinds.items():
        assert same(work(), expected[name]), f"another result afterwards: {name}"


def make_work(kind: str, rng: random.Random, reader: Any, writer: Any, pipes: dict[str, Any]) -> Work:
    """A piece of work that always has the same result."""
    length, batch = rng.randrange(2, 9), rng.randrange(1, 4)
    ids = torch.tensor([[rng.randrange(5, 40) for _ in range(length)] for _ in range(batch)])
    mask = torch.ones_like(ids)
    mask[0, length // 2 + 1 :] = 0
    head, seed = rng.randrange(2), rng.randrange(1000)
    texts = [" ".join(rng.choices(["the", "cat", "sat", "good", "film"], k=rng.randrange(1, 9))) for _ in range(3)]

    def forward(**more: Any) -> list[torch.Tensor]:
        with torch.no_grad():
            return [reader(ids, **more).logits]

    def captured() -> list[torch.Tensor]:
        with reader.capture(True, hidden=True) as seen:
            logits = forward()
        return [*logits, seen.attention[0], *seen.hidden.values()]

    def patched(**patch: Any) -> list[torch.Tensor]:
        with reader.patched(**patch):
            return forward()

    def written(**settings: Any) -> list[torch.Tensor]:
        return [writer.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, **settings)]

    known: dict[str, Work] = {
        "plain": forward,
        "padded": partial(forward, attention_mask=mask),
        "capture": captured,
        "heads": partial(patched, heads={0: [head]}),
        "skip": partial(patched, skip=[head]),
        "generate": written,
        "beams": partial(written, num_beams=3),
        "sample": lambda: written(do_sample=True, generator=seed),
        "text-classification": lambda: pipes["text-classification"](texts),
        "text-generation": lambda: pipes["text-generation"](texts, max_new_tokens=3),
    }
    return known[kind]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
