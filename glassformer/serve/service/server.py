"""The service on a port: connections with limits, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...errors import InputError
from .refusal import RETRY_SECONDS
from .service import Service

log = logging.getLogger("glassformer")

BACKLOG = 2048
KEEP_ALIVE_SECONDS = 15
LINGER_SECONDS = 2.0
SWITCH_SECONDS = 0.0002  # a thread that computes takes its turn between hundreds of operations of a batch
STATUS = {400: "Bad Request", 408: "Request Timeout", 429: "Too Many Requests"}


class LimitedProtocol(H11Protocol):
    """HTTP/1.1 for a limited number of connections, whose requests must arrive and whose responses be read in time.

    Uvicorn itself waits without a limit for the end of a request's headers, and for a client that does not read.
    """

    request_seconds = 30.0
    max_connections = 2000
    deadline: asyncio.TimerHandle | None = None  # of the headers of a request
    reading: asyncio.TimerHandle | None = None  # of a client that must read before more is sent

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self.refuse(429, "too many connections")
        else:
            self.set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self.clear_deadline()
        super().connection_lost(exc)
        self.resume_writing()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.reading = self.loop.call_later(self.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.reading is not None:
            self.reading.cancel()
            self.reading = None

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.is_between_requests:
            self.set_deadline()
        else:
            self.clear_deadline()

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "the request is not HTTP")

    @property
    def is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def set_deadline(self) -> None:
        """The first part of a request starts the clock, and no later part stops it."""
        if self.deadline is None:
            self.deadline = self.loop.call_later(self.request_seconds, self.on_deadline)

    def clear_deadline(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None

    def on_deadline(self) -> None:
        self.deadline = None
        if self.is_between_requests and not self.transport.is_closing():
            self.refuse(408, "the request did not arrive in time")

    def refuse(self, status: int, message: str) -> None:
        """Answer without the application, and close; what the client still sends is discarded for a moment."""
        body = b'{"error":"%s","error_type":"%s","field":null}' % (message.encode(), b"invalid_request_error")
        head = f"HTTP/1.1 {status} {STATUS[status]}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        head += f"Retry-After: {RETRY_SECONDS}\r\n" if status == 429 else ""
        self.clear_deadline()
        if not self.transport.is_closing():
            self.transport.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            self.data_received = discard  # type: ignore[method-assign]
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(LINGER_SECONDS, self.transport.close)


def discard(data: bytes) -> None:
    """What a refused client sends."""


class Server(uvicorn.Server):
    """Ends after SIGINT or SIGTERM, when accepted requests are answered; a second signal ends the process at once."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def on_signal(number: int, frame: Any) -> None:
            if self.should_exit:
                os._exit(128 + number)
            self.should_exit = True

        previous = {each: signal.signal(each, on_signal) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)


def listen(host: str, port: int) -> socket.socket:
    """A socket that accepts connections; an error names the port."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        found = socket.socket(
            family, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )  # asyncio sends at once only if it is named
        if os.name != "nt":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(BACKLOG)
        return found
    except OSError as error:
        raise InputError(f"{host}:{port} cannot be used: {error.strerror or error}") from None


def make_server(service: Service) -> Server:
    settings = service.settings
    limits = {"request_seconds": settings.request_seconds, "max_connections": settings.max_connections}
    config = uvicorn.Config(
        service,
        http=type("Protocol", (LimitedProtocol,), limits),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(int(settings.drain_seconds), 1),
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # what clients do wrong is in their responses
    return Server(config)


def run(service: Service, listening: socket.socket) -> bool:
    """Serve until a signal; whether all work had ended in time."""
    sys.setswitchinterval(SWITCH_SECONDS)
    make_server(service).run(sockets=[listening])
    return service.drained
