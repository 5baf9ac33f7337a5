"""A small HTTP server for this machine only: a page, its modules, and the endpoints that it calls.

It listens on the loopback address, answers only requests that name it as their host and that come from its own page,
serves files that were listed when it started and nothing else, and allows its page to load from itself alone.

Endpoints run one at a time. Every connection gets an answer: those beyond `MAX_CONNECTIONS`, which is how many requests
can wait, are refused with 429, and those that wait when the server ends with 503; what runs then is finished first.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import GlassformerError, InputError
from .refusals import Refusals

log = logging.getLogger("glassformer")

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
MAX_REQUEST_BYTES = 1_000_000
REQUEST_SECONDS = 15.0  # from the first byte of a request to its last; a connection may be idle as long
DRAIN_SECONDS = 10.0  # for the requests that run when the server ends
RETRY_SECONDS = 1  # after which a refused client may try again
MAX_CONNECTIONS = 64
MAX_BACKLOG = 1024  # connections that wait to be accepted
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Response:
    """Bytes with their type."""

    body: bytes
    type: str = "application/octet-stream"


Endpoint = Callable[[Mapping[str, Any]], Any]  # JSON in; JSON or a Response out


def files_of(*folders: Path) -> dict[str, Response]:
    """Every file of some folders by the path that it is served at."""
    files = {}
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix in TYPES:
                files[f"/{path.name}"] = Response(path.read_bytes(), TYPES[path.suffix] + "; charset=utf-8")
    return files


class ServerStopping(GlassformerError):
    """A request whose turn came when the server was already ending."""


class LocalServer(ThreadingHTTPServer):
    """Serves `files` and `endpoints` on the loopback address."""

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # a restart can bind the port at once; Windows would share it
    request_queue_size = MAX_BACKLOG
    max_connections = MAX_CONNECTIONS
    max_request_bytes = MAX_REQUEST_BYTES
    request_seconds = REQUEST_SECONDS
    drain_seconds = DRAIN_SECONDS

    def __init__(self, files: Mapping[str, Response], endpoints: Mapping[str, Endpoint], port: int = 0) -> None:
        self.files, self.endpoints = files, endpoints
        self.connections: dict[socket.socket, threading.Thread] = {}
        self.refusals = Refusals()
        self.turn = threading.Lock()  # of the endpoints
        self.is_stopping = False
        super().__init__(("127.0.0.1", port), Handler)
        number = self.server_address[1]
        self.hosts = {f"127.0.0.1:{number}", f"localhost:{number}"}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection in a thread of its own, unless there are too many."""
        if len(self.connections) >= self.max_connections:
            self.refusals.add(request, refusal(429, "too many requests at once; try again soon"))
            return
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self.connections[request] = thread
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads
            del self.connections[request]
            self.refusals.add(request, refusal(429, "too many requests at once; try again soon"))

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            del self.connections[request]

    def call(self, endpoint: Endpoint, request: Mapping[str, Any]) -> Any:
        """An endpoint's result, when it is its turn."""
        with self.turn:
            if self.is_stopping:
                raise ServerStopping("the server is ending")
            return endpoint(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection after its client has: otherwise an early response might never reach it."""
        self.refusals.add(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected is not an error; anything else is reported."""
        if not isinstance(sys.exc_info()[1], OSError):
            log.exception("a connection failed")

    def server_close(self) -> None:
        """End: connections that wait are refused, and requests that run get `drain_seconds` to finish.

        No thread may still compute when the interpreter ends: it would be stopped inside of torch, which aborts.
        """
        self.is_stopping = True
        with contextlib.suppress(OSError):  # until no connection waits
            self.socket.settimeout(0)
            while True:
                self.refusals.add(self.socket.accept()[0], refusal(503, "the server is ending"))
        super().server_close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)  # idle connections end
        deadline = time.monotonic() + self.drain_seconds
        for thread in list(self.connections.values()):
            thread.join(max(deadline - time.monotonic(), 0))
        self.refusals.wait()

    def serve_until_signal(self) -> bool:
        """Serve until SIGINT or SIGTERM; whether all requests were finished then. A second signal ends the process."""
        stop = threading.Event()

        def on_signal(number: int, frame: Any) -> None:
            if stop.is_set():
                os._exit(128 + number)
            stop.set()

        previous = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            threading.Thread(target=self.serve_forever, args=(0.2,), daemon=True).start()
            while not stop.wait(1):  # Windows delivers signals between two waits
                pass
            self.shutdown()
            self.server_close()
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)
        return not self.connections


