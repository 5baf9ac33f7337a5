"""Training rows that are read while training: of files larger than the memory, a buffer of rows at a time.

A buffer of neighbouring rows is read, put in another order and cut into batches like rows that are all there; then
comes the next one. So the place of a run is the row that its buffer begins with and the step inside it: going on from
there reads past the rows before it, without encoding them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import GlassformerError, InputError
from ..tasks.batch import Batch
from ..tasks.task import Task
from ..text.base.text_inputs import describe
from .batches import EPOCHS, Batches

LONGEST = 4  # buffers: a document that is longer is cut


class StreamedBatches:
    """The micro-batches of each step, from rows that are never all in memory."""

    def __init__(
        self,
        task: Task,
        rows: Iterable[Any],
        *,
        buffer: int,
        tokens: int,
        rows_at_most: int | None = None,
        per_step: int = 1,
        seed: int = 0,
    ) -> None:
        if isinstance(rows, Iterator):
            raise InputError(f"rows must be readable more than once, as what read_rows gives is, got {describe(rows)}")
        self.task, self.rows, self.buffer = task, rows, buffer
        self.tokens, self.rows_at_most, self.per_step, self.seed = tokens, rows_at_most, per_step, seed
        self.go_to(epoch=0, block=0, row=0)

    # --- reading -----------------------------------------------------------------------------------------------

    def go_to(self, epoch: int, block: int, row: int) -> None:
        """Begin with the buffer that starts at a row."""
        self.epoch, self.block, self.row = epoch, block, row
        self.source = itertools.islice(iter(self.rows), row, None)
        self.ahead: list[Any] = []  # the row after the buffer, if it was read
        self.trouble: GlassformerError | None = None  # why the next rows cannot be had
        self.ended_an_epoch = False  # with the step handed out last
        self.fill()
        if not self.held:
            raise InputError("there are no rows to learn from" if not row else f"there are no rows after row {row}")
        self.prepare()

    def advance(self) -> None:
        """Read the rows of the next buffer; after the last one, those of the first, in a new epoch."""
        self.row, self.block = self.row + len(self.held), self.block + 1
        self.fill()
        if not self.held:
            self.epoch, self.block, self.row = self.epoch + 1, 0, 0
            self.source = iter(self.rows)
            self.fill()

    def fill(self) -> None:
        """Read the rows of a buffer, up to the end of a document."""
        held = list(itertools.islice(itertools.chain(self.ahead, self.source), self.buffer))
        self.ahead = []
        for row in self.source if len(held) == self.buffer else ():
            if self.task.may_begin(row) or len(held) >= LONGEST * self.buffer:
                self.ahead = [row]
                break
            held.append(row)
        self.held = held

    def prepare(self) -> None:
        """Encode the buffer, and lay out its steps; one without anything to learn from is passed over."""
        last = self.epoch + 1
        pieces = self.task.pieces(self.held)
        while not len(pieces):
            self.advance()
            if self.epoch > last:
                raise InputError("there is nothing to learn from in the rows")
            pieces = self.task.pieces(self.held)
        self.batches = Batches(
            self.task,
            pieces,
            tokens=self.tokens,
            rows_at_most=self.rows_at_most,
            per_step=self.per_step,
            seed=self.seed,
        )
        self.batches.reading = self.epoch * EPOCHS + self.block
        self.steps = self.batches.plan(self.batches.reading)
        self.step = 0

    def __iter__(self) -> StreamedBatches:
        return self

    def __next__(self) -> list[list[int]]:
        """The rows of the next step, batch by batch, counted in the buffer."""
        if self.trouble is not None:
            raise self.trouble
        if self.step == len(self.steps):
            self.prepare()
        found = self.steps[self.step]
        self.step += 1
        self.ended_an_epoch = False
        if self.is_between:  # the next rows are read now, and encoded when they are needed
            try:
                self.advance()
            except GlassformerError as error:  # to be told when all rows before it were learnt from
                self.trouble = error
            self.ended_an_epoch = self.block == 0
        return found

    def collate(self, rows: Sequence[int]) -> Batch:
        return self.batches.collate(rows)

    def name_row(self, number: int) -> str:
        return self.batches.name_row(number)

    def steps_in(self, epochs: int) -> int:
        raise InputError("how long streamed rows are is not known before their end: give max_steps")

    @property
    def is_between(self) -> bool:
        """Whether the last step of a buffer was handed out."""
        return self.step == len(self.steps)

    @property
    def progress(self) -> float:
        """How many epochs are done; how far this one is, nobody knows before its end."""
        return float(self.epoch)

    # --- going on ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        between = self.is_between
        return {
            "epoch": self.epoch,
            "block": self.block,
            "row": self.row,
            "step": 0 if between else self.step,
            "buffer": self.buffer,
            "ended_an_epoch": self.ended_an_epoch,
            "fingerprint": None if between else self.batches.fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("buffer") != self.buffer:
            raise InputError(
                f"the checkpoint was streaming rows with a buffer of {state.get('buffer')}, and this run has one of "
                f"{self.buffer}: its place means nothing here"
            )
        self.go_to(state["epoch"], state["block"], state["row"])
        if state["fingerprint"] not in (None, self.batches.fingerprint()):
            raise InputError(
                f"the rows after row {state['row']} are not those that the checkpoint was reading: the files, the "
                "seed, the size of batches, the accumulation and the number of ranks must be those of that run"
            )
        self.step = state["step"]
        self.ended_an_epoch = state.get("ended_an_epoch", False)
