"""Bytes -> lines of text, from plain files, packed ones (.gz) and standard input."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import logging
import math
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import BinaryIO

from ..checkpoints.files import LFS_POINTER, reason_of
from ..errors import DataError
from ..text.base.character_encodings import SAMPLE, decode_text, has_plain_line_ends, read_text_lines
from .sources import Source
from .standard_input import standard_input

log = logging.getLogger("glassformer")

LONGEST_LINE = 64 * 2**20  # bytes
LARGEST_DOCUMENT = 2**30
BLOCK = 2**20
# A packed document of at least so many bytes may be so many times as large as its file; text packs 3 to 50 times.
SUSPICIOUS_SIZE, LARGEST_RATIO = 64 * BLOCK, 200

Line = tuple[int, str | DataError]  # its number, and its text without the line break, or the error


def read_lines(source: Source) -> Iterator[Line]:
    """The numbered lines of a source, one at a time; for a line that does not fit its encoding its error."""
    with open_source(source) as file:
        lines = read_text_lines(file, source.name, source.encoding, LONGEST_LINE, partial(first_bytes, source))
        begin = list(itertools.islice(lines, 1))
        for _, line in begin[:]:
            if isinstance(line, str):
                refuse_pointer(line.encode(errors="replace"), source)
                if "\r" in without_end(line):
                    begin += itertools.islice(lines, 1)
                    if len(begin) == 1:  # a file without a line feed, or with one at its end
                        yield from enumerate(without_end(line).split("\r"), start=1)
                        return
        is_reported = False
        for number, line in itertools.chain(begin, lines):
            text = without_end(line) if isinstance(line, str) else line
            if not is_reported and isinstance(text, str) and "\r" in text:
                message = "%s, line %d: a carriage return is read as a character, as lines end in line feeds here"
                log.warning(message, source.name, number)
                is_reported = True
            yield number, text


def without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def read_document(source: Source) -> str:
    """The complete text of a source that is one document, such as a JSON file."""
    with open_source(source) as file:
        raw = bytearray()
        while block := file.read(BLOCK):
            raw += block
            if len(raw) > LARGEST_DOCUMENT:
                raise DataError(
                    f"{source.name} is larger than {LARGEST_DOCUMENT >> 30} GB, too large for one document; write one "
                    f"object in each line (.jsonl), which is read row by row"
                )
            if b"\0" in block and has_plain_line_ends(source.encoding):
                decode_text(bytes(raw[:SAMPLE]), source.name, source.encoding)  # it may be in another encoding
                line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
                what = "no text" if source.format == "document" else "broken JSON"
                raise DataError(f"{source.name}, line {line}: {what} (a byte that is zero)")
            if len(raw) > SUSPICIOUS_SIZE and source.is_packed and len(raw) > LARGEST_RATIO * packed_size(source):
                raise DataError(
                    f"{source.name} unpacks to more than {LARGEST_RATIO} times its size, so it is no document of rows; "
                    f"unpack it to read it nevertheless"
                )
    refuse_pointer(bytes(raw[: len(LFS_POINTER)]), source)
    return decode_text(bytes(raw), source.name, source.encoding)


def packed_size(source: Source) -> float:
    """How many bytes a file has; no limit for one whose size is not known, such as a pipe."""
    return source.path.stat().st_size if source.path is not None and source.path.is_file() else math.inf


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
