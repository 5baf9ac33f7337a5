"""The service as an ASGI application: routing, authorisation, and what is reported of every request."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from .api_docs import DOCS
from .completions import COMPLETIONS
from .embedding_routes import EMBEDDINGS
from .endpoint import Endpoint, Reply, refuse
from .metrics import Metrics, RequestRecord
from .openai_routes import OPENAI
from .refusal import Refusal
from .served_model import ServedModel
from .settings import ServiceSettings
from .task_routes import TASK_ROUTES

log = logging.getLogger("glassformer")

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


async def health(service: Service, body: None, record: RequestRecord) -> dict[str, str]:
    return {"status": "ok"}


async def metrics(service: Service, body: None, record: RequestRecord) -> Reply:
    return Reply(service.metrics.exposition(), "text/plain; version=0.0.4; charset=utf-8")


STATUS = [
    Endpoint("GET", "/health", "Whether the service answers", health, is_open=True),
    Endpoint("GET", "/metrics", "Figures in the text format of Prometheus", metrics),
]
ENDPOINTS: list[Endpoint] = [*TASK_ROUTES, *EMBEDDINGS, *OPENAI, *COMPLETIONS, *STATUS, *DOCS]


class Service:
    """Models by name behind HTTP. The first model answers requests that name none."""

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        settings: ServiceSettings,
        metrics: Metrics,
        *,
        only_local: bool = True,
        extra_routes: Sequence[BaseRoute] = (),
    ) -> None:
        self.models, self.settings, self.metrics = dict(models), settings, metrics
        self.only_local = only_local
        self.endpoints = ENDPOINTS
        self.drained = True
        routes: list[BaseRoute] = [Route(each.path, each, methods=[each.method]) for each in ENDPOINTS]
        self.router = Starlette(routes=[*routes, *extra_routes], lifespan=self.lifespan)
        self.router.add_exception_handler(HTTPException, not_found)
        self.router.state.service = self

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The workers run while the service does. None may still compute when the interpreter ends."""
        workers = [worker for model in self.models.values() for worker in model.workers]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            ended = [await asyncio.to_thread(worker.stop, self.settings.drain_seconds) for worker in workers]
            self.drained = all(ended)

    def model(self, name: str | None, suits: Callable[[ServedModel], bool] = lambda model: True) -> ServedModel:
        """The named model, or the first one that suits a route."""
        if name is not None:
            if name not in self.models:
                known = ", ".join(self.models)
                raise Refusal(404, f"there is no model {name[:100]!r}; there are {known}", "model")
            if not suits(self.models[name]):
                raise Refusal(422, f"the model {name!r} does {self.models[name].task.name}, not this", "model")
            return self.models[name]
        found = next((model for model in self.models.values() if suits(model)), None)
        if found is None:
            served = ", ".join(f"{model.name} ({model.task.name})" for model in self.models.values())
            raise Refusal(404, f"no model here does this; there are {served}")
        return found

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.router(scope, receive, send)
            return
        record = scope["record"] = RequestRecord(scope["method"], scope["path"])

        async def send_recorded(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
            await send(message)

        try:
            self.check_access(scope)
            await self.router(scope, receive, send_recorded)
        except Refusal as error:
            await refuse(send_recorded, error, record, scope["path"].startswith("/v1/"))
        finally:
            self.metrics.request(record)

    def check_access(self, scope: dict[str, Any]) -> None:
        """Refuse pages of other sites, names that only resolve to this machine, and requests without the key."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if self.only_local and host.rpartition(":")[0 if ":" in host else 2] not in LOOPBACK:
            raise Refusal(403, "this service answers to its own address only")
        if origin is not None and origin.partition("://")[2] != host:
            raise Refusal(403, "this service does not answer pages of other sites")
        is_open = any(each.is_open and each.path == scope["path"] for each in self.endpoints)
        if self.settings.api_key and not is_open:
            scheme, _, key = headers.get(b"authorization", "").partition(" ")
            given, expected = key.strip().encode("latin-1"), self.settings.api_key.encode()
            if scheme.lower() != "bearer" or not hmac.compare_digest(given, expected):
                raise Refusal(401, "this service needs its key: Authorization: Bearer KEY")


async def not_found(request: Any, error: Exception) -> Any:
    """404 and 405 as JSON."""
    from starlette.responses import Response

    assert isinstance(error, HTTPException)
    message = {404: "there is no such path; /docs lists all", 405: "this path takes another method"}
    refusal = Refusal(error.status_code, message.get(error.status_code, str(error.detail)))
    request.scope["record"].error = str(refusal)
    body = refusal.body(request.url.path.startswith("/v1/"))
    return Response(body, error.status_code, {**(error.headers or {})}, "application/json")
