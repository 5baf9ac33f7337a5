"""Rows in, answers out: a stream of any length, in batches of a token budget, answered in its order.

Rows are read ahead, so that inputs of like length share a batch; what is held at any time is bounded, however many
rows there are. The look-ahead starts small: the first answers come soon.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import nn

from ..errors import GlassformerError
from ..nn.context import is_observed
from .batch import Example
from .language_modeling.plain_text import located
from .parallel import side_by_side
from .task import Row, Task

BUDGET = 2048  # real tokens in a batch
AHEAD = 16  # budgets of tokens that are read ahead at most
TOGETHER = 64  # rows that are encoded at once
MANY = 2 * BUDGET  # tokens for which it pays to prepare the model


@dataclass
class Pending:
    """A row on its way to its answer."""

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
    its examples and their outputs: `task.answer` unless told otherwise. A row that cannot be read raises, with its
    number if `numbered`, after the rows before it have been answered. `first` is the number of the first row, for work
    that goes on in the middle.
    """
    source = enumerate(rows, first)
    share = budget
    while True:
        pending, problem = read_ahead(
            task, task.read_unlabelled if finish is None else task.read, source, share, numbered
        )
        settle(task, pending, budget, batch_size, finish or task.answer)
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
    """Encoded rows that hold about so many tokens, and the error of the row after them if it has one."""
    pending: list[Pending] = []
    held = together = 0
    while held < tokens:
        together = min(2 * together or 1, TOGETHER)  # the first answers do not wait for many rows
        chunk = list(islice(source, together))
        encoded, problem = encode_chunk(task, read, chunk, numbered)
        for (number, _), (row, examples) in zip(chunk, encoded, strict=False):
            for example in examples:
                example.row = number
                example.labels = {}  # an answer does not depend on them
            pending.append(Pending(row, examples, [None] * len(examples), len(examples)))
            held += sum(map(len, examples))
        if problem is not None or len(chunk) < together:
            return pending, problem
    return pending, None


def encode_chunk(
    task: Task, read: Callable[[Any], Row], chunk: list[tuple[int, Any]], numbered: bool
) -> tuple[list[tuple[Row, list[Example]]], GlassformerError | None]:
    """The rows of a chunk, encoded together; one by one if something is wrong, up to the row that is."""
    try:
        rows = [read(given) for _, given in chunk]
        return list(zip(rows, task.encode_all(rows), strict=True)), None
    except GlassformerError:
        pass  # which row it was is found below
    found: list[tuple[Row, list[Example]]] = []
    for number, given in chunk:
        try:
            row = read(given)
            found.append((row, task.encode(row)))
        except GlassformerError as error:
            return found, located(error, given, number) if numbered else error
    return found, None


def settle(task: Task, pending: list[Pending], budget: int, batch_size: int | None, finish: Callable) -> None:
    """Answer every row; the outputs of a row are let go as soon as it is answered."""
    waiting = [(each, place) for each in pending for place in range(len(each.examples))]
    waiting.sort(key=lambda one: len(one[0].examples[one[1]]), reverse=True)
    batches = list(groups(waiting, budget, batch_size))
    inputs = [[each.examples[place] for each, place in group] for group in batches]
    with contextlib.closing(outputs_of(task, inputs)) as found:
        for group, outputs in zip(batches, found, strict=True):
            for (each, place), output in zip(group, outputs, strict=True):
                each.outputs[place] = output
                each.missing -= 1
            for each, _ in group:
                if each.missing == 0 and each.outputs:
                    each.answer = finish(each.row, each.examples, each.outputs)
                    each.outputs = []


def groups(
    waiting: list[tuple[Pending, int]], budget: int, batch_size: int | None
) -> Iterator[list[tuple[Pending, int]]]:
    """Neighbours that fit into one batch together, at least one of them."""
    group: list[tuple[Pending, int]] = []
    held = 0
    for each, place in waiting:
        size = len(each.examples[place])
        if group and (held + size > budget or len(group) == batch_size):
            yield group
            group, held = [], 0
        group.append((each, place))
        held += size
    if group:
        yield group


def outputs_of(task: Task, batches: list[list[Example]]) -> Iterator[list[Any]]:
    """What the model says of each batch, in their order, as it is when it does not learn.

    For many tokens on a CPU its weights are prepared, and batches are read side by side, unless somebody observes.
    """
    tokens = sum(len(example) for examples in batches for example in examples)
    with evaluating(task.model):
        if not runs_in_parallel(task, tokens):
            yield from map(partial(run, task), batches)
            return
        yield from side_by_side(partial(run, task.prepared()), batches)


def runs_in_parallel(task: Task, tokens: int) -> bool:
    """Whether batches of so many tokens together are better read side by side."""
    return tokens >= MANY and task.model.device.type == "cpu" and not task.draws and not is_observed(task.trainable)


def run(task: Task, examples: Sequence[Example]) -> list[Any]:
    batch = task.collate(examples).to(task.model.device)
    with torch.inference_mode():
        return task.forward(batch)


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off, and back on for a model that is in training."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        yield
    finally:
        if was_training:
            model.train()
