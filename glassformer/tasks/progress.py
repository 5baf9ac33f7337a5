"""How far long work has come: a bar in a terminal, a plain line now and then elsewhere, nothing for short work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 2.0  # seconds of work before anything is shown
PAUSE = 10.0  # seconds between two plain lines


def watched(
    answers: Iterable[T], total: int | None, show: bool | None, what: str, done: int = 0, unit: str = "rows"
) -> Iterator[T]:
    """The answers themselves, counted on standard error while they pass.

    `show` None means: only in a terminal. A generator without a known end shows its count alone. `done` of the total
    were there before, in work that goes on. `unit` is what is counted.
    """
    in_terminal = sys.stderr.isatty()
    if show is False or (show is None and not in_terminal):
        yield from answers
        return
    watch = (Bar if in_terminal else Lines)(total, what, done, unit)
    try:
        for count, answer in enumerate(answers, start=1):
            watch.tell(count)
            yield answer
    finally:
        watch.end()


class Lines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, total: int | None, what: str, done: int = 0, unit: str = "rows") -> None:
        self.total, self.what, self.done, self.unit = total, what, done, unit
        self.started = time.monotonic()
        self.due = self.started + PATIENCE

    def tell(self, count: int) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.due = now + PAUSE
            rate = count / (now - self.started)
            of = left = ""
            if self.total is not None:
                of, left = f" of {self.total:,}", f", {clock((self.total - self.done - count) / rate)} left"
            # the first one waits for others to share a batch
            speed = f", {rate:,.{0 if rate >= 1 else 2}f} {self.unit}/s{left}" if count > 1 else ""
            line = f"{self.what}: {self.done + count:,}{of} {self.unit}{speed}"
            print(line, file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


class Bar:
    """Progress as a bar that goes away when the work is done."""

    def __init__(self, total: int | None, what: str, done: int = 0, unit: str = "rows") -> None:
        self.total, self.what, self.done, self.unit = total, what, done, unit
        self.started = time.monotonic()
        self.due = self.started + PATIENCE
        self.bar = None

    def tell(self, count: int) -> None:
        if self.bar is None and time.monotonic() >= self.due:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(f"{{task.fields[rate]:,.0f}} {self.unit}/s"),
                TimeRemainingColumn(),
            )
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.place = self.bar.add_task(self.what, total=self.total, completed=self.done, rate=0)
        if self.bar is not None:
            rate = count / (time.monotonic() - self.started)
            self.bar.update(self.place, completed=self.done + count, rate=rate)

    def end(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def clock(seconds: float) -> str:
    """A stretch of time as hours, minutes and seconds.

    >>> clock(42), clock(3725.4)
    ('0:00:42', '1:02:05')
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
