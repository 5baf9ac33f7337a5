"""The explorer's server under hostile requests, slow clients, overload and signals.

Every request gets a response of HTTP with a status that is not 5xx (503 while the server ends), errors are JSON, no
file is served that is not a page, and afterwards the server answers as before.
"""

from __future__ import annotations

import contextlib
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
from .json_mutations import damage, hostile, mutate

NAME = "server"
JSON = "Content-Type: application/json\r\n"
PATIENCE = 20.0  # seconds in which every request must be answered
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
PATHS = [
    *("/../errors.py", "/..%2f..%2ferrors.py", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/etc/passwd", "/page/.."),
    *("/explorer.js%00.html", "/explorer.js/../../explorer.py", "/./explorer.js", "\\..\\explorer.py", "/.git/config"),
    *("http://evil.example/", "*", "/?" + "a" * 9000, "/" + "%25" * 300, "/\u2028", "/%ff%fe", "/api/../api/model"),
]
ORIGINS = ["http://evil.example", "null", "http://127.0.0.1", "https://localhost", "file://", "http://127.0.0.1.evil"]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    write_tiny_gpt2(folder)
    explorer = Explorer([Subject.load(folder)], "Once upon a time")
    server = explorer.serve()
    server.request_seconds, server.max_connections = REQUEST_SECONDS, MAX_CONNECTIONS
    server_thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    server_thread.start()
    try:
        while True:
            yield any_case(rng, server, explorer, folder)
    finally:
        server.shutdown()
        server.server_close()


def any_case(rng: random.Random, server: LocalServer, explorer: Explorer, folder: Path) -> Case:
    kind = rng.random()
    if kind < 0.45:
        return fields_case(rng, server, explorer)
    if kind < 0.8:
        raw, description = http_request(rng, server)
        return Case(description, partial(exchange, server, raw))
    if kind < 0.95:
        raw, description = http_request(rng, server)
        return Case(f"slowly: {description}", partial(exchange_slowly, server, raw, rng.randrange(1, 40)))
    if kind < 0.995:
        clients, name = rng.choice((30, 100, 300)), rng.choice(("model", "generate", "read"))
        return Case(f"{clients} clients at once, {name}", partial(overload, server, name, clients))
    number, clients = rng.choice((signal.SIGINT, signal.SIGTERM)), rng.choice((1, 8, 40))
    return Case(f"{number.name} under {clients} clients", partial(end_by_signal, folder, number, clients))


# --- hostile requests ------------------------------------------------------------------------------------------------


def fields_case(rng: random.Random, server: LocalServer, explorer: Explorer) -> Case:
    """An endpoint with hostile fields."""
    name = rng.choice(sorted(REQUESTS))
    value, done = mutate(rng, REQUESTS[name], sorted({field for each in REQUESTS.values() for field in each}))

    def run() -> None:
        if isinstance(value, dict):
            value.update({key: explorer.first for key in ("reading", "first", "second") if value.get(key) == 1})
        body = json.dumps(value).encode()
        status = exchange(server, post(server, f"/api/{name}", body))
        assert status in (200, 400, 413), status
        explorer.read({"text": "Once upon a time"})  # the reading that other cases use stays the latest

    return Case(f"{name}: {done}", run)


def http_request(rng: random.Random, server: LocalServer) -> tuple[bytes, str]:
    """Bytes that are a request, or nearly one."""
    host = server.address.split("/")[2]
    name = rng.choice(sorted(REQUESTS))
    body = json.dumps(REQUESTS[name]).encode()
    ways = {
        "a path": lambda: f"GET {rng.choice(PATHS)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(),
        "a path to post to": lambda: post(server, rng.choice(PATHS), body),
        "an origin": lambda: post(server, f"/api/{name}", body, f"Origin: {rng.choice(ORIGINS)}\r\n"),
        "a host": lambda: f"GET / HTTP/1.1\r\nHost: {rng.choice(ORIGINS)}\r\n\r\n".encode(),
        "no host": lambda: b"GET / HTTP/1.1\r\n\r\n",
        "a damaged request": lambda: damage(rng, post(server, f"/api/{name}", body))[0],
        "a damaged body": lambda: post(server, f"/api/{name}", damage(rng, body)[0]),
        "a hostile body": lambda: post(server, f"/api/{name}", json.dumps(hostile(rng)).encode()),
        "a huge body": lambda: post(server, f"/api/{name}", b"x" * rng.choice((1_000_001, 5_000_000))),
        "a wrong length": lambda: post(server, f"/api/{name}", body, length=rng.choice((0, 1, len(body) - 1, 10**30))),
        "a length that is none": lambda: post(server, f"/api/{name}", body, length=rng.choice(("-1", "x", "", "1e3"))),
        "chunks": lambda: post(server, f"/api/{name}", body, "Transfer-Encoding: chunked\r\n"),
        "a method": lambda: (
            f"{rng.choice(('HEAD', 'PUT', 'x', 'get', 'PRI'))} / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        ),
        "a version": lambda: f"GET / {rng.choice(('HTTP/9', 'HTTP/0.9', 'HTTP/1.1.1', 'X', ''))}\r\n\r\n".encode(),
        "many headers": lambda: f"GET / HTTP/1.1\r\nHost: {host}\r\n".encode() + b"a: b\r\n" * 300 + b"\r\n",
        "a long header": lambda: f"GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {'a' * 90_000}\r\n\r\n".encode(),
        "bytes": lambda: rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n",
        "two requests": lambda: post(server, f"/api/{name}", body) * 2,
    }
    way = rng.choice(sorted(ways))
    raw = ways[way]()
    return raw, f"{way}: {raw[:90]!r}{' ...' if len(raw) > 90 else ''}"


def post(server: LocalServer, path: str, body: bytes, headers: str = "", length: Any = None) -> bytes:
    host = server.address.split("/")[2]
    length = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{JSON}{headers}Content-Length: {length}\r\n\r\n"
    return head.encode() + body


def connect(server: LocalServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=PATIENCE)


def exchange(server: LocalServer, raw: bytes) -> int:
    """Send bytes and the end of the stream; the status of the response, which must be there."""
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):  # a server may answer without reading everything
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
        received = read_all(connection)
    assert_alive(server)
    return status_of(received) if raw else 400


def exchange_slowly(server: LocalServer, raw: bytes, pieces: int) -> None:
    """Send bytes in pieces with pauses, perhaps never all of them."""
    size = -(-len(raw) // pieces) or 1
    with connect(server) as connection:
        end = time.monotonic() + PATIENCE
        for start in range(0, len(raw) - 1, size):
            with contextlib.suppress(ConnectionError):
                connection.sendall(raw[start : min(start + size, len(raw) - 1)])
            connection.settimeout(0.02)
            with contextlib.suppress(TimeoutError):
                if connection.recv(1, socket.MSG_PEEK) or time.monotonic() > end:
                    break
        connection.settimeout(PATIENCE)
        received = read_all(connection)
    assert len(raw) < 2 or status_of(received), "nothing"
    assert_alive(server)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while more := connection.recv(1 << 20):
            received += more
    return received


def status_of(received: bytes) -> int:
    """The status of a response, whose parts are checked."""
    if not received:
        raise AssertionError("the connection was closed without a response")
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), f"no status line: {head[:60]!r}"
    status = int(head.split()[1])
    assert status < 500 or status == 505, f"{status}: {body[:200]!r}"
    if status == 429:
        assert b"\r\nRetry-After: " in head, "no Retry-After"
    if status >= 400:
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        assert "error" in json.loads(body[:length]), body[:200]
    assert b"root:" not in body and b"import annotations" not in body, "a file was served"
    return status


def assert_alive(server: LocalServer) -> None:
    """The server answers as before."""
    with connect(server) as connection:
        host = server.address.split("/")[2]
        connection.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        received = read_all(connection)
    assert received.startswith(b"HTTP/1.1 200"), f"the server does not answer any more: {received[:200]!r}"


# --- overload and signals ---------------------------------------------------------------------------------------------


def overload(server: LocalServer, name: str, clients: int) -> None:
    raw = post(server, f"/api/{name}", json.dumps(REQUESTS[name]).encode(), "Connection: close\r\n")
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda _: exchange_once(server, raw), range(clients)))
    assert {*found} <= {200, 429} and 200 in found, sorted(found)
    deadline = time.monotonic() + PATIENCE
    while server.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not server.connections, f"{len(server.connections)} connections are still open"
    assert_alive(server)


def exchange_once(server: LocalServer, raw: bytes) -> int:
    with connect(server) as connection:
        connection.sendall(raw)
        return status_of(read_all(connection))


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
            received = read_all(connection)
            statuses.append(received.split()[1] if received.startswith(b"HTTP/1.1 ") else received[:20] or b"nothing")
