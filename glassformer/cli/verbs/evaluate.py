"""`glass evaluate`: measures a model on rows with answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..output.terminal import print_json, print_table
from ..rows.input_rows import RowFormat
from .predict import read_options


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
    json: bool = False,
) -> int:
    """Measure a model on rows with answers: the loss and the task's own metrics.

    examples:
      glass evaluate text-classification ./run --data dev.tsv
      glass evaluate ner ./run --data dev.conll --json
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
        json: Print JSON.
    """
    from ...data.parallel_text import read_parallel
    from ...tasks.task_registry import task_class
    from ...train.evaluation import evaluate as measure

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
    metrics = measure(task, list(rows), tokens_per_batch=tokens_per_batch)
    signatures = {name: value.signature for name, value in metrics.items() if hasattr(value, "signature")}
    if json:
        print_json({**metrics, "signatures": signatures} if signatures else metrics)
        return 0
    rows = [(name, f"{value:,}" if isinstance(value, int) else f"{value:.4f}") for name, value in metrics.items()]
    print_table(("metric", "value"), rows, right=[1])
    for name, signature in signatures.items():
        print(f"{name}: {signature}")
    return 0
