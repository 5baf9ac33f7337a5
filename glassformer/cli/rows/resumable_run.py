"""Results that grow for hours: a run that was killed goes on where it stopped, and only if it is the same run.

While a result is not complete, a note beside it records what it is made from. At the end the note goes away,
and so it does if the run ends before anything was found.
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

if TYPE_CHECKING:
    from ...data.readers import Rows

log = logging.getLogger("glassformer")

MAX_HASHED = 64 * 2**20  # bytes of a file that are hashed; of a larger one its size and time count beside them
MODEL_SUFFIXES = (".json", ".txt", ".model", ".safetensors", ".bin")


class Run:
    """One result and the note beside it.

    `growing` is the file that grows: the result itself, or another one that takes its name at the end. While it has no
    more than `start` bytes, nothing is in it.
    """

    def __init__(self, output: str, growing: str | None = None, start: int = 0) -> None:
        self.output = Path(output)
        self.growing = Path(growing or output)
        self.start = start
        self.note = self.output.with_name(f"{self.output.name}.run.json")

    def begin(self, about: Mapping[str, Any], restart: bool) -> None:
        """Start anew or go on; raises if the result is there already or was begun from something else."""
        from ...checkpoints.files import read_json, write_atomically

        about = json.loads(json.dumps(about))  # as it comes back from a file
        if not self.output.absolute().parent.is_dir():
            raise InputError(f"there is no folder {str(self.output.parent)!r} to write {self.output.name} to")
        if self.output.is_dir():
            raise InputError(f"{self.output} is a folder; name a file to write")
        if restart:
            for path in (self.growing, self.note):  # the note last: without it, nobody goes on
                path.unlink(missing_ok=True)
        if self.note.exists():
            self.compare(read_json(self.note, "the note of a run"), about)
            return
        if self.output.exists() and not restart:
            raise InputError(f"{self.output} is there already; --restart replaces it")
        self.growing.unlink(missing_ok=True)
        try:
            write_atomically(self.note, json.dumps(about, indent=2, ensure_ascii=False) + "\n")
        except CheckpointError as error:
            raise InputError(f"{self.output} cannot be written: {error}") from None

    def compare(self, before: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        changed = next((name for name in {**before, **about} if before.get(name) != about.get(name)), None)
        if changed is not None:
            was, now = (json.dumps(each.get(changed), ensure_ascii=False)[:80] for each in (before, about))
            raise InputError(
                f"{self.output} was begun from something else: {changed} was {was} and is {now}; "
                f"--restart begins anew, the old settings go on"
            )

    @contextlib.contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The growing file, which nobody else may write meanwhile."""
        from ...checkpoints.files import reason_of

        is_ours = False
        try:
            with open(self.growing, "r+b" if self.growing.exists() else "w+b") as file:
                lock(file, self.output)
                is_ours = True
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException as error:
            if is_ours:
                self.stop()
            if isinstance(error, OSError) and not isinstance(error, GlassformerError):
                raise InputError(f"{self.growing} cannot be written: {reason_of(error)}") from None
            raise

    def stop(self) -> None:
        """Leave what was found for a later run; where that is nothing, leave nothing."""
        if self.growing.stat().st_size > self.start:
            log.warning("%s is not complete; the same command goes on where it stopped", self.output)
            return
        self.growing.unlink()
        self.note.unlink()

    def end(self) -> None:
        """Give the complete result its name and take the note away."""
        from ...checkpoints.files import flush_folder

        if self.growing != self.output:
            os.replace(self.growing, self.output)
        flush_folder(self.output.absolute().parent)
        self.note.unlink()


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
    """A short text that changes when one of the files does."""
    digest = hashlib.sha256()
    for path in paths:
        state = path.stat()
        time = state.st_mtime_ns if state.st_size > MAX_HASHED else 0
        digest.update(f"{path.name} {state.st_size} {time}\n".encode())
        with open(path, "rb") as file:
            left = min(state.st_size, MAX_HASHED)
            while left and (block := file.read(min(left, 2**20))):
                digest.update(block)
                left -= len(block)
    return digest.hexdigest()[:16]


def fingerprint_of_rows(rows: Rows) -> str:
    """That of the files with the rows; standard input and pipes cannot be read twice and have none."""
    paths = [source.path for source in rows.sources]
    return "" if any(path is None or not path.is_file() for path in paths) else fingerprint(paths)


def fingerprint_of_model(name: str) -> str:
    """That of a checkpoint, whose files are in a folder or in the cache by now."""
    from ...checkpoints.hub import find_folder

    folder = find_folder(name, files=(), local_files_only=True)
    found = (path for pattern in ("*", "*/*") for path in folder.glob(pattern))
    return fingerprint(sorted(path for path in found if path.suffix in MODEL_SUFFIXES and path.is_file()))
