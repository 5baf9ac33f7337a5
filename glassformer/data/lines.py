"""Bytes -> lines of text, from plain files, packed ones (.gz) and standard input."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import BinaryIO

from ..checkpoints.files import LFS_POINTER, reason_of
from ..errors import DataError
from ..text.base.character_encodings import SAMPLE, decode_text, read_text_lines
from .sources import Source
from .standard_input import standard_input

LONGEST_LINE = 64 * 2**20  # bytes
LARGEST_DOCUMENT = 2**30

Line = tuple[int, str | DataError]  # its number, and its text without the line break, or the error


def read_lines(source: Source) -> Iterator[Line]:
    """The numbered lines of a source, one at a time; for a line that does not fit its encoding its error."""
    with open_source(source) as file:
        for number, line in read_text_lines(
            file, source.name, source.encoding, LONGEST_LINE, partial(first_bytes, source)
        ):
            if number == 1 and isinstance(line, str):
                refuse_pointer(line.encode(errors="replace"), source)
            yield number, line.removesuffix("\n").removesuffix("\r") if isinstance(line, str) else line


def read_document(source: Source) -> str:
    """The complete text of a source that is one document, such as a JSON file."""
    with open_source(source) as file:
        raw = file.read(LARGEST_DOCUMENT + 1)
    refuse_pointer(raw[: len(LFS_POINTER)], source)
    if len(raw) > LARGEST_DOCUMENT:
        raise DataError(
            f"{source.name} is larger than {LARGEST_DOCUMENT >> 30} GB, too large for one document; write one object "
            f"in each line (.jsonl), which is read row by row"
        )
    return decode_text(raw, source.name, source.encoding)


@contextlib.contextmanager
def open_source(source: Source) -> Iterator[BinaryIO]:
    """The bytes of a source; an error of the system becomes a DataError that names the source."""
    try:
        with open_stream(source) as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{source.name} is damaged, or not what .gz says: {str(error).lower()}") from None
    except OSError as error:
        raise DataError(f"{source.name} cannot be read: {reason_of(error)}") from None


def open_stream(source: Source) -> AbstractContextManager[BinaryIO]:
    if source.path is None:
        return contextlib.nullcontext(standard_input())
    return gzip.open(source.path, "rb") if source.is_packed else open(source.path, "rb")


def first_bytes(source: Source) -> bytes:
    """The first bytes of a file, from which its encoding can be guessed; nothing of standard input."""
    if source.path is None or not source.path.is_file():
        return b""
    with open_source(source) as file:
        return file.read(SAMPLE)


def refuse_pointer(raw: bytes, source: Source) -> None:
    if raw.startswith(LFS_POINTER):
        raise DataError(f"{source.name} is not the file itself but a Git LFS pointer to it; run `git lfs pull`")
