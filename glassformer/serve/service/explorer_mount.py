"""The explorer inside of the service, at /explore/."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Route

from ..local_server import HEADERS, MAX_REQUEST_BYTES, Response, json_response
from ..picture_explorer import MAX_PICTURE_BYTES, PictureExplorer, open_explorer
from .endpoint import as_refusal, read_bytes, refuse, respond
from .refusal import Refusal, refusal_of

PATH = "/explore"


class ExplorerRoute:
    """The page, its modules, and the endpoints that it calls, one at a time."""

    def __init__(self, model: str) -> None:
        explorer = open_explorer([model], "")
        self.most = MAX_PICTURE_BYTES if isinstance(explorer, PictureExplorer) else MAX_REQUEST_BYTES
        self.files, self.endpoints = explorer.files(), explorer.endpoints()
        self.turn = threading.Lock()

    async def __call__(self, scope: dict[str, Any], receive: Callable, send: Callable) -> None:
        record = scope["record"]
        record.route = PATH
        try:
            response = await self.answer(scope["method"], scope["path"].removeprefix(PATH), scope, receive)
        except Exception as error:
            await refuse(send, as_refusal(error, record), record, openai=False)
            return
        await respond(send, 200, response.body, response.type, HEADERS)

    async def answer(self, method: str, path: str, scope: dict[str, Any], receive: Callable) -> Response:
        if method == "GET":
            file = self.files.get("/index.html" if path == "/" else path)
            if file is None:
                raise Refusal(404, "there is no such page")
            return file
        if path not in self.endpoints:
            raise Refusal(404, "there is no such endpoint")
        if dict(scope["headers"]).get(b"content-type", b"").split(b";")[0] != b"application/json":
            raise Refusal(415, "the Content-Type must be application/json")
        settings = scope["app"].state.service.settings
        raw = await asyncio.wait_for(read_bytes(receive, self.most), settings.request_seconds)
        try:
            request = msgspec.json.decode(raw, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise refusal_of(error) from None
        return await asyncio.to_thread(self.call, path, request)

    def call(self, path: str, request: dict[str, Any]) -> Response:
        with self.turn:
            result = self.endpoints[path](request)
        return result if isinstance(result, Response) else json_response(result)


async def to_page(request: Any) -> RedirectResponse:
    return RedirectResponse(PATH + "/")


def explorer_routes(model: str) -> list[BaseRoute]:
    explorer = ExplorerRoute(model)
    return [Route(PATH, to_page), Route(PATH + "/{path:path}", explorer, methods=["GET", "POST"])]
