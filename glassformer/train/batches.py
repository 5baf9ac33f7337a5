"""Rows in the order of training: another one in each epoch, in batches of a token budget, from any step on.

What a step reads depends on the seed, the epoch and the step alone, so a position is two numbers and going on from it
costs nothing.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from ..data.document_corpus import Pieces
from ..data.file_row import Row as FileRow
from ..data.shuffle import shuffle
from ..errors import GlassformerError, InputError
from ..tasks.batch import Batch, Example
from ..tasks.inference import located
from ..tasks.task import Task

log = logging.getLogger("glassformer")

POOL = 2048  # rows among which those of like length share a batch
EPOCHS = 1_000_003  # apart stand the seeds of two runs


class Batches:
    """The micro-batches of each step; an iterator without end that can be put anywhere.

    All rows are encoded once, at the beginning, so that one that cannot be used is reported before hours of work, and
    kept in little memory. What a task draws at random in pieces of text, such as masks, it draws anew in each epoch.
    """

    def __init__(
        self,
        task: Task,
        rows: Sequence[Any],
        *,
        tokens: int,
        rows_at_most: int | None = None,
        per_step: int = 1,
        seed: int = 0,
        learning: bool = True,
    ) -> None:
        if len(rows) and not isinstance(rows, Pieces):
            rows = task.pieces(rows, learning)
        if not len(rows):
            raise InputError("there are no rows to learn from")
        self.task, self.rows = task, rows
        self.tokens, self.rows_at_most, self.per_step, self.seed = tokens, rows_at_most, per_step, seed
        self.epoch, self.step = 0, 0
        self.reading = 0  # the epoch of the rows that were handed out last
        self.keeps_encodings = not learning and task.predicts_from_encoding
        self.encoded: list[list[Example]] = []  # of every row, unless rows are pieces of a text that is encoded already
        self.lengths, self.content = self.encode_all()
        self._plan = self.plan(0)

    def encode_all(self) -> tuple[list[int], str]:
        """The length of each row, and a digest that changes when an input or a label does."""
        digest = hashlib.blake2b(digest_size=16)
        if isinstance(self.rows, Pieces):
            digest.update(self.rows.corpus.ids.tobytes())
            return self.rows.lengths, digest.hexdigest()
        lengths, empty, processor = [], [], self.task.processor
        for number in range(len(self.rows)):
            examples = self.encode_row(number)
            targets = {name for example in examples for name in example.labels}
            if number == 0:
                first = targets
            elif targets != first:  # in one batch they would have nothing in common
                columns = ", ".join(self.task.columns.targets)
                problem = InputError(f"it has other columns to learn from than {self.name_row(0)}, of {columns}")
                raise located(problem, self.rows[number], number)
            lengths.append(sum(map(len, examples)))
            empty += [number] * any(processor.is_empty(example.encoded) for example in examples)
            digest.update(repr([(processor.content(each.encoded), each.labels) for each in examples]).encode())
            self.encoded.append(examples if self.keeps_encodings else list(map(self.task.compact, examples)))
        if empty:
            place = self.name_row(empty[0])
            warning = "%d of %d rows have an empty text, the first of them %s: nothing in it tells their label"
            log.warning(warning, len(empty), len(lengths), place)
        return lengths, digest.hexdigest()

    def encode(self, number: int) -> list[Example]:
        """One row as the model reads it, with what is to be learnt from it."""
        return self.encoded[number] if self.encoded else self.encode_row(number)

    def encode_row(self, number: int) -> list[Example]:
        try:
            examples = self.task.learn_from(self.rows[number], (self.seed, self.reading, number))
            if not all(example.labels for example in examples):
                self.task.require_labels(self.task.collate(examples))  # says what it misses
        except GlassformerError as error:
            raise located(error, self.rows[number], number) from None
        for example in examples:
            example.row = number
        return examples

    def name_row(self, number: int) -> str:
        if isinstance(self.rows, Pieces):
            return self.rows.name(number)
        row = self.rows[number]
        return row.place if isinstance(row, FileRow) else f"row {number}"

    def plan(self, epoch: int) -> list[list[list[int]]]:
        """The steps of an epoch: each a list of batches, each a list of row numbers."""
        seed = self.seed * EPOCHS + epoch
        order = list(shuffle(range(len(self.rows)), len(self.rows), seed))
        batches: list[list[int]] = []
        for start in range(0, len(order), POOL):
            batches += self.grouped(sorted(order[start : start + POOL], key=self.lengths.__getitem__))
        mixed = list(shuffle(batches, len(batches), seed))
        return [mixed[start : start + self.per_step] for start in range(0, len(mixed), self.per_step)]

    def grouped(self, rows: list[int]) -> Iterator[list[int]]:
        """Neighbours that fit into one batch together, at least one of them."""
        group: list[int] = []
        held = 0
        for row in rows:
            if group and (held + self.lengths[row] > self.tokens or len(group) == self.rows_at_most):
                yield group
                group, held = [], 0
            group.append(row)
            held += self.lengths[row]
        if group:
            yield group

    def steps_in(self, epochs: int) -> int:
        """How many steps so many epochs have."""
        return sum(len(self.plan(epoch)) for epoch in range(epochs))

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> list[list[int]]:
        """The rows of the next step, batch by batch."""
        found = self._plan[self.step]
        self.reading = self.epoch
        self.step += 1
        if self.step == len(self._plan):
            self.epoch, self.step = self.epoch + 1, 0
            self._plan = self.plan(self.epoch)
        return found

    def collate(self, rows: Sequence[int]) -> Batch:
        return self.task.collate([example for number in rows for example in self.encode(number)])

    @property
    def ended_an_epoch(self) -> bool:
        """Whether the step handed out last was its epoch's last one."""
        return self.step == 0 and self.epoch > 0

    @property
    def progress(self) -> float:
        """How many epochs are done."""
        return self.epoch + self.step / len(self._plan)

    # --- going on ----------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """What tells whether a position in other rows means the same."""
        shape = (self.lengths, self.tokens, self.rows_at_most, self.per_step, self.seed)
        return hashlib.blake2b(repr(shape).encode(), digest_size=16).hexdigest()

    def state_dict(self) -> dict[str, Any]:
        known = {"rows": len(self.rows), "fingerprint": self.fingerprint(), "content": self.content}
        return {"epoch": self.epoch, "step": self.step, **known}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["fingerprint"] != self.fingerprint():
            raise InputError(
                f"the checkpoint was reading {state['rows']} rows, in an order that these {len(self.rows)} do not "
                "have, and its place means nothing here: the rows, the seed, the size of batches, the accumulation and "
                "the number of ranks must be those of that run"
            )
        if state.get("content", self.content) != self.content:
            log.warning("some of the rows have changed since the checkpoint: it goes on with what they are now")
        self.epoch, self.step = state["epoch"], state["step"]
        self._plan = self.plan(self.epoch)
