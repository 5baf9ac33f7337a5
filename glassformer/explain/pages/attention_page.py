"""Attention in one file that opens in any browser: no network, and no token can ever run as code.

The page holds its numbers packed, its tokens as data, and one script and one style that its content policy allows by
their hashes. The script is the concatenation of the modules in `assets/`, which the explorer loads one by one.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...checkpoints.files import write_atomically
from ...errors import InputError
from .html_page import escape_text, html_page

ASSETS = Path(__file__).parent / "assets"
MODULES = """dom translations canvas svg_context head_view heat_map head_grid neuron_view download page_data
picture_view picture_page standalone_page""".split()  # in the order of their imports
MAX_FLOAT32_BYTES = 4_000_000  # above this, weights are quantised to 16 bits
VIEWS = ("head", "model", "neuron", "see", "picture")
LANGUAGES = ("en", "zh")

BODY = """<h1 dir="auto">{title}</h1>
<main id="page"><noscript>This page draws its pictures with a script.</noscript></main>
<script type="application/json" id="about">{about}</script>
<script type="text/plain" id="numbers">{numbers}</script>"""


@dataclass(frozen=True)
class Attention:
    """One kind of attention: from which tokens to which, in some heads of some layers."""

    left: Sequence[str]
    right: Sequence[str]
    heads: Mapping[tuple[int, int], Tensor]  # (layer, head) -> T S
    special_left: Sequence[bool] = ()
    special_right: Sequence[bool] = ()
    second: int | None = None  # where a second sentence starts

    def __post_init__(self) -> None:
        for (layer, head), weights in self.heads.items():
            if tuple(weights.shape) != (len(self.left), len(self.right)):
                raise InputError(
                    f"layer {layer} head {head}: the weights have the shape {list(weights.shape)}, "
                    f"and there are {len(self.left)} and {len(self.right)} tokens"
                )


@dataclass(frozen=True)
class Vectors:
    """Queries and keys of every head, for the neuron view."""

    heads: Mapping[tuple[int, int], tuple[Tensor, Tensor]]  # T D and S D
    biases: Mapping[tuple[int, int], Tensor]  # T S: added to the scores, if anything is
    scales: Mapping[int, float]  # of every layer
    causal: bool


@dataclass(frozen=True)
class Picture:
    """The picture whose patches are the tokens, behind [CLS]."""

    pixels: np.ndarray  # height width 3
    grid: tuple[int, int]
    answers: Sequence[Mapping[str, Any]] = ()  # labels with scores


@dataclass(frozen=True)
class Page:
    """A page as text; a notebook shows it in a frame of its own, isolated from the notebook."""

    html: str = field(repr=False)
    height: int = 640

    @property
    def data(self) -> str:
        return self.html

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts allow-downloads" title="attention" '
            f'style="width:100%;height:{self.height}px;border:0"></iframe>'
        )

    def save(self, path: str | Path) -> Path:
        """Write the page to a file."""
        path = Path(path)
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}")
        write_atomically(path, self.html.encode())
        return path


def make_page(
    view: str,
    attention: Mapping[str, Attention],
    *,
    title: str = "Attention",
    vectors: Mapping[str, Vectors] | None = None,
    kind: str | None = None,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    theme: str | None = None,
    language: str = "en",
    picture: Picture | None = None,
) -> Page:
    """A page of one of the `VIEWS`; `attention` and `vectors` are of "all", or of "encoder", "decoder" and "cross".

    It starts with the `kind`, the `layer` and the `heads`, or with the first ones.
    """
    about, numbers = pack_page(view, attention, vectors, kind, layer, heads, theme, language, picture)
    text = json.dumps(about).replace("<", "\\u003c")  # it cannot close its script element
    packed = base64.b64encode(zlib.compress(numbers, 6)).decode()
    title = escape_text(title)
    body = BODY.format(title=title, about=text, numbers=packed)
    html = html_page(title, stylesheet(), body, bundled_script(), is_module=True, language=escape(language))
    tokens = max(len(kind.left) for kind in attention.values())
    return Page(html, min(1400, 260 + 20 * tokens))


def pack_page(
    view: str,
    attention: Mapping[str, Attention],
    vectors: Mapping[str, Vectors] | None = None,
    kind: str | None = None,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    theme: str | None = None,
    language: str = "en",
    picture: Picture | None = None,
) -> tuple[dict[str, Any], bytes]:
    """What a page holds: a description, and the numbers that it names, with the bytes of a picture behind them."""
    if language not in LANGUAGES:
        raise InputError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")
    packer = Packer(
        sum(weights.numel() for kind in attention.values() for weights in kind.heads.values()), bool(vectors)
    )
    about: dict[str, Any] = {
        "view": view,
        "attention": {name: packer.add_attention(kind) for name, kind in attention.items()},
        "precision": packer.precision,
        "kind": initial_kind(attention, kind, layer, heads),
        "layer": layer,
        "heads": None if heads is None else list(heads),
        "theme": theme,
        "language": language,
    }
    if vectors:
        about["vectors"] = {name: packer.add_vectors(kind) for name, kind in vectors.items()}
    numbers = b"".join(packer.parts)
    if picture is not None:
        height, width = picture.pixels.shape[:2]
        (rows, columns), answers = picture.grid, [dict(each) for each in picture.answers]
        about["picture"] = {"first": len(numbers), "width": width, "height": height, "answers": answers}
        about["picture"] |= {"rows": rows, "columns": columns}
        numbers += np.ascontiguousarray(picture.pixels, dtype=np.uint8).tobytes()
    return about, numbers


def initial_kind(
    attention: Mapping[str, Attention], kind: str | None, layer: int | None, heads: Sequence[int] | None
) -> str:
    """The kind that a page starts with: the first that has the layer. An unknown layer or head raises."""
    layers: dict[str, dict[int, list[int]]] = {}
    for name in attention if kind is None else [kind]:
        there = layers.setdefault(name, {})
        for number, head in attention[name].heads:
            there.setdefault(number, []).append(head)
    found = next((name for name, there in layers.items() if layer is None or layer in there), None)
    if found is None:
        raise InputError(f"there are the layers {sorted({n for there in layers.values() for n in there})}, got {layer}")
    first = next(iter(layers[found])) if layer is None else layer
    for head in heads or ():
        if head not in layers[found][first]:
            raise InputError(f"layer {first} has the heads {layers[found][first]}, got {head}")
    return found


class Packer:
    """Concatenates numbers and records where they start."""

    def __init__(self, weights: int, has_vectors: bool) -> None:
        self.precision = "float32" if has_vectors or 4 * weights <= MAX_FLOAT32_BYTES else "uint16"
        self.parts: list[bytes] = []
        self.count = 0

    def add(self, values: Tensor) -> None:
        values = values.detach().float().cpu().contiguous()
        if self.precision == "uint16":
            values = (values * 65535).round().to(torch.int32).clamp(0, 65535).to(torch.uint16)
        self.parts.append(values.numpy().tobytes())
        self.count += values.numel()

    def add_attention(self, kind: Attention) -> dict[str, Any]:
        first = self.count
        for weights in kind.heads.values():
            self.add(weights)
        return {
            "left": list(kind.left),
            "right": list(kind.right),
            "special": {
                "left": list(kind.special_left) or [False] * len(kind.left),
                "right": list(kind.special_right) or [False] * len(kind.right),
            },
            "second": kind.second,
            "rows": len(kind.left),
            "columns": len(kind.right),
            "first": first,
            "places": {f"{layer}.{head}": place for place, (layer, head) in enumerate(kind.heads)},
        }

    def add_vectors(self, vectors: Vectors) -> dict[str, Any]:
        first = self.count
        for place, (queries, keys) in vectors.heads.items():
            self.add(queries)
            self.add(keys)
            if vectors.biases:
                self.add(vectors.biases[place])
        queries, keys = next(iter(vectors.heads.values()))
        return {
            "first": first,
            "rows": len(queries),
            "columns": len(keys),
            "size": queries.shape[-1],
            "biased": bool(vectors.biases),
            "scale": {str(layer): scale for layer, scale in vectors.scales.items()},
            "causal": vectors.causal,
            "places": {f"{layer}.{head}": place for place, (layer, head) in enumerate(vectors.heads)},
        }


@cache
def bundled_script() -> str:
    """The modules as one script, without imports and exports."""
    modules = "\n".join((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in MODULES)
    modules = re.sub(r'^import [^;]* from "\./\w+\.js";\n', "", modules, flags=re.MULTILINE)
    return re.sub(r"^export ", "", modules, flags=re.MULTILINE)


@cache
def stylesheet() -> str:
    return (ASSETS / "style.css").read_text(encoding="utf-8")
