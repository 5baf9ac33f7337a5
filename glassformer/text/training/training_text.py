"""Plain text to train on: lines of files, or strings from anywhere. Bad input is named by file and line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import DataError, InputError, TokenizerError
from ..base.character_encodings import SAMPLE, check_encoding, read_text_lines
from ..base.text_inputs import describe


def read_lines(source: Any) -> Iterator[str]:
    """The lines of files, or texts as they are; refuses what is neither, naming it."""
    if isinstance(source, str | PathLike):
        return file_lines([Path(source)])
    if not isinstance(source, Iterable) or isinstance(source, bytes):
        raise InputError(f"training needs paths of text files or an iterator of strings, got {describe(source)}")
    if isinstance(source, list | tuple):
        if not source:
            raise InputError("training needs text, got an empty list")
        paths = [isinstance(each, PathLike) or (isinstance(each, str) and is_file(each)) for each in source]
        if all(paths):
            return file_lines([Path(each) for each in source])
        if any(isinstance(each, PathLike) for each in source) or (any(paths) and len(source) > 1):
            missing = source[paths.index(False)]
            raise TokenizerError(f"{missing!r} is not a file; pass only paths of files, or iter(texts) for texts")
    return text_lines(source)


def is_file(name: str) -> bool:
    """Whether a string names a file; a long text or one with line breaks names none."""
    if len(name) > 4096 or "\n" in name or "\0" in name:
        return False
    try:
        return Path(name).is_file()
    except OSError:
        return False


def text_lines(texts: Iterable[Any]) -> Iterator[str]:
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"text {number} must be a string, got {describe(text)}")
        yield printable(text)


def file_lines(paths: list[Path], encoding: str | None = None) -> Iterator[str]:
    """The lines of text files, UTF-8 if no other encoding is named."""
    for path in paths:
        if not path.is_file():
            raise TokenizerError(f"text file {str(path)!r} does not exist")
        if path.stat().st_size == 0:
            raise TokenizerError(f"text file {str(path)!r} is empty")
    return lines_of(paths, check_encoding(encoding))


def lines_of(paths: list[Path], encoding: str) -> Iterator[str]:
    for path in paths:
        with open(path, "rb") as file:
            for _, line in read_text_lines(file, str(path), encoding, beginning=partial(first_bytes, path)):
                if isinstance(line, DataError):
                    raise TokenizerError(str(line)) from None
                yield line


def first_bytes(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(SAMPLE)


def printable(text: str) -> str:
    """Without lone surrogates, which stand for no character and which Rust cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "ignore").decode("utf-8")
