"""Bytes -> lines of text, from plain files, packed ones (.gz) and standard input. UTF-8 is all that is read."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

from ..checkpoints.files import LFS_POINTER, reason_of
from ..errors import DataError
from .file_row import fault_at
from .sources import Source

LONGEST_LINE = 64 * 2**20  # bytes
LARGEST_DOCUMENT = 2**30

Line = tuple[int, str | DataError]  # its number, and its text without the line break, or the error


def read_lines(source: Source) -> Iterator[Line]:
    """The numbered lines of a source, one at a time; for a line that is not UTF-8 its error."""
    with open_source(source) as file:
        number = 0
        while raw := file.readline(LONGEST_LINE + 1):
            number += 1
            if len(raw) > LONGEST_LINE:
                raise fault_at(source.name, number, f"longer than {LONGEST_LINE >> 20} MB, so it is no line of text")
            if number == 1:
                raw = strip_byte_order_mark(raw, source)
            try:
                text = raw.decode("utf-8")
            except UnicodeDecodeError as error:
                yield number, fault_at(source.name, number, describe_utf8_error(error))
            else:
                yield number, text.removesuffix("\n").removesuffix("\r")


def read_document(source: Source) -> str:
    """The complete text of a source that is one document, such as a JSON file."""
    with open_source(source) as file:
        raw = strip_byte_order_mark(file.read(LARGEST_DOCUMENT + 1), source)
    if len(raw) > LARGEST_DOCUMENT:
        raise DataError(
            f"{source.name} is larger than {LARGEST_DOCUMENT >> 30} GB, too large for one document; write one object "
            f"in each line (.jsonl), which is read row by row"
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault_at(source.name, raw.count(b"\n", 0, error.start) + 1, describe_utf8_error(error)) from None


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
        return contextlib.nullcontext(sys.stdin.buffer)
    return gzip.open(source.path, "rb") if source.is_packed else open(source.path, "rb")


def strip_byte_order_mark(raw: bytes, source: Source) -> bytes:
    """The beginning of a file without the byte order mark that some editors write."""
    if raw.startswith(LFS_POINTER):
        raise DataError(f"{source.name} is not the file itself but a Git LFS pointer to it; run `git lfs pull`")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DataError(f"{source.name} is written in UTF-16; convert it to UTF-8")
    return raw.removeprefix(b"\xef\xbb\xbf")


def describe_utf8_error(error: UnicodeDecodeError) -> str:
    return f"not UTF-8 (byte 0x{error.object[error.start]:02x}, {error.reason}); convert the file to UTF-8"
