"""A small HTTP server for this machine only: a page, its modules, and the endpoints that it calls.

It listens on the loopback address, answers only requests that name it as their host and that come from its own page,
serves files that were listed when it started and nothing else, and allows its page to load from itself alone.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import GlassformerError, InputError

log = logging.getLogger("glassformer")

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
MAX_REQUEST_BYTES = 1_000_000
CLIENT_TIMEOUT = 15  # seconds that a client may be silent
MAX_CONNECTIONS = 64
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


class LocalServer(ThreadingHTTPServer):
    """Serves `files` and `endpoints` on the loopback address."""

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # a restart can bind the port at once; Windows would share it

    def __init__(self, files: Mapping[str, Response], endpoints: Mapping[str, Endpoint], port: int = 0) -> None:
        self.files, self.endpoints = files, endpoints
        self.connections = threading.BoundedSemaphore(MAX_CONNECTIONS)
        super().__init__(("127.0.0.1", port), Handler)
        number = self.server_address[1]
        self.hosts = {f"127.0.0.1:{number}", f"localhost:{number}"}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        if not self.connections.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnected is not an error."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    server_version = "glassformer"
    sys_version = ""
    timeout = CLIENT_TIMEOUT

    def do_GET(self) -> None:
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
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self.refuse(411, "a request needs a Content-Length")
            return
        if not 0 <= length <= MAX_REQUEST_BYTES:
            self.refuse(413, f"a request has at most {MAX_REQUEST_BYTES} bytes")
            return
        self.respond(self.rfile.read(length))

    def respond(self, body: bytes) -> None:
        endpoint = self.server.endpoints.get(urlsplit(self.path).path)
        if endpoint is None:
            self.send(404, error_response("there is no such endpoint"))
            return
        try:
            request = json.loads(body)
            if not isinstance(request, dict):
                raise InputError("a request must be a JSON object")
            result = endpoint(request)
            response = result if isinstance(result, Response) else json_response(result)
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            self.send(400, error_response("the request is not JSON"))
        except GlassformerError as error:
            self.send(400, error_response(str(error)))
        except Exception:  # the page must always get a response
            log.exception("request failed: %s", self.path)
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
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if compress:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", response.type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not logged."""


def json_response(value: Any) -> Response:
    try:
        return Response(json.dumps(value, allow_nan=False).encode(), "application/json")
    except ValueError:
        raise InputError("the model's outputs are not finite here, so there is nothing to show") from None


def error_response(message: str) -> Response:
    return json_response({"error": message})
