"""Training batches: rows in a new order in each epoch, in batches of a token budget, from any step on.

The rows of a step depend on the seed, the epoch and the step alone, so that a position is two numbers and resuming from
it costs nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from ..data.document_corpus import Pieces
from ..data.file_row import Row as FileRow
from ..data.shuffle import shuffle
from ..errors import GlassformerError, InputError
from ..tasks.batch import Batch, Example
from ..tasks.inference import add_location
from ..tasks.task import Task

log = logging.getLogger("glassformer")

POOL = 2048  # rows that are sorted by length together, so that similar lengths share a batch
SEED_STEP = 1_000_003  # between the seeds of two runs, for the epochs of each


class Batches:
    """The micro-batches of each step: an endless iterator that can be set to any position.

    All rows are encoded once, at the beginning, so that an invalid one is reported before hours of work, and stay in
    memory in a compact form. Random choices of a task in blocks of text, such as masks, change in each epoch.
    """

    def __init__(
        self,
        task: Task,
        rows: Sequence[Any],
        *,
        max_tokens: int,
        max_rows: int | None = None,
        batches_per_step: int = 1,
        seed: int = 0,
        training: bool = True,
    ) -> None:
        if len(rows) and not isinstance(rows, Pieces):
            rows = task.prepare_rows(rows, training)
        if not len(rows):
            raise InputError("there are no rows to train on" if training else "there are no rows to evaluate on")
        self.task, self.rows, self.purpose = task, rows, "training" if training else "evaluation"
        self.max_tokens, self.max_rows, self.batches_per_step = max_tokens, max_rows, batches_per_step
        self.seed = seed
        self.epoch, self.step = 0, 0
        self.current_epoch = 0  # of the rows that were returned last
        self.keeps_encodings = not training and task.predicts_from_encoding
        self.varies = training and task.varies_examples
        self.encoded: list[list[Example]] = []  # of every row, unless rows are blocks of a text that is encoded already
        self.truncated = 0  # rows that were cut to fit the model
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
            elif targets != first:  # a batch could not have both
                columns = ", ".join(self.task.columns.targets)
                problem = InputError(f"it has other target columns than {self.name_row(0)}, of {columns}")
                raise add_location(problem, self.rows[number], number)
            lengths.append(sum(map(len, examples)))
            self.truncated += any(getattr(example.encoded, "truncated", False) for example in examples)
            empty += [number] * any(processor.is_empty(example.encoded) for example in examples)
            digest.update(repr([(processor.content(each.encoded), each.labels) for each in examples]).encode())
            self.encoded.append(examples if self.keeps_encodings else list(map(self.task.compact, examples)))
        if self.truncated:  # all ranks encode all rows, and know the same number
            warning = "%d of %d %s rows were cut to fit the model"
            self.task.warn_once(f"{self.purpose} rows cut", warning, self.truncated, len(lengths), self.purpose)
        if empty:
            warning = "%d of %d rows have an empty text, the first of them %s: their label cannot be predicted from it"
            log.warning(warning, len(empty), len(lengths), self.name_row(empty[0]))
        return lengths, digest.hexdigest()

    def encode(self, number: int) -> list[Example]:
        """The examples of one row, as they look in this epoch."""
        examples = self.encoded[number] if self.encoded else self.encode_row(number)
        if not self.varies:
            return examples
        seed = (self.seed, self.current_epoch, number)
        return [self.task.vary(example, (*seed, place)) for place, example in enumerate(examples)]

    def encode_row(self, number: int) -> list[Example]:
        try:
            task = self.task
            read = task.training_examples if self.purpose == "training" else task.evaluation_examples
            examples = read(self.rows[number], (self.seed, self.current_epoch, number))
            if not all(example.labels for example in examples):
                self.task.require_labels(self.task.collate(examples))  # raises, and names the missing columns
        except GlassformerError as error:
            raise add_location(error, self.rows[number], number) from None
        for example in examples:
            example.row = number
        return examples

    def name_row(self, number: int) -> str:
        """The location of a row, for messages."""
        if isinstance(self.rows, Pieces):
            return self.rows.name(number)
        row = self.rows[number]
        return row.place if isinstance(row, FileRow) else f"row {number}"

    def plan(self, epoch: int) -> list[list[list[int]]]:
        """The steps of an epoch: each a list of batches, each a list of row numbers."""
        if isinstance(self.rows, Pieces) and self.rows.in_order:
            rows_of_batch = self.max_rows or max(1, self.max_tokens // max(self.lengths))
            if self.purpose == "training":
                return plan_lanes(len(self.rows), rows_of_batch, self.batches_per_step)
            return plan_documents(self.rows.table[:, 2].tolist(), rows_of_batch)
        seed = self.seed * SEED_STEP + epoch
        order = list(shuffle(range(len(self.rows)), len(self.rows), seed))
        batches: list[list[int]] = []
        for start in range(0, len(order), POOL):
            batches += self.group_rows(sorted(order[start : start + POOL], key=self.lengths.__getitem__))
        mixed = list(shuffle(batches, len(batches), seed))
        return [mixed[start : start + self.batches_per_step] for start in range(0, len(mixed), self.batches_per_step)]

    def group_rows(self, rows: list[int]) -> Iterator[list[int]]:
        """Consecutive rows that fit into one batch, at least one of them."""
        group: list[int] = []
        size = 0
        for row in rows:
            if group and (size + self.lengths[row] > self.max_tokens or len(group) == self.max_rows):
                yield group
                group, size = [], 0
            group.append(row)
            size += self.lengths[row]
        if group:
            yield group

    def count_steps(self, epochs: int) -> int:
        """The number of steps in the first epochs."""
        return sum(len(self.plan(epoch)) for epoch in range(epochs))

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> list[list[int]]:
        """The rows of the next step, batch by batch."""
        batches = self._plan[self.step]
        self.current_epoch = self.epoch
        self.step += 1
        if self.step == len(self._plan):
            self.epoch, self.step = self.epoch + 1, 0
            self._plan = self.plan(self.epoch)
        return batches

    def collate(self, rows: Sequence[int]) -> Batch:
        return self.task.collate([example for number in rows for example in self.encode(number)])

    @property
    def at_epoch_end(self) -> bool:
        """Whether the step returned last was its epoch's last one."""
        return self.step == 0 and self.epoch > 0

    @property
    def epochs_done(self) -> float:
        """The number of finished epochs, with the fraction of the current one."""
        return self.epoch + self.step / len(self._plan)

    # --- resuming ----------------------------------------------------------------------------------------------

    def fingerprint(self) -> str:
        """A digest of all that determines the rows of a position."""
        shape = (self.lengths, self.max_tokens, self.max_rows, self.batches_per_step, self.seed)
        return hashlib.blake2b(repr(shape).encode(), digest_size=16).hexdigest()

    def state_dict(self) -> dict[str, Any]:
        digests = {"rows": len(self.rows), "fingerprint": self.fingerprint(), "content": self.content}
        return {"epoch": self.epoch, "step": self.step, **digests}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["fingerprint"] != self.fingerprint():
            raise InputError(
                f"the checkpoint was reading {state['rows']} rows, in an order that these {len(self.rows)} do not "
                "have, so that its position cannot be used: the rows, the seed, the size of batches, the accumulation "
                "and the number of ranks must be those of that run"
            )
        if state.get("content", self.content) != self.content:
            log.warning("some of the rows have changed since the checkpoint: training continues with the new ones")
        self.epoch, self.step = state["epoch"], state["step"]
        self._plan = self.plan(self.epoch)


