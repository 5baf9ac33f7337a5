"""Standard input that knows whether its next line has arrived, so that rows of a pipe can be answered as they come."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from typing import BinaryIO

GRACE = 0.01  # seconds in which more rows may follow and share a batch


class PolledFile(io.RawIOBase):
    """A file descriptor that, while `polls` is set, reports that nothing is there instead of waiting."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.polls = False

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def readinto(self, buffer) -> int | None:
        if self.polls and not self.has_more(0.0):
            return None
        data = os.read(self.descriptor, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def has_more(self, seconds: float) -> bool:
        """Whether reading returns at once, with data or with the end, or does so within some seconds."""
        return bool(select.select([self.descriptor], [], [], seconds)[0])


class LiveInput(io.BufferedReader):
    """A pipe or a terminal."""

    raw: PolledFile  # type: ignore[assignment]

    def would_wait(self) -> bool:
        """Whether there is no complete line yet, nor more of one."""
        self.raw.polls = True
        try:
            present = self.peek()
        finally:
            self.raw.polls = False
        return b"\n" not in present and not self.raw.has_more(GRACE)


_opened: tuple[object, LiveInput] | None = None


def standard_input() -> BinaryIO:
    """The bytes of standard input; of a pipe or a terminal always through the same buffer."""
    global _opened
    if _opened is not None and _opened[0] is sys.stdin:
        return _opened[1]
    descriptor = live_descriptor()
    if descriptor is None:
        return sys.stdin.buffer
    _opened = (sys.stdin, LiveInput(PolledFile(descriptor)))
    return _opened[1]


def live_descriptor() -> int | None:
    """The descriptor of standard input if it is a pipe or a terminal whose lines arrive one by one."""
    if os.name == "nt":  # where select knows sockets alone
        return None
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (AttributeError, OSError, ValueError):  # replaced by another object, or closed
        return None
    return descriptor if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISSOCK(mode) else None


def would_wait() -> bool:
    """Whether the next line of standard input has not arrived yet; False for a file, which is there."""
    reader = standard_input()
    return isinstance(reader, LiveInput) and reader.would_wait()
