"""The progress of long work: a bar in a terminal, occasional plain lines elsewhere, nothing for short work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

SHOWN_AFTER = 2.0  # seconds of work before anything is shown
LINE_INTERVAL = 10.0  # seconds between two plain lines


def show_progress(
    items: Iterable[T], total: int | None, show: bool | None, what: str, done: int = 0, unit: str = "rows"
) -> Iterator[T]:
    """Yield the items, and show their count on standard error.

    `show` None means: only in a terminal. Without a `total` only the count is shown. `done` of the total were finished
    before, in work that is resumed. `unit` is what is counted.
    """
    in_terminal = sys.stderr.isatty()
    if show is False or (show is None and not in_terminal):
        yield from items
        return
    display = (ProgressBar if in_terminal else ProgressLines)(total, what, done, unit)
    try:
        for count, item in enumerate(items, start=1):
            display.update(count)
            yield item
    finally:
        display.close()


class ProgressLines:
    """Progress as plain lines, for logs and pipes."""

    def __init__(self, total: int | None, what: str, done: int = 0, unit: str = "rows") -> None:
        self.total, self.what, self.done, self.unit = total, what, done, unit
        self.started = time.monotonic()
        self.due = self.started + SHOWN_AFTER

    def update(self, count: int) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.due = now + LINE_INTERVAL
            rate = count / (now - self.started)
            of = left = ""
            if self.total is not None:
                of, left = f" of {self.total:,}", f", {format_clock((self.total - self.done - count) / rate)} left"
            # the first item waits for others to share a batch, so it says nothing about the speed
            speed = f", {rate:,.{0 if rate >= 1 else 2}f} {self.unit}/s{left}" if count > 1 else ""
            line = f"{self.what}: {self.done + count:,}{of} {self.unit}{speed}"
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class ProgressBar:
    """Progress as a bar that disappears when the work is done."""

    def __init__(self, total: int | None, what: str, done: int = 0, unit: str = "rows") -> None:
        self.total, self.what, self.done, self.unit = total, what, done, unit
        self.started = time.monotonic()
        self.due = self.started + SHOWN_AFTER
        self.bar = None

    def update(self, count: int) -> None:
        if self.bar is None and time.monotonic() >= self.due:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
                TimeRemainingColumn,
            )

            left = () if self.total is None else (TimeRemainingColumn(), TextColumn("left"))
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(f"{self.unit}, {{task.fields[rate]:,.0f}} {self.unit}/s,"),
                *(TimeElapsedColumn(), TextColumn("elapsed")),
                *left,
            )
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.bar_id = self.bar.add_task(self.what, total=self.total, completed=self.done, rate=0)
        if self.bar is not None:
            rate = count / (time.monotonic() - self.started)
            self.bar.update(self.bar_id, completed=self.done + count, rate=rate)

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def format_clock(seconds: float) -> str:
    """A duration as hours, minutes and seconds.

    >>> format_clock(42), format_clock(3725.4)
    ('0:00:42', '1:02:05')
    """
    rounded = round(seconds)
    return f"{rounded // 3600}:{rounded // 60 % 60:02}:{rounded % 60:02}"
