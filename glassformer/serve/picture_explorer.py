"""The explorer of models that see pictures: the endpoints of its page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..explain.pages.attention_page import ASSETS
from ..explain.pages.picture_page import picture_data, picture_page
from ..explain.picture_reading import PictureReading, load_image_task, read_attention, reads_pictures
from ..explain.subject import Subject
from ..tasks.images.image_task import ImageTask
from . import requests as fields
from .explorer import PAGE, Explorer
from .local_server import LocalServer, Response, files_of

MAX_PICTURE_BYTES = 32_000_000  # of a request with a picture, which is a third longer than its file

Request = Mapping[str, Any]


class PictureExplorer:
    """A model, and the picture that it has seen last."""

    def __init__(self, task: ImageTask, picture: str = "") -> None:
        self.task = task
        self.reading: PictureReading | None = read_attention(task, picture) if picture else None

    def endpoints(self) -> dict[str, Any]:
        """What the page requests, by path. They are called one at a time."""
        return {f"/api/{name}": getattr(self, name) for name in ("model", "picture", "page")}

    @staticmethod
    def files() -> dict[str, Response]:
        """The page and its modules, by path."""
        files = files_of(ASSETS, PAGE)
        return {**files, "/index.html": files["/pictures.html"]}

    def serve(self, port: int = 0) -> LocalServer:
        server = LocalServer(self.files(), self.endpoints(), port)
        server.max_request_bytes = MAX_PICTURE_BYTES
        return server

    def model(self, request: Request) -> dict[str, Any]:
        model = self.task.model
        return {
            "name": Path(model.config.name_or_path).name or type(model).__name__,
            "class": type(model).__name__,
            "parameters": model.num_parameters(),
            "has_picture": self.reading is not None,
        }

    def picture(self, request: Request) -> dict[str, Any]:
        """What the page of a picture holds: that of the request, else the one seen last."""
        if request.get("picture") is not None:
            self.reading = read_attention(self.task, decode(request["picture"]))
        about, numbers = picture_data(self.seen(), fields.text(request, "language", "en"))
        return {"about": about, "numbers": base64.b64encode(numbers).decode()}

    def page(self, request: Request) -> Response:
        """The standalone page, for a file."""
        page = picture_page(self.seen(), language=fields.text(request, "language", "en"))
        return Response(page.html.encode())

    def seen(self) -> PictureReading:
        if self.reading is None:
            raise InputError("no picture has been seen yet: send one")
        return self.reading


def decode(text: Any) -> bytes:
    """The file of a picture in a request."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError("picture must be the bytes of a file in base64") from None


def open_explorer(names: list[str], given: str | None, pair: str = "", default: str = "") -> Explorer | PictureExplorer:
    """The explorer of one or two checkpoints; `given` is the first text, or the file of the first picture."""
    if not reads_pictures(names[0]):
        return Explorer([Subject.load(name) for name in names], default if given is None else given, pair)
    if len(names) > 1 or pair:
        raise InputError("models of pictures are explored one at a time, without a second text")
    return PictureExplorer(load_image_task(names[0]), given or "")