def plan_lanes(pieces: int, rows: int, batches: int) -> list[list[list[int]]]:
    """Steps that read a text in several places at once, each place on from where it was in the step before.

    The pieces are cut into as many stretches as the batches of a step have rows, and each row has its own.

    >>> plan_lanes(5, rows=1, batches=2)
    [[[0], [3]], [[1], [4]], [[2]]]
    """
    count = min(rows * batches, pieces)
    length, longer = divmod(pieces, count)
    firsts = [lane * length + min(lane, longer) for lane in range(count + 1)]
    lanes = [range(first, last) for first, last in itertools.pairwise(firsts)]
    rows = -(-count // batches)
    steps = []
    for place in range(length + bool(longer)):
        now = [
            [lane[place] for lane in lanes[start : start + rows] if place < len(lane)]
            for start in range(0, count, rows)
        ]
        steps.append([batch for batch in now if batch])
    return steps


def plan_documents(documents: Sequence[int], rows: int) -> list[list[list[int]]]:
    """Every document from its beginning to its end, some of them side by side; a step holds all batches of these.

    >>> plan_documents([0, 0, 0, 1, 2], rows=2)
    [[[0, 3], [1], [2]], [[4]]]
    """
    by_document: dict[int, list[int]] = {}
    for piece, document in enumerate(documents):
        by_document.setdefault(document, []).append(piece)
    longest_first = sorted(by_document.values(), key=len, reverse=True)
    steps = []
    for start in range(0, len(longest_first), rows):
        together = longest_first[start : start + rows]
        steps.append([[each[i] for each in together if i < len(each)] for i in range(len(together[0]))])
    return steps
