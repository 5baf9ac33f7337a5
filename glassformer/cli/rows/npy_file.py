"""A growing .npy file of vectors: its header is written last, when their number is known."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, BinaryIO

from ...errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

HEADER_BYTES = 128
FLOAT_BYTES = 4


def header(count: int, width: int) -> bytes:
    """The header of a file of `count` vectors of `width` numbers.

    >>> header(3, 2)[:6], len(header(10**12, 10**6))
    (b'\\x93NUMPY', 128)
    """
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {width}), }}"
    before = b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little")
    return before + shape.ljust(HEADER_BYTES - 11).encode("ascii") + b"\n"


def complete_vectors(file: BinaryIO, width: int) -> int:
    """How many vectors a file without its header holds; an incomplete last one is cut off."""
    size = os.fstat(file.fileno()).st_size
    count = max(size - HEADER_BYTES, 0) // (FLOAT_BYTES * width)
    file.truncate(HEADER_BYTES + count * FLOAT_BYTES * width)
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
