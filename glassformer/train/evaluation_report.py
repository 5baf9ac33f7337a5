"""An evaluation to read: the metrics, the figures of each class, and the rows that the model gets most wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..data.file_row import Row as FileRow
from ..errors import suggests
from ..tasks.breakdown import Breakdown
from ..tasks.task import Task
from ..text.base.encoding_options import check_whole_number
from .distributed import SINGLE_PROCESS
from .evaluation import evaluation_batches, run_evaluation

WORST = 10  # rows of a report


@dataclass(frozen=True)
class WorstRow:
    """A row with a high loss."""

    row: int  # its number from 0
    place: str  # its file and line, if it is from a file
    loss: float
    expected: str
    predicted: str
    text: str


@dataclass(frozen=True)
class EvaluationReport:
    """What `evaluation_report` found."""

    task: str
    metrics: dict[str, float]
    breakdown: Breakdown | None  # None for a task without classes
    worst: tuple[WorstRow, ...]  # the highest loss first
    truncated: int = 0  # rows that were cut to fit the model

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the metrics by name, beside them the parts of the breakdown and the worst rows."""
        parts = {} if self.breakdown is None else self.breakdown.to_dict()
        return {**self.metrics, "truncated": self.truncated, **parts, "worst": [asdict(row) for row in self.worst]}


@suggests
def evaluation_report(
    task: Task,
    rows: Iterable[Any],
    *,
    tokens_per_batch: int = 4096,
    batch_size: int | None = None,
    worst: int = WORST,
) -> EvaluationReport:
    """`evaluate`, with the figures of each class and the `worst` rows: those with the highest loss.

    >>> report = evaluation_report(task, read_rows("dev.tsv"))                   # doctest: +SKIP
    >>> report.breakdown.classes[1].recall, report.worst[0].place                # doctest: +SKIP
    (0.91, 'dev.tsv, line 17')
    """
    check_whole_number("tokens_per_batch", tokens_per_batch, 1)
    check_whole_number("worst", worst, 0)
    rows = list(rows)
    batches = evaluation_batches(task, rows, tokens_per_batch, batch_size)
    found = run_evaluation(task, rows, batches, SINGLE_PROCESS, row_losses=worst > 0)
    numbers = sorted(range(len(found.losses)), key=lambda number: -found.losses[number])[:worst]
    breakdown = task.breakdown(found.predictions, found.references) if found.predictions else None
    shown = []
    for number in numbers:
        row = task.read(rows[number])
        expected = task.describe_reference(row, found.references[number])
        predicted = task.describe_prediction(row, found.predictions[number])
        place = rows[number].place if isinstance(rows[number], FileRow) else ""
        shown.append(WorstRow(number, place, found.losses[number], expected, predicted, text_of(task, row)))
    return EvaluationReport(task.name, found.metrics, breakdown, tuple(shown), batches.truncated)


def text_of(task: Task, row: dict[str, Any]) -> str:
    """The inputs of a row in one line."""
    values = [row[name] for name in task.columns.inputs if row.get(name) is not None]
    texts = [" ".join(map(str, value)) if is_list(value) else str(value) for value in values]
    return " | ".join(" ".join(text.split()) for text in texts)


def is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
