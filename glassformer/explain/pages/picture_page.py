"""Attention drawn over a picture, in one file that opens in any browser."""

from __future__ import annotations

from typing import Any

from ..picture_reading import PictureReading
from .attention_page import Attention, Page, Picture, make_page, pack_page

HEIGHT = 900  # of the frame in a notebook


def parts_of(reading: PictureReading) -> tuple[dict[str, Attention], Picture]:
    """The weights of all heads, rollout up to each layer, and the picture."""
    tokens = reading.tokens
    flows = {(layer, 0): flow for layer, flow in enumerate(reading.rollout)}
    kinds = {"all": Attention(tokens, tokens, reading.weights), "rollout": Attention(tokens, tokens, flows)}
    return kinds, Picture(reading.picture, reading.grid, reading.answers)


def picture_page(
    reading: PictureReading, *, layer: int | None = None, head: int | None = None, language: str = "en"
) -> Page:
    """The page of one picture; it starts with the last layer, or with `layer` and `head`."""
    kinds, picture = parts_of(reading)
    heads = None if head is None else [head]
    layer = len(reading.rollout) - 1 if layer is None and heads is None else layer
    title = f"Attention: {reading.model}"
    page = make_page("picture", kinds, title=title, picture=picture, layer=layer, heads=heads, language=language)
    return Page(page.html, HEIGHT)


def picture_data(reading: PictureReading, language: str = "en") -> tuple[dict[str, Any], bytes]:
    """What the page holds: a description, and the numbers that it names."""
    kinds, picture = parts_of(reading)
    return pack_page("picture", kinds, picture=picture, layer=len(reading.rollout) - 1, language=language)
