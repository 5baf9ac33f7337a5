"""How far long work has come: a bar in a terminal, a plain line now and then elsewhere, nothing for short work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2.0  # seconds of work before anything is shown
PAUSE = 10.0  # seconds between two plain lines


def watched(answers: Iterable[T], total: int | None, show: bool | None, what: str) -> Iterator[T]:
    """The answers themselves, counted on standard error while they pass.

    `show` None means: only in a terminal. A generator without a known end shows its count alone.
    """
    in_terminal = sys.stderr.isatty()
    if show is False or (show is None and not in_terminal):
        yield from answers
        return
    watch = Bar(total, what) if in_terminal else Lines(total, what)
    try:
        for count, answer in enumerate(answers, start=1):
            watch.tell(count)
            yield answer
    finally:
        watch.end()


class Lines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, total: int | None, what: str) -> None:
        self.total, self.what = total, what
        self.started = time.monotonic()
        self.due = self.started + PATIENCE

    def tell(self, count: int) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.due = now + PAUSE
            of = "" if self.total is None else f" of {self.total:,}"
            rate = count / (now - self.started)
            print(f"{self.what}: {count:,}{of} rows, {rate:,.0f} rows/s", file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


class Bar:
    """Progress as a bar that goes away when the work is done."""

    def __init__(self, total: int | None, what: str) -> None:
        self.total, self.what = total, what
        self.due = time.monotonic() + PATIENCE
        self.bar = None

    def tell(self, count: int) -> None:
        if self.bar is None and time.monotonic() >= self.due:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.place = self.bar.add_task(self.what, total=self.total)
        if self.bar is not None:
            self.bar.update(self.place, completed=count)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()
