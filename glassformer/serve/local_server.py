"""A small HTTP server for this machine only: a page, its modules, and questions that it may ask.

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
MOST_BYTES = 1_000_000  # of a question
PATIENCE = 15  # seconds that a client may be silent
CROWD = 64  # connections at once
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
class Answer:
    """Bytes with their type."""

    body: bytes
    type: str = "application/octet-stream"


Question = Callable[[Mapping[str, Any]], Any]  # JSON in; JSON or an Answer out


def files_of(*folders: Path) -> dict[str, Answer]:
    """Every file of some folders by the path that it is served at: all there will ever be."""
    found = {}
    for folder in folders:
        for path in sorted(folder.iterdir()):
            if path.suffix in TYPES:
                found[f"/{path.name}"] = Answer(path.read_bytes(), TYPES[path.suffix] + "; charset=utf-8")
    return found


class LocalServer(ThreadingHTTPServer):
    """Serves `files` and answers `questions` on the loopback address."""

    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # after an end the port is free at once; Windows would share it with another

    def __init__(self, files: Mapping[str, Answer], questions: Mapping[str, Question], port: int = 0) -> None:
        self.files, self.questions = files, questions
        self.room = threading.BoundedSemaphore(CROWD)
        super().__init__(("127.0.0.1", port), Handler)
        number = self.server_address[1]
        self.hosts = {f"127.0.0.1:{number}", f"localhost:{number}"}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        if not self.room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    server_version = "glassformer"
    sys_version = ""
    timeout = PATIENCE

    def do_GET(self) -> None:
        if self.refused():
            return
        path = urlsplit(self.path).path
        found = self.server.files.get("/index.html" if path == "/" else path)
        if found is None:
            self.send(404, said("there is no such page"))
        else:
            self.send(200, found)

    def do_POST(self) -> None:
        if self.refused():
            return
        if self.headers.get("Content-Type", "").split(";")[0].strip() != "application/json":
            self.refuse(415, "questions are JSON")
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            self.refuse(411, "a question says how long it is")
            return
        if not 0 <= length <= MOST_BYTES:
            self.refuse(413, f"a question has at most {MOST_BYTES} bytes")
            return
        self.answer(self.rfile.read(length))

    def answer(self, body: bytes) -> None:
        question = self.server.questions.get(urlsplit(self.path).path)
        if question is None:
            self.send(404, said("there is no such question"))
            return
        try:
            asked = json.loads(body)
            if not isinstance(asked, dict):
                raise InputError("a question is a JSON object")
            found = question(asked)
            sent = found if isinstance(found, Answer) else in_json(found)
        except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
            self.send(400, said("the question is not JSON"))
        except GlassformerError as error:
            self.send(400, said(str(error)))
        except Exception:  # whatever it is, the page must hear of it
            log.exception("a question could not be answered: %s", self.path)
            self.send(500, said("something went wrong; the terminal tells what"))
        else:
            self.send(200, sent)

    def refused(self) -> bool:
        """Refuse who does not come from our own page: another site's page, or a name that leads here."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        if host not in self.server.hosts:
            self.refuse(403, "this server answers to its own address only")
            return True
        if origin is not None and origin not in {f"http://{name}" for name in self.server.hosts}:
            self.refuse(403, "this server answers its own page only")
            return True
        return False

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What is no HTTP that we speak."""
        self.refuse(405 if code == 501 else code, message or "this is not understood")

    def refuse(self, code: int, message: str) -> None:
        """Say why, and end the connection: what else was sent on it is not read."""
        self.close_connection = True
        self.send(code, said(message))

    def send(self, code: int, found: Answer) -> None:
        body, headers = found.body, getattr(self, "headers", None) or {}
        packs = len(body) > 500 and "gzip" in headers.get("Accept-Encoding", "")
        if packs:
            body = gzip.compress(body, 1)
        self.send_response(code)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if packs:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", found.type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Requests are not worth a line each."""


def in_json(value: Any) -> Answer:
    try:
        return Answer(json.dumps(value, allow_nan=False).encode(), "application/json")
    except ValueError:
        raise InputError("the model's numbers are not finite here, so there is nothing to show") from None


def said(message: str) -> Answer:
    return in_json({"error": message})
