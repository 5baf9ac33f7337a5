"""Rows in, answers out: a stream of any length, in batches of a token budget, answered in order.

Rows are read ahead, so that inputs of similar length share a batch; the number of rows in memory is bounded, however
many there are. The look-ahead starts small, so that the first answers come soon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch

from ..errors import GlassformerError
from ..models.base.evaluation_mode import evaluation_mode
from ..nn.scoped_hooks import is_observed
from .batch import Example
from .language_modeling.plain_text import add_location
from .parallel import parallel_map
from .task import Row, Task

BUDGET = 2048  # real tokens in a batch
AHEAD = 16  # the maximum look-ahead, in budgets of tokens
ENCODED_TOGETHER = 64  # rows that are encoded at once
PREPARED_FROM = 2 * BUDGET  # tokens for which preparing the weights pays off


@dataclass
class Pending:
    """A row that is encoded but not answered yet."""

    row: Row
    examples: Sequence[Example]
    outputs: list[Any] = field(default_factory=list)
    missing: int = 0
    answer: Any = None


def answers(
    task: Task,
    rows: Iterable[Any],
    *,
    budget: int = BUDGET,
    batch_size: int | None = None,
    finish: Callable[[Row, Sequence[Example], Sequence[Any]], Any] | None = None,
    numbered: bool = True,
    first: int = 0,
) -> Iterator[Any]:
    """The answer to each row, in the order of the rows.

    A batch holds at most `budget` tokens and, when given, `batch_size` inputs. `finish` makes the answer from a row,
    its examples and their outputs; the default is `task.answer`. A row that cannot be read raises, with its number if
    `numbered`, after the rows before it have been answered. `first` is the number of the first row, for runs that are
    resumed.
    """
    source = enumerate(rows, first)
    share = budget
    while True:
        pending, problem = read_ahead(
            task, task.read_without_targets if finish is None else task.read, source, share, numbered
        )
        compute_answers(task, pending, budget, batch_size, finish or task.answer)
        for each in pending:
            yield each.answer
        if problem is not None:
            raise problem
        if not pending:
            return
        share = min(2 * share, AHEAD * budget)


def read_ahead(
    task: Task, read: Callable[[Any], Row], source: Iterator[tuple[int, Any]], tokens: int, numbered: bool
) -> tuple[list[Pending], GlassformerError | None]:
    """Encoded rows of about `tokens` tokens in all, and the error of the row after them if it has one."""
    pending: list[Pending] = []
    read_tokens = together = 0
    while read_tokens < tokens:
        together = min(2 * together or 1, ENCODED_TOGETHER)  # the first answers do not wait for many rows
        chunk = list(islice(source, together))
        encoded, problem = encode_chunk(task, read, chunk, numbered)
        for (number, _), (row, examples) in zip(chunk, encoded, strict=False):
            for example in examples:
                example.row = number
            pending.append(pending_row(row, examples))
            read_tokens += sum(map(len, examples))
        if problem is not None or len(chunk) < together:
            return pending, problem
    return pending, None


def pending_row(row: Row, examples: Sequence[Example]) -> Pending:
    for example in examples:
        example.labels = {}  # an answer does not depend on them
    return Pending(row, examples, [None] * len(examples), len(examples))


def encode_chunk(
    task: Task, read: Callable[[Any], Row], chunk: list[tuple[int, Any]], numbered: bool
) -> tuple[list[tuple[Row, list[Example]]], GlassformerError | None]:
    """The rows of a chunk, encoded together; one by one after an error, up to the row that causes it."""
    try:
        rows = [read(given) for _, given in chunk]
        return list(zip(rows, task.encode_all(rows), strict=True)), None
    except GlassformerError:
        pass  # the loop below finds the row
    encoded_rows: list[tuple[Row, list[Example]]] = []
    for number, given in chunk:
        try:
            row = read(given)
            encoded_rows.append((row, task.encode(row)))
        except GlassformerError as error:
            return encoded_rows, add_location(error, given, number) if numbered else error
    return encoded_rows, None


def compute_answers(task: Task, pending: list[Pending], budget: int, batch_size: int | None, finish: Callable) -> None:
    """Set the answer of every row; a row's outputs are released as soon as it is answered."""
    queue = [(each, index) for each in pending for index in range(len(each.examples))]
    queue.sort(key=lambda one: len(one[0].examples[one[1]]), reverse=True)
    batches = list(group_by_budget(queue, budget, batch_size))
    inputs = [[each.examples[index] for each, index in group] for group in batches]
    with contextlib.closing(batch_outputs(task, inputs)) as results:
        for group, outputs in zip(batches, results, strict=True):
            for (each, index), output in zip(group, outputs, strict=True):
                each.outputs[index] = output
                each.missing -= 1
            for each, _ in group:
                if each.missing == 0 and each.outputs:
                    each.answer = finish(each.row, each.examples, each.outputs)
                    each.outputs = []


def group_by_budget(
    queue: list[tuple[Pending, int]], budget: int, batch_size: int | None
) -> Iterator[list[tuple[Pending, int]]]:
    """Consecutive inputs that fit into one batch, at least one of them."""
    group: list[tuple[Pending, int]] = []
    total = 0
    for each, index in queue:
        size = len(each.examples[index])
        if group and (total + size > budget or len(group) == batch_size):
            yield group
            group, total = [], 0
        group.append((each, index))
        total += size
    if group:
        yield group


def batch_outputs(task: Task, batches: list[list[Example]]) -> Iterator[list[Any]]:
    """The model's outputs for each batch, in order, in evaluation mode.

    For many tokens on a CPU the weights are prepared and batches run in parallel, unless the model is observed.
    """
    tokens = sum(len(example) for examples in batches for example in examples)
    with evaluation_mode(task.model):
        if not runs_in_parallel(task, tokens):
            yield from map(partial(run, task), batches)
            return
        yield from parallel_map(partial(run, task.prepared()), batches)


def runs_in_parallel(task: Task, tokens: int) -> bool:
    """Whether batches of `tokens` tokens in all are faster in parallel."""
    is_on_cpu = task.model.device.type == "cpu"
    in_turn = task.uses_random_numbers or task.carries_memory
    return tokens >= PREPARED_FROM and is_on_cpu and not in_turn and not is_observed(task.trainable)


def run(task: Task, examples: Sequence[Example]) -> list[Any]:
    batch = task.collate(examples).to(task.model.device)
    with torch.inference_mode():
        return task.forward(batch)
