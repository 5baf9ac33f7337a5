"""report.html: the course of a run on one self-contained page, with curves as SVG."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...checkpoints.files import write_atomically
from ...tasks.task import Task
from ..result import TrainResult
from ..train_settings import TrainSettings
from .run_log import LOG, duration, format_value, read_log

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 220, 64, 28, 12
TIMES = ("step", "epoch")
SHADES = (  # blue, red, green, violet, ochre and grey, for light and dark pages
    ("#2563a8", "#b8491d", "#2c8048", "#8044a0", "#94700a", "#5c636b"),
    ("#7db4ee", "#f0926a", "#7fcf9a", "#c99be6", "#dcbb58", "#a8afb8"),
)

Point = tuple[int, float]  # step, value

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 48rem; padding: 0 1rem;
  color: #222; background: #fff; }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1rem; margin: 1.5rem 0 0.2rem; }}
table {{ border-collapse: collapse; }} td, th {{ padding: 0.15rem 0.9rem 0.15rem 0; text-align: right; }}
th {{ border-bottom: 1px solid #bbb; }} .names td {{ text-align: left; }}
svg {{ width: 100%; height: auto; }} text {{ font-size: 11px; fill: #555; }}
polyline {{ fill: none; stroke: currentColor; stroke-width: 1.6; }} circle {{ fill: currentColor; }}
line {{ stroke: #ddd; }} .wide {{ overflow-x: auto; }} p span {{ white-space: nowrap; }}
{colours}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #181a1d; }} text {{ fill: #aaa; }}
  line {{ stroke: #333; }} {dark_colours} }}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def write_report(folder: Path, task: Task, settings: TrainSettings, result: TrainResult) -> Path:
    """Write report.html from the log of a run."""
    lines = read_log(folder / LOG) if (folder / LOG).exists() else []
    parts = [run_summary(task, result), *(chart(names, lines) for names in chart_names(lines)), evaluations(lines)]
    parts.append(f"<h2>settings</h2>\n{name_value_table(settings.to_dict())}")
    path = folder / "report.html"
    title = html.escape(f"Training in {folder.name}")
    write_atomically(path, page(title, [part for part in parts if part]))
    return path


def run_summary(task: Task, result: TrainResult) -> str:
    """A table of the model, the steps and the result."""
    model = f"{type(task.model).__name__}, {result.parameters:,} parameters"
    if result.trained_parameters < result.parameters:
        model += f", of which {result.trained_parameters:,} trained"
    ended = "" if result.stopped_by is None else f" ({result.stopped_by})"
    steps = f"{result.step:,} of {result.total_steps:,}{ended}, {result.tokens:,} tokens, {duration(result.seconds)}"
    summary = {"task": task.name, "model": model, "steps": steps}
    if result.best is not None:
        value = format_value(result.best["value"])
        summary["best"] = f"{result.best['name']} {value} at step {result.best['step']:,}"
    if result.metrics:
        summary["final model"] = ", ".join(f"{name} {format_value(value)}" for name, value in result.metrics.items())
    return name_value_table(summary)


def name_value_table(values: Mapping[str, Any]) -> str:
    """Names and values as a table."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>" for name, value in values.items()
    )
    return f'<div class="wide"><table class="names">{rows}</table></div>'


def table(header: Sequence[str], rows: Sequence[Sequence[str]], is_text: bool = False) -> str:
    """A table, flush right unless it holds texts."""
    head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    kind = ' class="names"' if is_text else ""
    return f'<div class="wide"><table{kind}><tr>{head}</tr>{body}</table></div>'


def chart_names(lines: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The curves of each chart, in order: losses of training and evaluation together, metrics, values of the steps."""
    names = curve_names(lines)
    losses = tuple(name for name in ("loss", "eval_loss") if name in names)
    others = sorted((name for name in names if name not in losses), key=lambda name: not name.startswith("eval_"))
    return [losses, *((name,) for name in others)] if losses else [(name,) for name in others]


def chart(names: Sequence[str], lines: Sequence[dict[str, Any]]) -> str:
    """Curves under a heading that is their legend."""
    series = [(colour, points_of(name, lines)) for colour, name in enumerate(names)]
    series = [(colour, points) for colour, points in series if points]
    if not series:
        return ""
    words = [html.escape(name.replace("_", " ")) for name in names]
    heading = words[0] if len(words) == 1 else " &nbsp; ".join(legend_entry(i, word) for i, word in enumerate(words))
    return f"<h2>{heading}</h2>\n{curves(', '.join(names), series)}"


def legend_entry(colour: int, name: str) -> str:
    """A name in the colour of its curve."""
    return f'<span class="c{colour % len(SHADES[0])}">■ {name}</span>'


def page(title: str, parts: Sequence[str]) -> str:
    """A self-contained page."""
    light, dark = (" ".join(f".c{i} {{ color: {each}; }}" for i, each in enumerate(shades)) for shades in SHADES)
    return PAGE.format(title=title, body="\n".join(parts), colours=light, dark_colours=dark)


def curve_names(lines: Sequence[dict[str, Any]]) -> list[str]:
    """The names of the values in a log that can be plotted."""
    return list(dict.fromkeys(name for line in lines for name in line if name not in (*TIMES, "eval_rows")))


def points_of(name: str, lines: Sequence[dict[str, Any]]) -> list[Point]:
    """The finite values of a curve, each with its step."""
    points = [(line["step"], line[name]) for line in lines if isinstance(line.get(name), int | float)]
    return [(step, value) for step, value in points if math.isfinite(value)]


def curves(name: str, series: Sequence[tuple[int, Sequence[Point]]], ticks: Mapping[int, str] | None = None) -> str:
    """Values over steps, or over named ticks: curves as SVG, each with the number of its colour."""
    everything = [point for _, points in series for point in points]
    first, last = min(step for step, _ in everything), max(step for step, _ in everything)
    low, high = min(value for _, value in everything), max(value for _, value in everything)

    def x_of(step: float) -> float:
        return LEFT + (step - first) / max(last - first, 1) * (WIDTH - LEFT - 10)

    def y_of(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    parts = []
    for value in dict.fromkeys((low, (low + high) / 2, high)):
        y = y_of(value)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{format_value(float(value))}</text>')
    for step, words in (ticks or {first: f"step {first:,}", last: f"step {last:,}"}).items():
        anchor = {first: "start", last: "end"}.get(step, "middle")
        parts.append(f'<text x="{x_of(step):.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{html.escape(words)}</text>')
    for colour, points in series:
        vertices = [(x_of(step), y_of(value)) for step, value in points]
        dots = vertices if len(vertices) <= 40 else []
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in vertices)
        parts.append(f'<g class="c{colour % len(SHADES[0])}"><polyline points="{line}"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in dots]
        parts.append("</g>")
    label = html.escape(name if ticks else f"{name} from step {first} to {last}", quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def evaluations(lines: Sequence[dict[str, Any]]) -> str:
    """All evaluations as a table."""
    evaluated = [line for line in lines if any(name.startswith("eval_") for name in line)]
    if not evaluated:
        return ""
    names = list(dict.fromkeys(name for line in evaluated for name in line))
    head = "".join(f"<th>{html.escape(name.removeprefix('eval_').replace('_', ' '))}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{format_value(line[name]) if name in line else ''}</td>" for name in names) + "</tr>"
        for line in evaluated
    )
    return f"<h2>evaluations</h2>\n<table><tr>{head}</tr>{body}</table>"
