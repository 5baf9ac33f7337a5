"""The explorer's server under hostile requests, slow clients, overload and signals.

Every request gets a response of HTTP with a status that is not 5xx (503 while the server ends), errors are JSON, no
file is served that is not a page, and afterwards the server answers as before.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from glassformer import Subject
from glassformer.serve.explorer import Explorer
from glassformer.serve.local_server import LocalServer

from ..conftest import ROOT
from ..generate.tiny_gpt2 import write_tiny_gpt2
from .case import Case
from .http_faults import JSON, PATIENCE, Target, at_once, exchange, exchange_slowly, http_request, post, read_response
from .json_mutations import mutate

NAME = "server"
REQUEST_SECONDS = 0.4  # of the server under test
MAX_CONNECTIONS = 24

REQUESTS: dict[str, dict[str, Any]] = {  # one valid request of every endpoint; `reading` is made by `prepare`
    "model": {},
    "tokens": {"text": "Once upon a time", "pair": "", "model": 0},
    "read": {"text": "Once upon", "pair": "", "model": 0, "mask": None},
    "thumbs": {"reading": 1, "part": "self"},
    "head": {"reading": 1, "layer": 0, "head": 1, "part": "self"},
    "flow": {"reading": 1, "layer": 1, "what": "rollout", "part": "self"},
    "neuron": {"reading": 1, "layer": 0, "head": 0, "row": 1, "part": "self"},
    "predict": {"reading": 1, "position": -1, "count": 5, "temperature": 1.0, "top_k": 0, "top_p": 1.0},
    "lens": {"reading": 1, "positions": [0, 1], "count": 3},
    "change": {
        "reading": 1,
        "heads": {"0": {"1": 0.5}},
        "skip": [1],
        "source": "so",
        "layer": 0,
        "here": 0,
        "there": 1,
    },
    "attribute": {"reading": 1, "method": "saliency", "position": -1, "target": 3},
    "compare": {"first": 1, "second": 1},
    "generate": {"text": "Once", "steps": 3, "sample": True, "seed": 1, "temperature": 1.0, "top_k": 3, "top_p": 0.9},
    "anatomy": {"model": 0},
    "relations": {"model": 0, "language": "en"},
    "page": {"reading": 1, "part": "self", "layer": 0, "heads": [0, 1], "language": "en"},
}


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    write_tiny_gpt2(folder)
    explorer = Explorer([Subject.load(folder)], "Once upon a time")
    server = explorer.serve()
    server.request_seconds, server.max_connections = REQUEST_SECONDS, MAX_CONNECTIONS
    server_thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    server_thread.start()
    target = Target(server.server_address[1], {f"/api/{name}": body for name, body in REQUESTS.items()}, "/")
    try:
        while True:
            yield any_case(rng, server, target, explorer, folder)
    finally:
        server.shutdown()
        server.server_close()


def any_case(rng: random.Random, server: LocalServer, target: Target, explorer: Explorer, folder: Path) -> Case:
    kind = rng.random()
    if kind < 0.45:
        return fields_case(rng, target, explorer)
    if kind < 0.8:
        raw, description = http_request(rng, target)
        return Case(description, partial(exchange, target, raw))
    if kind < 0.95:
        raw, description = http_request(rng, target)
        return Case(f"slowly: {description}", partial(exchange_slowly, target, raw, rng.randrange(1, 40)))
    if kind < 0.995:
        clients, name = rng.choice((30, 100, 300)), rng.choice(("model", "generate", "read"))
        return Case(f"{clients} clients at once, {name}", partial(overload, server, target, name, clients))
    number, clients = rng.choice((signal.SIGINT, signal.SIGTERM)), rng.choice((1, 8, 40))
    return Case(f"{number.name} under {clients} clients", partial(end_by_signal, folder, number, clients))


# --- hostile requests ------------------------------------------------------------------------------------------------


def fields_case(rng: random.Random, target: Target, explorer: Explorer) -> Case:
    """An endpoint with hostile fields."""
    name = rng.choice(sorted(REQUESTS))
    value, done = mutate(rng, REQUESTS[name], sorted({field for each in REQUESTS.values() for field in each}))

    def run() -> None:
        if isinstance(value, dict):
            value.update({key: explorer.first for key in ("reading", "first", "second") if value.get(key) == 1})
        body = json.dumps(value).encode()
        status = exchange(target, post(target, f"/api/{name}", body))
        assert status in (200, 400, 413), status
        explorer.read({"text": "Once upon a time"})  # the reading that other cases use stays the latest

    return Case(f"{name}: {done}", run)


# --- overload and signals ---------------------------------------------------------------------------------------------


def overload(server: LocalServer, target: Target, name: str, clients: int) -> None:
    path = f"/api/{name}"
    at_once(target, post(target, path, json.dumps(target.requests[path]).encode(), "Connection: close\r\n"), clients)
    deadline = time.monotonic() + PATIENCE
    while server.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.connections, f"{len(server.connections)} connections are still open"


def end_by_signal(folder: Path, number: signal.Signals, clients: int) -> None:
    command = [sys.executable, "-m", "glassformer.cli.main", "explore", str(folder), "Once upon", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["address"].split(":")[-1].strip("/"))
        body = json.dumps({"text": "Once upon a time", "steps": 30}).encode()
        head = f"POST /api/generate HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{JSON}Connection: close\r\n"
        raw = head.encode() + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
        with ThreadPoolExecutor(clients) as pool:
            found = [pool.submit(statuses_until_refused, port, raw) for _ in range(clients)]
            time.sleep(1)
            process.send_signal(number)
            _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, ""), (process.returncode, errors[-500:])
        seen = {status for each in found for status in each.result()}
        assert seen <= {b"200", b"429", b"503"}, seen
    finally:
        process.kill()


def statuses_until_refused(port: int, raw: bytes) -> list[bytes]:
    statuses = []
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            return statuses
        with connection:
            connection.sendall(raw)
            received = read_response(connection)
            statuses.append(received.split()[1] if received.startswith(b"HTTP/1.1 ") else received[:20] or b"nothing")
