"""The attention of a translator as one page: no network, no script, and no text that could run as code."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from ...checkpoints.files import write_atomically
from ..analysis.alignment import KINDS, Alignment
from .html_page import escape_text, html_page
from .png_image import grey_png

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #fff; --card: #f5f6f8; --bar: 47 111 181; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --card: #1f2226; --bar: 110 168 232; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 75rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p, summary, figcaption { color: var(--soft); }
section { background: var(--card); border-radius: .5rem; padding: 1rem 1.25rem; margin: 1.25rem 0; }
.wide { overflow-x: auto; } table { border-collapse: separate; border-spacing: 2px; }
th { font-weight: 400; font-size: .85rem; white-space: pre; }
thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: .3rem 0; }
thead th.upright { writing-mode: horizontal-tb; transform: none; vertical-align: bottom; text-align: center; }
tbody th { text-align: right; padding-right: .5rem; }
td { width: 1.5rem; min-width: 1.5rem; height: 1.5rem; border-radius: 3px; text-align: center; font-size: .65rem; }
.layer { display: flex; gap: 1rem; overflow-x: auto; padding: .5rem 0; }
figure { margin: 0; } figcaption { font-size: .75rem; text-align: right; }
svg { fill: var(--ink); font-size: 10px; } svg image { image-rendering: pixelated; }
details { margin-top: .75rem; } summary { cursor: pointer; }
"""
SHADES = 21
CELL, FONT, MAX_LABEL = 14, 10, 14  # of the pictures of heads: pixels of a cell and a character, characters of a label


def shades() -> str:
    """A class for each shade of a weight: a style in each cell would need a looser content policy."""
    return "".join(f".w{i} {{ background: rgb(var(--bar) / {i / (SHADES - 1):.2f}); }}\n" for i in range(SHADES))


def alignment_page(alignments: Iterable[Alignment], title: str = "Where the translator looks", note: str = "") -> str:
    """One page without network or script."""
    parts = [
        f"<h1>{escape_text(title)}</h1>",
        f"<p>{escape_text(note)}</p>" if note else "",
        "<p>Each row is a word that was written; the deeper the colour, the more it attended to that word of the "
        "source (last layer, mean of its heads). Below each table are all layers and heads.</p>",
        *(alignment_section(alignment, number) for number, alignment in enumerate(alignments)),
    ]
    body = "\n".join(part for part in parts if part)
    return html_page(escape_text(title), STYLE + shades(), body, images="data:")


def write_alignments(alignments: Iterable[Alignment], path: str | PathLike[str], **words: str) -> Path:
    """The page as a file."""
    write_atomically(Path(path), alignment_page(alignments, **words))
    return Path(path)


def alignment_section(alignment: Alignment, number: int) -> str:
    """One text: the mean of the last layer as a table, and below it every head."""
    rows, columns = alignment.labels("cross")
    head = "".join(f"<th{' class=upright' if is_square(token) else ''}>{escape_text(token)}</th>" for token in columns)
    body = "".join(
        f"<tr><th>{escape_text(token)}</th>{''.join(map(cell, weights))}</tr>"
        for token, weights in zip(rows, alignment.mean.tolist(), strict=True)
    )
    views = "".join(
        f"<details><summary>{words}</summary>{heads_of(alignment, kind, f'words-{number}-{kind}')}</details>"
        for kind, words in KINDS.items()
        if len(alignment.weights(kind))
    )
    title = f"{escape_text(alignment.text)} &rarr; {escape_text(alignment.written)}"
    table = f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<section><h2>{title}</h2><div class="wide">{table}</div>{views}</section>'


def is_square(token: str) -> bool:
    """Whether a token is written in characters as wide as high, which are read upright.

    >>> is_square("汤姆"), is_square(" läuft")
    (True, False)
    """
    return any(unicodedata.east_asian_width(letter) in "WF" for letter in token)


def cell(weight: float) -> str:
    shade = round(max(0.0, min(1.0, weight)) * (SHADES - 1))
    return f'<td class="w{shade}" title="{weight:.3f}"></td>'


def heads_of(alignment: Alignment, kind: str, name: str) -> str:
    """Every head of one kind of attention, a line for each layer; their labels are written once and reused."""
    weights, (rows, columns) = alignment.weights(kind), alignment.labels(kind)
    left, top = (max(map(width_of, words)) + 4 for words in (rows, columns))
    width, height = left + CELL * len(columns), top + CELL * len(rows)
    words = f'<g id="{name}">{labels(rows, columns, left, top)}</g>'
    lines = []
    for layer, heads in enumerate(weights):
        figures = []
        for head, head_weights in enumerate(heads):
            label, data = f"layer {layer}, head {head}", base64.b64encode(grey_png(head_weights)).decode()
            figures.append(
                f'<figure><svg width="{width}" height="{height}" role="img" aria-label="{label}">{words}'
                f'<image x="{left}" y="{top}" width="{width - left}" height="{height - top}" '
                f'preserveAspectRatio="none" href="data:image/png;base64,{data}"/></svg>'
                f"<figcaption>{label}</figcaption></figure>"
            )
            words = f'<use href="#{name}"/>'
        lines.append(f'<div class="layer">{"".join(figures)}</div>')
    return "".join(lines)


def labels(rows: Sequence[str], columns: Sequence[str], left: int, top: int) -> str:
    """The words beside a picture and, from below upwards unless their characters are square, those above it."""
    elements = [
        f'<text x="{left - 4}" y="{top + CELL * i + CELL - 4}" text-anchor="end">{escape_text(truncate(token))}</text>'
        for i, token in enumerate(rows)
    ]
    for i, token in enumerate(columns):
        x, y = left + CELL * i, top - 4
        if is_square(token) and len(token) == 1:
            place = f'x="{x + CELL / 2}" y="{y}" text-anchor="middle"'
        else:
            place = f'transform="translate({x + CELL - 4} {y}) rotate(-90)"'
        elements.append(f"<text {place}>{escape_text(truncate(token))}</text>")
    return "".join(elements)


def truncate(token: str) -> str:
    """A token that fits beside a small picture."""
    return token if len(token) <= MAX_LABEL else token[: MAX_LABEL - 1] + "…"


def width_of(token: str) -> int:
    """The approximate width of a token in pixels."""
    return sum(FONT if unicodedata.east_asian_width(letter) in "WF" else FONT * 2 // 3 for letter in truncate(token))
