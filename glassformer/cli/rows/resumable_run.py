"""Long runs that can be resumed: a killed run continues where it stopped, if its settings are the same.

Until the result is complete, a file beside it records the settings. It is removed at the end, or if the run ends before
anything was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ...errors import CheckpointError, GlassformerError, InputError
from ..arguments import command_with, command_without

if TYPE_CHECKING:
    from ...data.readers import Rows

log = logging.getLogger("glassformer")

MAX_HASHED = 64 * 2**20  # bytes of a file that are hashed; of a larger one also its size and time
MODEL_SUFFIXES = (".json", ".txt", ".model", ".safetensors", ".bin")


class Run:
    """One result and the record of its settings beside it.

    `growing` is the file that is written: the result itself, or one that is renamed at the end. Up to `start` bytes it
    counts as empty.
    """

    def __init__(self, output: str, growing: str | None = None, start: int = 0) -> None:
        self.output = Path(output)
        self.growing = Path(growing or output)
        self.start = start
        self.record = self.output.with_name(f"{self.output.name}.run.json")

    def start_or_resume(self, about: Mapping[str, Any], restart: bool) -> None:
        """Start or resume; raises if the result exists already or was started with other settings."""
        from ...checkpoints.files import read_json, write_atomically

        about = json.loads(json.dumps(about))  # as it comes back from a file
        if not self.output.absolute().parent.is_dir():
            raise InputError(f"there is no folder {str(self.output.parent)!r} to write {self.output.name} to")
        if self.output.is_dir():
            raise InputError(f"{self.output} is a folder; name a file to write")
        if restart:
            for path in (self.growing, self.record):  # the record last: without it a run is not resumed
                path.unlink(missing_ok=True)
        if self.record.exists():
            self.compare(read_json(self.record, "the record of a run"), about)
            return
        if self.output.exists() and not restart:
            raise InputError(f"{self.output} exists already; to replace it: {command_with('--restart')}")
        self.growing.unlink(missing_ok=True)
        try:
            write_atomically(self.record, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
        except CheckpointError as error:
            raise InputError(f"{self.output} cannot be written: {error}") from None

    def compare(self, before: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        changed = next((name for name in {**before, **about} if before.get(name) != about.get(name)), None)
        if changed is not None:
            was, now = (json.dumps(each.get(changed), ensure_ascii=False)[:80] for each in (before, about))
            raise InputError(
                f"{self.output} was started with other settings: {changed} was {was} and is {now}; "
                f"the old settings resume it; to start again: {command_with('--restart')}"
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The growing file, locked against other processes."""
        from ...checkpoints.files import reason_of

        is_locked = False
        try:
            with open(self.growing, "r+b" if self.growing.exists() else "w+b") as file:
                lock(file, self.output)
                is_locked = True
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            if is_locked:
                self.interrupt()
            if isinstance(error, OSError) and not isinstance(error, GlassformerError):
                raise InputError(f"{self.growing} cannot be written: {reason_of(error)}") from None
            raise

    def interrupt(self) -> None:
        """Keep what was written for a later run; if that is nothing, remove the files."""
        if self.growing.stat().st_size > self.start:
            log.warning("%s is not complete; to resume it: %s", self.output, command_without("--restart"))
            return
        self.growing.unlink()
        self.record.unlink()

    def complete(self) -> None:
        """Rename the complete result and remove the record."""
        from ...checkpoints.files import flush_folder

        if self.growing != self.output:
            os.replace(self.growing, self.output)
        flush_folder(self.output.absolute().parent)
        self.record.unlink()


def lock(file: BinaryIO, output: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows itself refuses to replace a file that is open
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(f"{output} is being written by another process") from None


def fingerprint(paths: Iterable[Path]) -> str:
    """A short hash that changes when one of the files does."""
    digest = hashlib.sha256()
    for path in paths:
        state = path.stat()
        time = state.st_mtime_ns if state.st_size > MAX_HASHED else 0
        digest.update(f"{path.name} {state.st_size} {time}\n".encode())
        with open(path, "rb") as file:
            remaining = min(state.st_size, MAX_HASHED)
            while remaining and (block := file.read(min(remaining, 2**20))):
                digest.update(block)
                remaining -= len(block)
    return digest.hexdigest()[:16]


def fingerprint_of_rows(rows: Rows) -> str:
    """The fingerprint of the files of rows; empty for standard input and pipes, which cannot be read twice."""
    paths = [source.path for source in rows.sources]
    return "" if any(path is None or not path.is_file() for path in paths) else fingerprint(paths)


def fingerprint_of_model(name: str) -> str:
    """The fingerprint of a checkpoint in a folder or in the cache."""
    from ...checkpoints.hub import find_folder

    folder = find_folder(name, files=(), local_files_only=True)
    found = (path for pattern in ("*", "*/*") for path in folder.glob(pattern))
    return fingerprint(sorted(path for path in found if path.suffix in MODEL_SUFFIXES and path.is_file()))
