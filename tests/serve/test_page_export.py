"""Files that the explorer's page saves: PNG, SVG, HTML and JSON."""

from __future__ import annotations

import base64
import json
import struct
from xml.etree import ElementTree

import pytest

from .conftest import TEXT
from .explorer_page import VIEWS, saved, show


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_saved_as_svg_and_png(page, view):
    show(page, view)
    drawing = saved(page, "SVG").decode()
    texts = [
        "".join(node.itertext()) for node in ElementTree.fromstring(drawing).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "<script" not in drawing
    wanted = {"generate": "This model does not write.", "anatomy": "embeddings", "predict": "probability"}
    wanted |= {"relations": "How often a head"}
    wanted |= {"heads": "Layer 0 Head 0", "compare": "probability"}  # their tokens are dots of a canvas
    assert any(text.startswith(wanted.get(view, "cat")) for text in texts), texts
    picture = saved(page, "PNG")
    assert picture.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", picture[16:24])
    assert (width > 300, height > 50) == (True, True)
    colours = page.evaluate(
        """async (bytes) => {
            const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0))]));
            const pen = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
            pen.drawImage(picture, 0, 0);
            return new Set(new Uint32Array(pen.getImageData(0, 0, picture.width, picture.height).data.buffer)).size;
        }""",
        base64.b64encode(picture).decode(),
    )
    assert colours > 5  # it is not blank


def test_the_standalone_page_is_saved(page):
    show(page, "arcs")
    assert b"Content-Security-Policy" in saved(page, "HTML")


def test_the_numbers_of_a_view_are_saved_as_json(page):
    for view, has in (
        ("predict", "probability"),
        ("lens", "probability"),
        ("whatif", "moved"),
        ("attribute", "scores"),
    ):
        show(page, view)
        found = json.loads(saved(page, "JSON"))
        assert (found["view"], found["text"]) == (view, TEXT)
        assert f'"{has}": ' in json.dumps(found["found"])


def test_a_heat_map_is_saved_cell_by_cell(page):
    show(page, "heat")
    drawing = saved(page, "SVG")
    assert drawing.count(b"<rect") > 100
    assert (b"rotate(-90)" in drawing, b"rotate(-60)" in drawing) == (True, False)  # no name crosses upright ones
    values = json.loads(saved(page, "JSON"))["found"]["weights"]
    assert sum(values) == pytest.approx(len(values) ** 0.5, abs=1e-4)  # every row sums to 1
