"""An evaluation as a page: metrics, figures of each class, a confusion matrix, and the rows with the highest loss."""

from __future__ import annotations

import html

from ...tasks.breakdown import Breakdown, ClassScores, Confusion
from ..evaluation_report import EvaluationReport, WorstRow
from .run_log import format_value
from .run_report import name_value_table, page, table

FIGURES = ("class", "precision", "recall", "f1", "support")


def evaluation_page(report: EvaluationReport, model: str, data: str) -> str:
    """The page about a report; `model` and `data` say what was evaluated on what."""
    about = {"task": report.task, "model": model, "data": data}
    if report.truncated:
        about["truncated"] = f"{report.truncated:,} rows were cut to fit the model"
    parts = [name_value_table({**about, **{name: figure(value) for name, value in report.metrics.items()}})]
    if report.breakdown is not None:
        parts += class_parts(report.breakdown)
    if report.worst:
        header = ("row", "place", "loss", "right", "predicted", "text")
        rows = table(header, [worst_cells(row) for row in report.worst], is_text=True)
        parts.append(f"<h2>rows with the highest loss</h2>\n{rows}")
    return page(html.escape(f"Evaluation of {model}"), parts)


def figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else format_value(float(value))


def class_parts(breakdown: Breakdown) -> list[str]:
    parts = [f"<p>{html.escape(breakdown.note)}</p>"]
    if breakdown.classes:
        rows = [class_cells(each) for each in (*breakdown.classes, *breakdown.means)]
        parts.append(f"<h2>classes</h2>\n{table(FIGURES, rows)}")
    if breakdown.confusion is not None:
        unit = html.escape(breakdown.confusion.unit)
        parts.append(f"<h2>confusion of {unit}: right classes below each other, predicted ones side by side</h2>")
        parts.append(confusion_table(breakdown.confusion))
    return parts


def class_cells(scores: ClassScores) -> tuple[str, ...]:
    return (
        scores.name,
        *(f"{value:.4f}" for value in (scores.precision, scores.recall, scores.f1)),
        f"{scores.support:,}",
    )


def confusion_table(confusion: Confusion) -> str:
    """Counts on a background that is the darker the larger their share of the row."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in confusion.names)
    rows = []
    for name, counts in zip(confusion.names, confusion.counts, strict=True):
        total = sum(counts) or 1
        shades = (f"background: rgb(37 99 168 / {0.6 * count / total:.3f})" for count in counts)
        cells = (f'<td style="{shade}">{count:,}</td>' for shade, count in zip(shades, counts, strict=True))
        rows.append(f"<tr><th>{html.escape(name)}</th>{''.join(cells)}</tr>")
    return f'<div class="wide"><table><tr><th></th>{head}</tr>{"".join(rows)}</table></div>'


def worst_cells(row: WorstRow) -> tuple[str, ...]:
    return (str(row.row), row.place, f"{row.loss:.4f}", row.expected, row.predicted, row.text)
