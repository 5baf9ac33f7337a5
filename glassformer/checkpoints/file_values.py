"""Values of tensors, read from an open file into memory of their own.

They are read and not mapped: a mapped tensor changes when its file is overwritten in place, and a process that touches
it after the file was truncated dies.
"""

from __future__ import annotations

import os
import threading
import weakref
from pathlib import Path
from typing import BinaryIO

import torch

from ..errors import CheckpointError, DamagedFileError
from .files import reason_of


class FileValues:
    """The bytes of one file, which stays open, so that another file of its name is never read instead."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._path = path
        self._file = os.fdopen(os.dup(file.fileno()), "rb", buffering=0)
        self._lock = threading.Lock()
        weakref.finalize(self, self._file.close)

    def read(self, begin: int, count: int, dtype: torch.dtype) -> torch.Tensor:
        """`count` values that begin at a byte of the file, as a tensor of one dimension."""
        tensor = torch.empty(count, dtype=dtype)
        if not count:
            return tensor
        rest = memoryview(tensor.view(torch.uint8).numpy())  # type: ignore[arg-type]  # numpy says so from 3.12 on
        try:
            with self._lock:
                self._file.seek(begin)
                while rest:
                    read = self._file.readinto(rest)
                    if not read:
                        raise DamagedFileError(f"{self._path} was truncated while it was read")
                    rest = rest[read:]
        except OSError as error:
            raise CheckpointError(f"could not read {self._path}: {reason_of(error)}") from error
        return tensor
