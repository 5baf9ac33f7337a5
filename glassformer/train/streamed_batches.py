"""Training rows that are streamed: files larger than memory, a buffer of rows at a time.

A buffer of consecutive rows is read, shuffled and split into batches like rows that are all in memory; then comes the
next one. So the position of a run is the first row of its buffer and the step inside it: resuming skips the rows before
it without encoding them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..errors import GlassformerError, InputError
from ..tasks.batch import Batch
from ..tasks.task import Task
from ..text.base.text_inputs import describe
from .batches import SEED_STEP, Batches

MAX_DOCUMENT = 4  # buffers: a longer document is split


class StreamedBatches:
    """The micro-batches of each step, from rows that are never all in memory."""

    def __init__(
        self,
        task: Task,
        rows: Iterable[Any],
        *,
        buffer: int,
        max_tokens: int,
        max_rows: int | None = None,
        batches_per_step: int = 1,
        seed: int = 0,
    ) -> None:
        if isinstance(rows, Iterator):
            raise InputError(f"rows must be readable more than once, as those of read_rows are, got {describe(rows)}")
        self.task, self.rows, self.buffer = task, rows, buffer
        self.sizes: dict[str, Any] = {
            "max_tokens": max_tokens,
            "max_rows": max_rows,
            "batches_per_step": batches_per_step,
            "seed": seed,
        }
        self.seek(epoch=0, block=0, row=0)

    # --- reading -----------------------------------------------------------------------------------------------

    def seek(self, epoch: int, block: int, row: int) -> None:
        """Continue with the buffer that starts at a row."""
        self.epoch, self.block, self.row = epoch, block, row
        self.source = itertools.islice(iter(self.rows), row, None)
        self.ahead: list[Any] = []  # the row after the buffer, if it was read
        self.error: GlassformerError | None = None  # why the next rows cannot be read
        self.at_epoch_end = False  # after the step returned last
        self.fill_buffer()
        if not self.held:
            raise InputError("there are no rows to train on" if not row else f"there are no rows after row {row}")
        self.encode_buffer()

    def advance(self) -> None:
        """Read the rows of the next buffer; after the last one, those of the first, in a new epoch."""
        self.row, self.block = self.row + len(self.held), self.block + 1
        self.fill_buffer()
        if not self.held:
            self.epoch, self.block, self.row = self.epoch + 1, 0, 0
            self.source = iter(self.rows)
            self.fill_buffer()

    def fill_buffer(self) -> None:
        """Read the rows of a buffer, up to the end of a document."""
        held = list(itertools.islice(itertools.chain(self.ahead, self.source), self.buffer))
        self.ahead = []
        for row in self.source if len(held) == self.buffer else ():
            if self.task.starts_document(row) or len(held) >= MAX_DOCUMENT * self.buffer:
                self.ahead = [row]
                break
            held.append(row)
        self.held = held

    def encode_buffer(self) -> None:
        """Encode the buffer and plan its steps; buffers without anything to train on are skipped."""
        last = self.epoch + 1
        rows = self.task.prepare_rows(self.held)
        while not len(rows):
            self.advance()
            if self.epoch > last:
                raise InputError("there is nothing to train on in the rows")
            rows = self.task.prepare_rows(self.held)
        if self.task.carries_memory:
            raise InputError("a memory is carried through texts that are in memory: leave the buffer out")
        self.batches = Batches(self.task, rows, **self.sizes)
        self.batches.current_epoch = self.epoch * SEED_STEP + self.block
        self.steps = self.batches.plan(self.batches.current_epoch)
        self.step = 0

    def __iter__(self) -> StreamedBatches:
        return self

    def __next__(self) -> list[list[int]]:
        """The rows of the next step, batch by batch, counted in the buffer."""
        if self.error is not None:
            raise self.error
        if self.step == len(self.steps):
            self.encode_buffer()
        batches = self.steps[self.step]
        self.step += 1
        self.at_epoch_end = False
        if self.is_buffer_used:  # the next rows are read now, and encoded when they are needed
            try:
                self.advance()
            except GlassformerError as error:  # raised after the rows before it have been trained on
                self.error = error
            self.at_epoch_end = self.block == 0
        return batches

    def collate(self, rows: Sequence[int]) -> Batch:
        return self.batches.collate(rows)

    def name_row(self, number: int) -> str:
        return self.batches.name_row(number)

    def count_steps(self, epochs: int) -> int:
        raise InputError("the number of streamed rows is not known before their end: give max_steps")

    @property
    def is_buffer_used(self) -> bool:
        """Whether the last step of a buffer was returned."""
        return self.step == len(self.steps)

    @property
    def epochs_done(self) -> float:
        """The number of finished epochs; the fraction of the current one is not known before its end."""
        return float(self.epoch)

    # --- resuming ----------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        is_used = self.is_buffer_used
        return {
            "epoch": self.epoch,
            "block": self.block,
            "row": self.row,
            "step": 0 if is_used else self.step,
            "buffer": self.buffer,
            "ended_an_epoch": self.at_epoch_end,
            "fingerprint": None if is_used else self.batches.fingerprint(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state.get("buffer") != self.buffer:
            raise InputError(
                f"the checkpoint was streaming rows with a buffer of {state.get('buffer')}, and this run has one of "
                f"{self.buffer}, so that its position cannot be used"
            )
        self.seek(state["epoch"], state["block"], state["row"])
        if state["fingerprint"] not in (None, self.batches.fingerprint()):
            raise InputError(
                f"the rows after row {state['row']} are not those that the checkpoint was reading: the files, the "
                "seed, the size of batches, the accumulation and the number of ranks must be those of that run"
            )
        self.step = state["step"]
        self.at_epoch_end = state.get("ended_an_epoch", False)
