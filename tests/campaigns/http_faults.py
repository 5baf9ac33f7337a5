"""Hostile requests of HTTP, and clients that send them at once, slowly, or in part."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .json_mutations import damage, hostile

JSON = "Content-Type: application/json\r\n"
PATIENCE = 20.0  # seconds in which every request must be answered
PATHS = [
    *("/../errors.py", "/..%2f..%2ferrors.py", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/etc/passwd", "/page/.."),
    *("/explorer.js%00.html", "/explorer.js/../../explorer.py", "/./explorer.js", "\\..\\explorer.py", "/.git/config"),
    *("http://evil.example/", "*", "/?" + "a" * 9000, "/" + "%25" * 300, "/\u2028", "/%ff%fe", "/api/../api/model"),
]
ORIGINS = ["http://evil.example", "null", "http://127.0.0.1", "https://localhost", "file://", "http://127.0.0.1.evil"]


def http_request(rng: random.Random, server: Target) -> tuple[bytes, str]:
    """Bytes that are a request, or nearly one."""
    host = server.host
    path = rng.choice(sorted(server.requests))
    body = json.dumps(server.requests[path]).encode()
    ways = {
        "a path": lambda: f"GET {rng.choice(PATHS)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(),
        "a path to post to": lambda: post(server, rng.choice(PATHS), body),
        "an origin": lambda: post(server, path, body, f"Origin: {rng.choice(ORIGINS)}\r\n"),
        "a host": lambda: f"GET / HTTP/1.1\r\nHost: {rng.choice(ORIGINS)}\r\n\r\n".encode(),
        "no host": lambda: b"GET / HTTP/1.1\r\n\r\n",
        "a damaged request": lambda: damage(rng, post(server, path, body))[0],
        "a damaged body": lambda: post(server, path, damage(rng, body)[0]),
        "a hostile body": lambda: post(server, path, json.dumps(hostile(rng)).encode()),
        "a huge body": lambda: post(server, path, b"x" * rng.choice((1_000_001, 5_000_000))),
        "a wrong length": lambda: post(server, path, body, length=rng.choice((0, 1, len(body) - 1, 10**30))),
        "a length that is none": lambda: post(server, path, body, length=rng.choice(("-1", "x", "", "1e3"))),
        "chunks": lambda: post(server, path, body, "Transfer-Encoding: chunked\r\n"),
        "a method": lambda: (
            f"{rng.choice(('HEAD', 'PUT', 'x', 'get', 'PRI'))} / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        ),
        "a version": lambda: f"GET / {rng.choice(('HTTP/9', 'HTTP/0.9', 'HTTP/1.1.1', 'X', ''))}\r\n\r\n".encode(),
        "many headers": lambda: f"GET / HTTP/1.1\r\nHost: {host}\r\n".encode() + b"a: b\r\n" * 300 + b"\r\n",
        "a long header": lambda: f"GET / HTTP/1.1\r\nHost: {host}\r\nCookie: {'a' * 90_000}\r\n\r\n".encode(),
        "bytes": lambda: rng.randbytes(rng.randrange(1, 300)) + b"\r\n\r\n",
        "two requests": lambda: post(server, path, body) * 2,
    }
    way = rng.choice(sorted(ways))
    raw = ways[way]()
    return raw, f"{way}: {raw[:90]!r}{' ...' if len(raw) > 90 else ''}"


@dataclass(frozen=True)
class Target:
    """A server under test."""

    port: int
    requests: Mapping[str, Any]  # a valid body for every path
    alive: str  # a path that always answers
    takes_half_closed: bool = True  # False: a client that has closed its side is taken for one that left

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"


def post(server: Target, path: str, body: bytes, headers: str = "", length: Any = None) -> bytes:
    host = server.host
    length = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{JSON}{headers}Content-Length: {length}\r\n\r\n"
    return head.encode() + body


def connect(server: Target) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def exchange(server: Target, raw: bytes) -> int:
    """Send bytes; the status of the response, which must be there."""
    with connect(server) as connection:
        with contextlib.suppress(ConnectionError):  # a server may answer without reading everything
            connection.sendall(raw)
            if server.takes_half_closed:
                connection.shutdown(socket.SHUT_WR)
        received = read_response(connection, not raw.startswith(b"HEAD"))
    assert_alive(server)
    return status_of(received) if raw else 400


def exchange_slowly(server: Target, raw: bytes, pieces: int) -> None:
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
        received = read_response(connection)
    assert len(raw) < 2 or status_of(received), "nothing"
    assert_alive(server)


def read_response(connection: socket.socket, has_body: bool = True) -> bytes:
    """One response, or all that comes before the connection ends."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while not is_complete(received, has_body) and (more := connection.recv(1 << 20)):
            received += more
    return received


def is_complete(received: bytes, has_body: bool) -> bool:
    head, end, body = received.partition(b"\r\n\r\n")
    head = head.lower()
    if not end or head.startswith(b"http/1.1 100"):
        return False
    if b"transfer-encoding: chunked" in head:
        return body.endswith(b"0\r\n\r\n")
    return not has_body or len(body) >= int(head.partition(b"content-length: ")[2].split()[0])


def status_of(received: bytes) -> int:
    """The status of a response, whose parts are checked."""
    if not received:
        raise AssertionError("the connection was closed without a response")
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), f"no status line: {head[:60]!r}"
    status = int(head.split()[1])
    assert status < 500 or status == 505, f"{status}: {body[:200]!r}"
    if status == 429:
        assert b"\r\nretry-after: " in head.lower(), "no Retry-After"
    if status >= 400 and body:  # a HEAD request has none
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        assert "error" in json.loads(body[:length]), body[:200]
    assert b"root:" not in body and b"import annotations" not in body, "a file was served"
    return status


def assert_alive(server: Target) -> None:
    """The server answers as before."""
    with connect(server) as connection:
        host = server.host
        connection.sendall(f"GET {server.alive} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        received = read_response(connection)
    assert received.startswith(b"HTTP/1.1 200"), f"the server does not answer any more: {received[:200]!r}"


def at_once(server: Target, raw: bytes, clients: int) -> None:
    """Many clients with one request each: every one is answered or told to come again."""
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda _: exchange_once(server, raw), range(clients)))
    assert {*found} <= {200, 429} and 200 in found, sorted(found)
    assert_alive(server)


def exchange_once(server: Target, raw: bytes) -> int:
    with connect(server) as connection:
        connection.sendall(raw)
        return status_of(read_response(connection))
