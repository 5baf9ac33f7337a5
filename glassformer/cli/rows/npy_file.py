"""A .npy file of vectors that grows: its header is written last, when it is known how many there are."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from ...errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

START = 128  # bytes of the header, whatever it says
NUMBER = 4  # bytes of a float32


def header(count: int, width: int) -> bytes:
    """What stands before `count` vectors of `width` numbers.

    >>> header(3, 2)[:6], len(header(10**12, 10**6))
    (b'\\x93NUMPY', 128)
    """
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {width}), }}"
    before = b"\x93NUMPY\x01\x00" + (START - 10).to_bytes(2, "little")
    return before + shape.ljust(START - 11).encode("ascii") + b"\n"


def complete_vectors(file: BinaryIO, width: int) -> int:
    """How many vectors a file holds that has no header yet; one that was torn is cut off."""
    size = os.fstat(file.fileno()).st_size
    count = max(size - START, 0) // (NUMBER * width)
    file.truncate(START + count * NUMBER * width)
    file.seek(0, os.SEEK_END)
    return count


def append(file: BinaryIO, vectors: Iterable[Tensor]) -> None:
    import torch

    file.write(torch.stack(list(vectors)).numpy().astype("<f4", copy=False).tobytes())
    file.flush()


def complete(file: BinaryIO, width: int) -> int:
    """Write the header before the vectors, with the number of vectors."""
    count = complete_vectors(file, width)
    file.seek(0)
    file.write(header(count, width))
    return count


def check_name(path: str) -> None:
    if not path.endswith(".npy"):
        raise InputError(f"vectors are written as a .npy file, got {path!r}")