class DeadlineReader(io.RawIOBase):
    """The bytes of a connection, each read of which ends at one deadline, however slowly they come."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.deadline = connection, 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        return self.connection.recv_into(buffer)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    server_version = "glassformer"
    sys_version = ""
    request_version = default_request_version = "HTTP/1.1"  # of requests without one

    def setup(self) -> None:
        super().setup()
        self.is_new = True  # no request has come yet
        self.reader = DeadlineReader(self.connection)
        self.rfile = io.BufferedReader(self.reader)

    def handle_one_request(self) -> None:
        self.close_connection = True
        self.reader.deadline = time.monotonic() + self.server.request_seconds
        self.requestline, self.headers = "", None
        try:
            if not self.rfile.peek(1):
                if self.is_new and self.server.is_stopping:  # its request may be on the way
                    self.refuse(503, "the server is ending")
                return
        except TimeoutError:
            return  # idle for too long
        self.is_new = False
        self.reader.deadline = time.monotonic() + self.server.request_seconds
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if len(self.raw_requestline) > 65536:
                self.send_error(414, "the request line is too long")
            elif not self.raw_requestline.split():
                self.send_error(400, "the request line is empty")
            elif self.parse_request():
                method = getattr(self, f"do_{self.command}", None)
                method() if method else self.send_error(501)
        except TimeoutError:
            self.refuse(408, f"a request must be complete within {self.server.request_seconds:g} s")

    def do_GET(self) -> None:
        self.close_connection |= "Content-Length" in self.headers or "Transfer-Encoding" in self.headers  # not read
        if self.refuse_foreign_origin():
            return
        path = urlsplit(self.path).path
        file = self.server.files.get("/index.html" if path == "/" else path)
        if file is None:
            self.send(404, error_response("there is no such page"))
        else:
            self.send(200, file)

    def do_POST(self) -> None:
        if self.refuse_foreign_origin():
            return
        if self.headers.get("Content-Type", "").split(";")[0].strip() != "application/json":
            self.refuse(415, "the Content-Type must be application/json")
            return
        lengths = {each.strip() for each in self.headers.get_all("Content-Length", [])}
        stated = lengths.pop() if len(lengths) == 1 and "Transfer-Encoding" not in self.headers else ""
        if not (stated.isascii() and stated.isdigit()):
            self.refuse(411, "a request needs one Content-Length, and no Transfer-Encoding")
            return
        most = self.server.max_request_bytes
        length = int(stated) if len(stated) < 20 else most + 1
        if length > most:
            self.refuse(413, f"a request has at most {most} bytes")
            return
        body = self.rfile.read(length)
        if len(body) < length:
            self.refuse(503 if self.server.is_stopping else 400, "the request ends before its Content-Length")
            return
        self.respond(body)

    def respond(self, body: bytes) -> None:
        endpoint = self.server.endpoints.get(urlsplit(self.path).path)
        if endpoint is None:
            self.send(404, error_response("there is no such endpoint"))
            return
        try:
            request = json.loads(body)
        except (ValueError, RecursionError):  # a ValueError too for a number of thousands of digits
            self.send(400, error_response("the request is not JSON"))
            return
        try:
            if not isinstance(request, dict):
                raise InputError("a request must be a JSON object")
            result = self.server.call(endpoint, request)
            response = result if isinstance(result, Response) else json_response(result)
        except ServerStopping as error:
            self.refuse(503, str(error))
        except GlassformerError as error:
            self.send(400, error_response(str(error)))
        except Exception as error:  # the page must always get a response
            log.exception("%s failed: %s: %s", self.path, type(error).__name__, error)
            self.send(500, error_response("internal error; see the terminal for details"))
        else:
            self.send(200, response)

    def refuse_foreign_origin(self) -> bool:
        """Refuse requests from other sites, and host names that only resolve to this machine (DNS rebinding)."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server.hosts:
            self.refuse(403, "this server answers to its own address only")
            return True
        if origin is not None and origin not in {f"http://{name}" for name in self.server.hosts}:
            self.refuse(403, "this server answers its own page only")
            return True
        return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that is not understood as HTTP."""
        self.refuse(405 if code == 501 else code, message or "bad request")

    def refuse(self, code: int, message: str) -> None:
        """Send an error and close the connection; the rest of the request is not read."""
        self.close_connection = True
        self.send(code, error_response(message))

    def send(self, code: int, response: Response) -> None:
        body, headers = response.body, getattr(self, "headers", None) or {}
        compress = len(body) > 500 and "gzip" in headers.get("Accept-Encoding", "")
        if compress:
            body = gzip.compress(body, 1)
        self.connection.settimeout(self.server.request_seconds)  # for all of the response
        self.request_version = self.protocol_version  # every response has a status line, as HTTP/0.9 had not
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if compress:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", response.type)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        try:
            self.end_headers()
            self.wfile.write(body)
        except TimeoutError:
            raise ConnectionAbortedError("the client reads too slowly") from None

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


def json_response(value: Any) -> Response:
    try:
        return Response(json.dumps(value, allow_nan=False).encode(), "application/json")
    except ValueError:
        raise InputError("the model's outputs are not finite here, so there is nothing to show") from None


def error_response(message: str) -> Response:
    return json_response({"error": message})


def refusal(code: int, message: str) -> bytes:
    """The complete response to a connection that is not served."""
    response, reason = error_response(message), {429: "Too Many Requests", 503: "Service Unavailable"}[code]
    headers = {
        **HEADERS,
        "Content-Type": response.type,
        "Content-Length": len(response.body),
        "Connection": "close",
        "Retry-After": RETRY_SECONDS,
    }
    lines = [f"HTTP/1.1 {code} {reason}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode() + response.body
