"""The folder of a run: reserved for one process, and made anew, with a warning, if it is removed while that trains."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from ..checkpoints.files import make_folder
from ..errors import InputError

log = logging.getLogger("glassformer")


class RunFolder:
    """A folder that is locked against other training processes, on systems that support it.

    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp(), "run")
    >>> with RunFolder(path) as folder:
    ...     path.rmdir()
    ...     folder.restore()
    ...     path.is_dir()
    True
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptors: list[int] = []
        self._place: tuple[int, int] | None = None  # of the folder on its disk

    def __enter__(self) -> RunFolder:
        self._reserve()
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def restore(self) -> None:
        """Make the folder anew, and say so, if it was removed since it was reserved."""
        with contextlib.suppress(OSError):
            facts = os.stat(self.path)
            if (facts.st_dev, facts.st_ino) == self._place:
                return
        self._reserve()
        log.warning(
            "%s was removed while the run was training, with its log and its checkpoints: it is made anew, and what "
            "follows is written there",
            self.path,
        )

    def _reserve(self) -> None:
        facts = os.stat(make_folder(self.path))
        self._place = facts.st_dev, facts.st_ino
        try:
            import fcntl
        except ImportError:
            return
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise InputError(
                f"another process is training in {self.path}; wait for it, or name another output_dir"
            ) from None
        except OSError:
            pass  # some network file systems have no locks
        self._descriptors.append(descriptor)
