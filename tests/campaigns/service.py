"""`glass serve` under hostile requests, slow clients and overload: no 5xx, every request answered, errors as JSON."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.serve.service.metrics import Metrics
from glassformer.serve.service.served_model import load_models
from glassformer.serve.service.server import listen, make_server
from glassformer.serve.service.service import Service
from glassformer.serve.service.settings import ServiceSettings

from ..serve.service.conftest import write_models
from .case import Case
from .http_faults import PATIENCE, Target, at_once, exchange, exchange_slowly, http_request, post
from .json_mutations import mutate

NAME = "service"
MODELS = ("minilm", "sst2", "reranker", "fill", "gpt2")
TEXT = "the cat sat on the mat"
REQUESTS: dict[str, Any] = {
    "/embed": {"inputs": [TEXT, "so"], "normalize": True, "truncate": True, "dimensions": 4, "prompt_name": "query"},
    "/predict": {"inputs": [[TEXT], ["so", "good"]], "model": "sst2", "raw_scores": True, "truncate": False},
    "/rerank": {"query": "so", "texts": [TEXT, "good"], "model": "reranker", "return_text": True},
    "/similarity": {"inputs": {"source_sentence": "so", "sentences": [TEXT]}, "parameters": {"truncate": True}},
    "/tokenize": {"inputs": [TEXT], "add_special_tokens": True, "model": "gpt2"},
    "/tasks/text-classification": {"inputs": [TEXT], "top_k": 2, "truncation": True, "model": "sst2"},
    "/tasks/fill-mask": {"inputs": "the [MASK] sat", "top_k": 2, "targets": ["cat"]},
    "/tasks/text-generation": {"inputs": "Once", "max_new_tokens": 4, "do_sample": True, "seed": 1, "top_p": 0.9},
    "/tasks/sentence-similarity": {"source_sentence": "so", "sentences": [TEXT], "similarity": "dot"},
    "/": {"inputs": TEXT, "parameters": {"truncate": True}},
    "/models/sst2": {"inputs": TEXT, "parameters": {"top_k": 2}},
    "/v1/embeddings": {"model": "minilm", "input": [TEXT], "encoding_format": "base64", "dimensions": 3},
    "/v1/completions": {
        "model": "gpt2",
        "prompt": ["Once", "She"],
        "max_tokens": 4,
        "n": 2,
        "stop": ["a"],
        "logprobs": 2,
        "echo": True,
        "seed": 1,
        "temperature": 0.7,
        "top_p": 0.9,
        "stream": False,
    },
}


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    folders = write_models(folder)
    settings = ServiceSettings(max_queue=24, request_seconds=1.0, max_body_bytes=100_000)
    metrics = Metrics()
    models = load_models({name: folders[name] for name in MODELS}, [], metrics, settings)
    listening = listen("127.0.0.1", 0)
    server = make_server(Service(models, settings, metrics))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    target = Target(listening.getsockname()[1], REQUESTS, "/health", takes_half_closed=False)
    admission = models["minilm"].admission
    try:
        while True:
            yield any_case(rng, target, admission)
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


def any_case(rng: random.Random, target: Target, admission: Any) -> Case:
    kind = rng.random()
    path = rng.choice(sorted(REQUESTS))
    if kind < 0.6:
        value, done = mutate(rng, REQUESTS[path], sorted({field for each in REQUESTS.values() for field in each}))
        return Case(f"{path}: {done}", partial(fields, target, admission, path, json.dumps(value).encode()))
    if kind < 0.9:
        raw, description = http_request(rng, target)
        return Case(description, partial(exchange, target, raw))
    if kind < 0.97:
        raw, description = http_request(rng, target)
        return Case(f"slowly: {description}", partial(exchange_slowly, target, raw, rng.randrange(1, 40)))
    clients = rng.choice((30, 100, 300))
    raw = post(target, path, json.dumps(REQUESTS[path]).encode(), "Connection: close\r\n")
    return Case(f"{clients} clients at once, {path}", partial(at_once, target, raw, clients))


def fields(target: Target, admission: Any, path: str, body: bytes) -> None:
    status = exchange(target, post(target, path, body, "Connection: close\r\n"))
    assert status in (200, 400, 404, 413, 422), status
    assert admission.count == 0, f"{admission.count} inputs are still in the queue"
