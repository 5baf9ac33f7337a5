"""`glass evaluate`: measures a model on rows with answers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..arguments import check_page_path
from ..output.answer_table import cell, short
from ..output.terminal import counted, print_heading, print_json, print_table
from ..rows.input_rows import RowFormat
from .predict import read_options

if TYPE_CHECKING:
    from ...tasks.breakdown import Breakdown, Confusion
    from ...train.evaluation_report import EvaluationReport

SHOWN_CLASSES = 40  # of a table in the terminal
MATRIX_CLASSES = 10  # a larger confusion matrix is shown as a list
SHOWN_MISTAKES = 10  # of that list


def evaluate(
    task: Positional[Annotated[str, arg(metavar="TASK")]],
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    /,
    *,
    data: Annotated[str, arg(metavar="FILE")],
    target: Annotated[str, arg(metavar="FILE")] = "",
    row_format: Annotated[RowFormat, arg(name="")] = RowFormat(),  # noqa: B008
    tokens_per_batch: Annotated[int, arg(metavar="N")] = 4096,
    truncation: bool = False,
    option: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=VALUE")]] = (),
    worst: Annotated[int, arg(metavar="N")] = 5,
    page: Annotated[Path | None, arg(metavar="FILE.html")] = None,
    json: bool = False,
) -> int:
    """Measure a model on rows with answers: the loss, the task's own metrics, each class, and the worst rows.

    A classifier's precision, recall and F1 are shown for each label, a tagger's for each type of entity, with what is
    confused with what. Questions without an answer are measured as SQuAD 2.0 does.

    examples:
      glass evaluate text-classification ./run --data dev.tsv
      glass evaluate ner ./run --data dev.conll --json
      glass evaluate text-classification ./run --data dev.tsv --worst 20 --page evaluation.html
      glass evaluate question-answering ./run --data dev-v2.0.json --option handle_impossible_answer=true
      glass evaluate translation ./de-en --data test.de --target test.en --option num_beams=5
      glass evaluate text-generation ./run --data book.txt --option documents=file --option overlap=64

    Args:
        task: A task such as text-classification.
        model: A folder or a hub name.
        data: The rows: txt, csv, tsv, jsonl, json, conll or parquet.
        target: A file with the targets of the lines of --data, where they are in two files.
        tokens_per_batch: How many tokens a batch has at most.
        truncation: Cut texts that are longer than the model, which are refused otherwise.
        option: An option of the task, as [options] of a recipe has it. Can be given several times.
        worst: How many of the rows with the highest loss to show.
        page: Write a page with all figures.
        json: Print JSON.
    """
    from ...data.parallel_text import read_parallel
    from ...tasks.task_registry import task_class
    from ...train.evaluation_report import evaluation_report

    if page is not None:
        check_page_path("--page", page)
    kind = task_class(task)
    rows: Iterable[Any]
    if not target:
        rows = row_format.rows(data, kind.columns.all)
    elif "target" in kind.columns.targets and row_format == RowFormat(encoding=row_format.encoding):
        rows = read_parallel({"source": data, "target": target}, encoding=row_format.encoding or None)
    else:
        raise InputError("--target is for tasks with a source and a target, and two files of plain lines")
    options = {**({"truncation": True} if truncation else {}), **read_options(task, option)}
    task = kind.from_pretrained(model, **options)
    task.refuse_untrained()
    report = evaluation_report(task, rows, tokens_per_batch=tokens_per_batch, worst=worst)
    if page is not None:
        write_page(report, model, data, page)
    signatures = {name: value.signature for name, value in report.metrics.items() if hasattr(value, "signature")}
    if json:
        print_json({**report.to_dict(), **({"signatures": signatures} if signatures else {})})
        return 0
    show(report)
    for name, signature in signatures.items():
        print(f"{name}: {signature}")
    if page is not None:
        print(f"wrote {page}")
    return 0


def write_page(report: EvaluationReport, model: str, data: str, path: Path) -> None:
    from ...checkpoints.files import write_atomically
    from ...train.reporting.evaluation_page import evaluation_page

    write_atomically(path, evaluation_page(report, model, data))


def show(report: EvaluationReport) -> None:
    values = [
        (name, f"{value:,}" if isinstance(value, int) else f"{value:.4f}") for name, value in report.metrics.items()
    ]
    print_table(("metric", "value"), values, right=[1])
    if report.breakdown is not None:
        print(report.breakdown.note)
        show_classes(report.breakdown)
    if report.worst:
        print()
        print_heading(f"{counted(len(report.worst), 'row')} with the highest loss")
        lines = [
            (row.place or row.row, f"{row.loss:.4f}", *map(short, (row.expected, row.predicted, row.text)))
            for row in report.worst
        ]
        print_table(("row", "loss", "right", "predicted", "text"), lines, right=[1])


def show_classes(breakdown: Breakdown) -> None:
    """The figures of the most frequent classes, their means, and the confusions."""
    from ...train.reporting.evaluation_page import FIGURES, class_cells

    frequent = sorted(breakdown.classes, key=lambda each: -each.support)[:SHOWN_CLASSES]
    shown = [each for each in breakdown.classes if each in frequent]
    if not shown:
        return
    print()
    print_table(FIGURES, [class_cells(each) for each in (*shown, *breakdown.means)], right=range(1, len(FIGURES)))
    if len(shown) < len(breakdown.classes):
        print(f"the most frequent of {len(breakdown.classes)} classes; --page and --json have all")
    if breakdown.confusion is not None:
        show_confusion(breakdown.confusion)


def show_confusion(confusion: Confusion) -> None:
    """The matrix, or the most frequent mistakes of a large one."""
    names = [cell(name) for name in confusion.names]
    print()
    if len(names) <= MATRIX_CLASSES:
        print_heading(f"{confusion.unit} by right class (lines) and predicted class (columns)")
        rows = [(name, *counts) for name, counts in zip(names, confusion.counts, strict=True)]
        print_table(("", *names), rows, right=range(1, len(names) + 1))
        return
    mistakes = confusion.mistakes()[:SHOWN_MISTAKES]
    print_heading(f"the most frequent confusions, in {confusion.unit}; --page and --json have the whole matrix")
    print_table(("right", "predicted", "count"), [(cell(a), cell(b), n) for a, b, n in mistakes], right=[2])
