"""Endpoints: from a request to a checked body, from a result to a response. A client that leaves cancels its work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ...errors import GlassformerError
from .metrics import RequestRecord
from .refusal import Refusal, refusal_of
from .settings import ServiceSettings

if TYPE_CHECKING:
    from .service import Service

log = logging.getLogger("glassformer")

JSON = "application/json"
MAX_DISCARDED = 16  # times the limit of a body: what is read of one that is refused, so that its client sees why
DISCONNECTED = 499  # the status that is logged for a client that left
Message = dict[str, Any]


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What every body may hold."""

    model: str | None = None


@dataclass(frozen=True)
class Reply:
    """A response other than JSON."""

    content: bytes
    type: str


@dataclass(frozen=True)
class EventStream:
    """Server-sent events; the iterator is closed when the client leaves."""

    events: AsyncIterator[bytes]


Handler = Callable[["Service", Any, RequestRecord], Awaitable[Any]]


@dataclass(frozen=True)
class Endpoint:
    """A path, what it reads, and what it does. As an ASGI application it answers one request."""

    method: str
    path: str
    summary: str
    handler: Handler
    body: Any = None  # the type of the body; None for a request without one
    example: Any = None
    is_open: bool = False  # answered without the API key

    @property
    def is_openai(self) -> bool:
        return self.path.startswith("/v1/")

    async def __call__(self, scope: Message, receive: Callable, send: Callable) -> None:
        service: Service = scope["app"].state.service
        record: RequestRecord = scope["record"]
        record.route = self.path
        record.parameters = scope.get("path_params", {})
        try:
            body = None if self.body is None else await self.read(scope, receive, service.settings)
            work = asyncio.ensure_future(self.handler(service, body, record))
            if not await finished_before_disconnect(work, receive):
                record.status = DISCONNECTED
                return
            result = work.result()
            if isinstance(result, EventStream):
                await send_events(result.events, record, receive, send, self.is_openai)
            elif isinstance(result, Reply):
                await respond(send, 200, result.content, result.type, truncation_headers(record))
            else:
                content = msgspec.json.encode(result, enc_hook=as_plain)
                await respond(send, 200, content, JSON, truncation_headers(record))
        except Exception as error:
            await refuse(send, as_refusal(error, record), record, self.is_openai)

    async def read(self, scope: Message, receive: Callable, settings: ServiceSettings) -> Any:
        """The body, of the right size and type, in time."""
        headers = dict(scope["headers"])
        kind = headers.get(b"content-type", b"application/json").split(b";")[0].strip().lower()
        try:
            raw = await asyncio.wait_for(read_bytes(receive, settings.max_body_bytes), settings.request_seconds)
        except (asyncio.TimeoutError, TimeoutError):
            message = f"a request must be complete within {settings.request_seconds:g} s"
            raise Refusal(408, message) from None
        if kind != JSON.encode():
            raise Refusal(415, "the Content-Type must be application/json")
        try:
            return msgspec.json.decode(raw, type=self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refusal_of(error) from None


async def read_bytes(receive: Callable, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        part = message.get("body", b"")
        size += len(part)
        if size <= limit:
            parts.append(part)
        if not message.get("more_body") or size > MAX_DISCARDED * limit:
            break
    if size > limit:
        raise Refusal(413, f"a body has at most {limit:,} bytes")
    return b"".join(parts)


class Disconnected(GlassformerError):
    """The client has left."""


async def finished_before_disconnect(work: asyncio.Future, receive: Callable) -> bool:
    """Wait for some work; False, and the work cancelled, if the client leaves first."""
    leaving = asyncio.ensure_future(disconnect(receive))
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not work.done():
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await work
    return not work.cancelled()


async def disconnect(receive: Callable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def respond(
    send: Callable, status: int, content: bytes, kind: str = JSON, headers: dict[str, str] | None = None
) -> None:
    fields = {"content-type": kind, "content-length": str(len(content)), **(headers or {})}
    raw = [(name.lower().encode(), value.encode()) for name, value in fields.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


async def refuse(send: Callable, refusal: Refusal, record: RequestRecord, openai: bool) -> None:
    record.error = str(refusal)
    if record.status:  # the response has begun
        return
    if refusal.status == DISCONNECTED:
        record.status = DISCONNECTED
        return
    await respond(send, refusal.status, refusal.body(openai), JSON, refusal.headers)


async def send_events(
    events: AsyncIterator[bytes], record: RequestRecord, receive: Callable, send: Callable, openai: bool
) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})

    async def send_all() -> None:
        try:
            async for event in events:
                await send({"type": "http.response.body", "body": b"data: " + event + b"\n\n", "more_body": True})
        except Exception as error:
            refusal = as_refusal(error, record)
            record.error = str(refusal)
            await send(
                {"type": "http.response.body", "body": b"data: " + refusal.body(openai) + b"\n\n", "more_body": True}
            )
        finally:
            await events.aclose()  # type: ignore[attr-defined]
        await send({"type": "http.response.body", "body": b""})

    sending = asyncio.ensure_future(send_all())
    if not await finished_before_disconnect(sending, receive):
        record.status = DISCONNECTED
    else:
        sending.result()


def as_refusal(error: Exception, record: RequestRecord) -> Refusal:
    """The refusal that an error becomes; a fault of ours is logged with its traceback."""
    if isinstance(error, Disconnected):
        return Refusal(DISCONNECTED, "the client has left")
    if isinstance(error, GlassformerError):
        return refusal_of(error)
    log.error("%s failed: %s: %s", record.path, type(error).__name__, error, exc_info=error)
    return Refusal(500, "internal error; see the terminal of the service for details")


def truncation_headers(record: RequestRecord) -> dict[str, str]:
    """Truncation is reported beside answers that have no place for it."""
    return {"x-truncated-inputs": ",".join(map(str, record.truncated[:100]))} if record.truncated else {}


def as_plain(value: Any) -> Any:
    """Tensors and arrays in answers as lists."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise NotImplementedError(f"no JSON for {type(value).__name__}")
