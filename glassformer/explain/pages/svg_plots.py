"""Tables of numbers as drawings in a page: no script, no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .html_page import escape_text, html_page

CELL, LEFT, TOP = 34, 60, 30
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #ffffff; --fill: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --fill: #6ea8e8; } }
body { margin: 1.5rem auto; max-width: 80rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
main { display: flex; flex-wrap: wrap; gap: 0 3rem; } figure { margin: 1rem 0; overflow-x: auto; }
figcaption { font-weight: 600; } p { color: var(--soft); }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; } svg rect { fill: var(--fill); }
svg .value { font-size: 10px; }
"""


@dataclass(frozen=True)
class Figure:
    """A table of numbers with names; one that is None stays empty."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float | None]]

    def svg(self) -> str:
        known = [value for row in self.values for value in row if value is not None]
        low, high = min([0.0, *known]), max(known, default=1.0)
        parts = []
        for i, name in enumerate(self.rows):
            y = TOP + i * CELL
            parts.append(f'<text x="{LEFT - 8}" y="{y + CELL / 2 + 4}" text-anchor="end">{escape(name)}</text>')
            for j, value in enumerate(self.values[i]):
                if value is None:
                    continue
                x, strength = LEFT + j * CELL, (value - low) / ((high - low) or 1.0)
                size, middle = f'width="{CELL - 1}" height="{CELL - 1}"', f'x="{x + CELL / 2}" y="{y + CELL / 2 + 3}"'
                parts.append(f'<rect x="{x}" y="{y}" {size} fill-opacity="{0.75 * strength:.3f}"/>')
                parts.append(f'<text class="value" {middle} text-anchor="middle">{value:.2f}</text>')
        for j, name in enumerate(self.columns):
            parts.append(
                f'<text x="{LEFT + (j + 0.5) * CELL}" y="{TOP - 8}" text-anchor="middle">{escape(name)}</text>'
            )
        width, height = LEFT + len(self.columns) * CELL + 8, TOP + len(self.rows) * CELL + 8
        label = escape(f"{self.title}: from {low:.3f} to {high:.3f}")
        return (
            f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
            f"{''.join(parts)}</svg>"
        )


def plot_page(title: str, note: str, figures: Sequence[Figure]) -> str:
    """One page with all figures."""
    elements = "\n".join(
        f"<figure><figcaption>{escape_text(figure.title)}</figcaption>{figure.svg()}</figure>" for figure in figures
    )
    title = escape_text(title)
    body = f"<h1>{title}</h1>\n<p>{escape_text(note)}</p>\n<main>\n{elements}\n</main>"
    return html_page(title, STYLE, body)
