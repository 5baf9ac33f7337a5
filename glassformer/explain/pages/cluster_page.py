"""Clusters of texts as a picture: a page that needs nothing else, or .png and .svg by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path

from ...checkpoints.files import write_atomically
from ...tasks.sentences.cluster_summary import ClusterSummary, principal_plane
from ...tasks.sentences.clustering import Clustering
from .html_page import html_page, printable
from .image_files import checked_path, escape_mathtext, pyplot, save

SUFFIXES = (".html", ".png", ".svg")  # the first needs no matplotlib
COLOURS = ("#2563a8", "#b8491d", "#2c8048", "#8044a0", "#94700a", "#5c636b", "#0f8b8d", "#c2185b", "#6d4c41", "#7cb342")
WIDTH, HEIGHT, MARGIN = 760, 520, 16
SHOWN = 120  # characters of a text
STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #ffffff; --line: #d5d9de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --line: #33383e; } }
body { margin: 1.5rem auto; max-width: 60rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
p { color: var(--soft); } svg { width: 100%; height: auto; border: 1px solid var(--line); border-radius: .35rem; }
h2 { font-size: 1rem; margin: 1.2rem 0 .2rem; } ul { margin: .2rem 0; } circle { fill-opacity: .75; }
"""
STYLE += "".join(f".c{i} {{ fill: {colour}; color: {colour}; }}\n" for i, colour in enumerate(COLOURS))


def draw_clusters(
    clustering: Clustering,
    summaries: Sequence[ClusterSummary],
    texts: Sequence[str],
    vectors: object,
    path: str | PathLike[str],
) -> Path:
    """Write all texts as points in the plane of their two largest variances; the suffix, .html, .png or .svg, decides.

    A page names the text of a point under the pointer.
    """
    path = checked_path(path, SUFFIXES)
    places, shares = principal_plane(vectors)
    title = f"{len(texts):,} texts in {len(summaries)} clusters"
    note = f"The two directions in which the vectors vary most (PCA) hold {100 * sum(shares):.0f} % of their variance."
    if path.suffix == ".html":
        labels = clustering.labels.tolist()
        body = [f"<h1>{title}</h1>", f"<p>{note}</p>", scatter(places.tolist(), labels, texts)]
        body += [about_cluster(summary, texts) for summary in summaries]
        write_atomically(path, html_page(title, STYLE, "\n".join(body)))
        return path
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(8, 6))
    for summary in summaries:
        mine = places[clustering.labels == summary.cluster]
        name = escape_mathtext(f"{summary.cluster}: {', '.join(summary.words[:3])}")
        axes.scatter(mine[:, 0], mine[:, 1], s=14, alpha=0.75, color=colour_of(summary.cluster), label=name)
    axes.set_title(title)
    axes.set_xlabel(note, fontsize=9)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.legend(fontsize=8)
    return save(plt, figure, path)


def colour_of(cluster: int) -> str:
    return COLOURS[cluster % len(COLOURS)]


def scatter(places: Sequence[Sequence[float]], labels: Sequence[int], texts: Sequence[str]) -> str:
    """Points with their texts as tooltips."""
    low, high = ([pick(values) for values in zip(*places, strict=True)] for pick in (min, max))
    sides = [WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN]
    scale = min(side / ((b - a) or 1.0) for side, a, b in zip(sides, low, high, strict=True))
    points = []
    for (x, y), label, text in zip(places, labels, texts, strict=True):
        across, down = MARGIN + (x - low[0]) * scale, HEIGHT - MARGIN - (y - low[1]) * scale
        words = escape(printable(f"{label}: {short(text)}"))
        at = f'cx="{across:.1f}" cy="{down:.1f}"'
        points.append(f'<circle class="c{label % len(COLOURS)}" {at} r="4"><title>{words}</title></circle>')
    label = f"{len(places)} texts as points, in the colours of their clusters"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(points)}</svg>'


def about_cluster(summary: ClusterSummary, texts: Sequence[str]) -> str:
    words = escape(printable(", ".join(summary.words)))
    listed = "".join(f"<li>{escape(printable(short(texts[place])))}</li>" for place in summary.typical)
    colour = f'<span class="c{summary.cluster % len(COLOURS)}">●</span>'
    return f"<h2>{colour} {summary.cluster}: {summary.size:,} texts; {words}</h2>\n<ul>{listed}</ul>"


def short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
