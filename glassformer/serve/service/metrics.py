"""Figures for Prometheus, and one line of JSON for each request."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any, TextIO

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
TOKENS = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass
class RequestRecord:
    """What is reported of one request."""

    method: str
    path: str
    begin: float = field(default_factory=time.perf_counter)
    route: str = "none"
    status: int = 0
    model: str = ""
    inputs: int = 0
    tokens: int = 0
    generated: int = 0
    truncated: list[int] = field(default_factory=list)
    tokenize: float = 0.0
    queue: float = 0.0
    compute: float = 0.0
    error: str = ""
    parameters: dict[str, str] = field(default_factory=dict)  # of the path


class Metrics:
    """The figures of one service."""

    def __init__(self, log: TextIO | None = None) -> None:
        self.log = log
        self.registry = registry = CollectorRegistry()
        self.requests = Counter("glass_requests", "requests by outcome", ["route", "status"], registry=registry)
        self.durations = Histogram(
            "glass_request_seconds", "from the first to the last byte", ["route"], buckets=SECONDS, registry=registry
        )
        named = {"labelnames": ["model"], "registry": registry}
        self.tokenize = Histogram("glass_tokenize_seconds", "of a request", buckets=SECONDS, **named)
        self.queued = Histogram("glass_queue_seconds", "an input's wait for its batch", buckets=SECONDS, **named)
        self.compute = Histogram("glass_compute_seconds", "of a batch or a decode step", buckets=SECONDS, **named)
        self.batch_tokens = Histogram("glass_batch_tokens", "tokens in a batch", buckets=TOKENS, **named)
        self.batch_inputs = Histogram("glass_batch_inputs", "inputs in a batch", buckets=SIZES, **named)
        self.queue = Gauge("glass_queue_inputs", "inputs that wait or run", registry=registry)

    def batch(self, model: str, inputs: int, tokens: int, seconds: float) -> None:
        self.batch_inputs.labels(model).observe(inputs)
        self.batch_tokens.labels(model).observe(tokens)
        self.compute.labels(model).observe(seconds)

    def request(self, record: RequestRecord) -> None:
        seconds = time.perf_counter() - record.begin
        self.requests.labels(record.route, str(record.status)).inc()
        self.durations.labels(record.route).observe(seconds)
        if record.inputs and record.model:
            self.tokenize.labels(record.model).observe(record.tokenize)
            self.queued.labels(record.model).observe(record.queue)
        if self.log is not None:
            print(self.line(record, seconds), file=self.log, flush=True)

    @staticmethod
    def line(record: RequestRecord, seconds: float) -> str:
        fields: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": record.method,
            "path": record.path[:200],
            "status": record.status,
            "seconds": round(seconds, 6),
        }
        for name in ("model", "inputs", "tokens", "generated", "error"):
            if getattr(record, name):
                fields[name] = getattr(record, name)
        if record.truncated:
            fields["truncated"] = len(record.truncated)
        for name in ("tokenize", "queue", "compute"):
            if record.inputs:
                fields[f"{name}_seconds"] = round(getattr(record, name), 6)
        return msgspec.json.encode(fields).decode()

    def exposition(self) -> bytes:
        """All figures, in the text format of Prometheus."""
        return generate_latest(self.registry)


def standard_log() -> TextIO:
    return sys.stdout
