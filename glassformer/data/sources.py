"""Resolves a caller's source to files: a file, a folder, a pattern, standard input, a data set of a hub, or a list."""

from __future__ import annotations

import contextlib
import difflib
import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ..checkpoints.dataset_files import find_dataset_files
from ..checkpoints.files import reason_of
from ..errors import DataError, InputError, nearest, spelt
from ..text.base.character_encodings import UTF8, check_encoding
from ..text.base.text_inputs import describe
from .class_folders import IMAGES, PACKED, SOUNDS, WHOLE_FILES, find_classes, sub_folders

FORMATS = {
    "txt": (".txt",),
    "csv": (".csv",),
    "tsv": (".tsv", ".tab"),
    "jsonl": (".jsonl", ".ndjson"),
    "json": (".json",),
    "squad": (),  # the same suffix as json, whose reader recognises it
    "conll": (".conll", ".bmes", ".bio", ".bioes", ".iob", ".iob2"),
    "parquet": (".parquet",),
    "document": (),  # one text in each file, of any suffix
    "image": IMAGES,
    "audio": SOUNDS,
}
BINARY = ("parquet", "image", "audio")
FORMAT_OF = {suffix: format for format, suffixes in FORMATS.items() for suffix in suffixes}

DATASET = re.compile(
    r"hf://datasets/(?P<name>[\w.-]+/[\w.-]+?)(@(?P<revision>refs/(?:convert|pr)/[^/]+|[^/]+))?/(?P<path>.+)", re.ASCII
)


@dataclass(frozen=True)
class Source:
    """One file: its name in errors, its path (None is standard input), its format, and its encoding if it is text.

    A file in a folder of one class has that folder's name as its label.
    """

    name: str
    path: Path | None
    format: str
    is_packed: bool = False
    encoding: str = UTF8
    label: str | None = None


def find_sources(source: Any, format: str | None, encoding: str | None = None, **hub: Any) -> list[Source]:
    """All files that a caller's source stands for, in the order named; those of a folder or a pattern by name.

    `hub` are the keywords of `find_dataset_files`.
    """
    if format is not None and format not in FORMATS:
        hint = nearest(str(format), FORMATS)
        raise InputError(f"format must be one of {', '.join(FORMATS)}, got {describe(format)}{hint}")
    several = isinstance(source, Sequence) and not isinstance(source, str | bytes)
    sources = [each for item in (source if several else [source]) for each in expand(item, format, hub)]
    if not sources:
        raise InputError("rows are read from files, got an empty list of them")
    if sum(each.path is None for each in sources) > 1:
        raise InputError("standard input ('-') can be read once, and is named more than once")
    other = next((each.format for each in sources if each.format in BINARY), None)
    if encoding is not None and other:
        raise InputError(f"encoding is for files of text, and {other} is none; got {describe(encoding)}")
    return [replace(each, encoding=check_encoding(encoding)) for each in sources]


def expand(item: Any, format: str | None, hub: dict[str, Any]) -> Iterator[Source]:
    name = os.fspath(item) if isinstance(item, os.PathLike) else item
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"rows are read from a file, a folder, a pattern or '-', got {describe(item)}")
    if name == "-":
        yield standard_input(format)
    elif name.startswith("hf://"):
        yield from hub_files(name, format, hub)
    elif "://" in name:
        raise InputError(f"{name!r} cannot be read: of addresses only hf://datasets/OWNER/NAME/PATH is; fetch it first")
    else:
        yield from local_files(name, format)


def standard_input(format: str | None) -> Source:
    if format is None:
        raise InputError(f"standard input has no suffix: say {spelt('reading', 'format', '...')}, {list_formats()}")
    if format in BINARY:
        raise InputError(f"{format} cannot be read from standard input; name a file")
    return Source("standard input", None, format)


def local_files(name: str, format: str | None) -> Iterator[Source]:
    path = Path(name).expanduser()
    try:
        if path.is_dir():
            yield from folder_files(path, format)
        elif path.exists():  # not is_file: a named pipe will do
            yield make_source(str(path), path, format)
        elif glob.has_magic(name):
            matches = [match for match in match_pattern(str(path)) if not os.path.isdir(match)]
            if not matches:
                raise InputError(f"no file matches {name!r}")
            yield from check_one_format(
                [make_source(match, Path(match), format) for match in matches], f"pattern {name!r}"
            )
        else:
            raise InputError(f"there is no file {name!r}{similar_files_hint(path)}")
    except OSError as error:
        raise InputError(f"{name!r} cannot be read: {reason_of(error)}") from None


def match_pattern(pattern: str) -> list[str]:
    """The paths that match a pattern, by name. `**` enters each folder once, whatever links lead to it."""
    parts = pattern.split(os.sep)
    if "**" not in parts:
        return sorted(glob.glob(pattern))
    first = parts.index("**")
    rest = [part for i, part in enumerate(parts[first:]) if part != "**" or parts[first + i - 1] != "**"][1:]
    before = os.sep.join([*parts[:first], ""])
    matches: set[str] = set()
    for start in glob.glob(before) if before else [""]:
        for folder in folders_below(start):
            matches.update(match_pattern(glob.escape(folder) + (os.sep.join(rest) or "*")))
    return sorted(matches)


def folders_below(start: str) -> Iterator[str]:
    """A folder and all below it that are not hidden, each once, as beginnings of paths; real folders before links."""
    seen: set[tuple[int, int]] = set()
    waiting = [start]
    links: list[str] = []
    while waiting or links:
        folder = waiting.pop() if waiting else links.pop(0)
        facts = os.stat(folder or os.curdir)
        if (facts.st_dev, facts.st_ino) in seen:
            continue
        seen.add((facts.st_dev, facts.st_ino))
        yield folder
        with contextlib.suppress(PermissionError), os.scandir(folder or os.curdir) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and os.path.isdir(entry):
                    (links if entry.is_symlink() else waiting).append(folder + entry.name + os.sep)


def similar_files_hint(path: Path) -> str:
    """A hint at files of a similar name beside a missing one."""
    try:
        beside = sorted(entry.name for entry in path.absolute().parent.iterdir())
    except OSError:
        return f", nor a folder {str(path.parent)!r}"
    close = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.6)
    return f" (near it: {', '.join(map(repr, close))})" if close else ""


def folder_files(folder: Path, format: str | None) -> list[Source]:
    """The data files right in a folder, which must be of one format; with `format`, every file that is not hidden.

    Of a folder per class, the files in these folders, with their labels.
    """
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))
    if format is None:
        names = [name for name in names if suffix_of(name) in FORMAT_OF]
    formats = {format} if format else {FORMAT_OF[suffix_of(name)] for name in names}
    if formats <= {"txt", *WHOLE_FILES} and format != "txt":
        classes = find_classes(folder, format, names)
        if classes is not None:
            kind, files = classes
            return [
                replace(make_source(str(path), path, kind), label=label)
                for label, paths in files.items()
                for path in paths
            ]
    if not names:
        what = "files" if format else f"files that end in {', '.join(FORMAT_OF)}, or these and {PACKED}"
        raise InputError(f"the folder {str(folder)!r} holds no {what}{folders_hint(folder, format)}")
    sources = [make_source(str(folder / name), folder / name, format) for name in names]
    return check_one_format(sources, f"folder {str(folder)!r}", f", perhaps by a pattern: {str(folder / '*.csv')!r}")


def folders_hint(folder: Path, format: str | None) -> str:
    """What else may have been meant by a folder without data files."""
    inside = [repr(str(each)) for each in sub_folders(folder)]
    if inside:
        return f"; name a folder in it, such as {' or '.join(inside[:2])}"
    has_files = format is None and any(entry.is_file() for entry in folder.iterdir())
    return f"; to read each file as one text, say {spelt('reading', 'format', 'document')}" if has_files else ""


def check_one_format(sources: list[Source], what: str, hint: str = "") -> list[Source]:
    """Refuse files of several formats, which are not all meant."""
    other = next((each for each in sources if each.format != sources[0].format), None)
    if other:
        names = " and ".join(repr(os.path.basename(each.name)) for each in (sources[0], other))
        raise InputError(f"the {what} holds files of several formats, such as {names}; name those to read{hint}")
    return sources


def make_source(name: str, path: Path, format: str | None) -> Source:
    """One file with its format, that of the suffix unless it is given."""
    is_packed = name.lower().endswith(PACKED)
    format = format or FORMAT_OF.get(suffix_of(name))
    if format is None:
        raise InputError(
            f"the suffix of {name!r} stands for no format: say {spelt('reading', 'format', '...')}, {list_formats()}"
        )
    if format in BINARY and is_packed:
        raise DataError(f"{name} is packed; {format} files pack their contents themselves and are read as they are")
    return Source(name, path, format, is_packed)


def list_formats() -> str:
    return f"one of {', '.join(FORMATS)}"


def suffix_of(name: str) -> str:
    """The suffix that decides the format: `.tsv` of `train.tsv` and of `train.tsv.gz`."""
    return Path(name.lower().removesuffix(PACKED)).suffix


def hub_files(address: str, format: str | None, hub: dict[str, Any]) -> Iterator[Source]:
    """The files of a data set, fetched first: hf://datasets/OWNER/NAME/PATH or hf://datasets/OWNER/NAME@REVISION/PATH.

    The path may be a pattern such as data/train-*.parquet.
    """
    parts = DATASET.fullmatch(address)
    if parts is None:
        raise InputError(
            f"a file of a data set is named hf://datasets/OWNER/NAME/PATH or hf://datasets/OWNER/NAME@REVISION/PATH, "
            f"got {address!r}"
        )
    revision = parts["revision"] and unquote(parts["revision"])
    base = address.removesuffix(parts["path"])
    for file, path in find_dataset_files(parts["name"], parts["path"], revision=revision, **hub).items():
        yield make_source(base + file, path, format)
