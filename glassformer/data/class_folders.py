"""A folder with a sub-folder for each class, whose files are one text, one picture or one recording each."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..checkpoints.files import reason_of
from ..errors import InputError

log = logging.getLogger("glassformer")

IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
SOUNDS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif")
# The kinds of files that are a row each. Those that decide come first: beside pictures there may be a LICENSE.
WHOLE_FILES = {"image": IMAGES, "audio": SOUNDS, "document": (".txt", "")}
COLUMNS = {"image": "image", "audio": "audio", "document": "text"}  # what a row calls its file, or its text
PACKED = ".gz"

PARTS = frozenset("train training test testing dev development val valid validation eval evaluation".split())
UNLABELLED = "unsup"  # IMDB's reviews that nobody has judged


@dataclass
class ClassFolder:
    """The files in a sub-folder, by kind, and those of no kind."""

    path: Path
    files: dict[str, list[Path]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)


def whole_file_kind(name: str) -> str | None:
    """The kind of a file by its name; texts end in .txt, in a number, or have no suffix.

    >>> [whole_file_kind(name) for name in ("0_9.txt", "49960", "cat.JPG", "notes.md")]
    ['document', 'document', 'image', None]
    """
    suffix = Path(name.lower().removesuffix(PACKED)).suffix
    if suffix[1:].isdecimal():
        return "document"
    return next((kind for kind, suffixes in WHOLE_FILES.items() if suffix in suffixes), None)


def find_classes(folder: Path, format: str | None, beside: Sequence[str]) -> tuple[str, dict[str, list[Path]]] | None:
    """The kind of the files in a folder's sub-folders, and these files by class; None if the folder has no classes.

    With a `format` every file is of that kind. `beside` are the data files in the folder itself.
    """
    found = {each.name: read_class_folder(each, format) for each in sub_folders(folder)}
    classes = {name: each for name, each in found.items() if each.files}
    if not classes or (beside and len(classes) == 1):
        return None
    check_parts(folder, classes)
    check_links(folder, classes)
    kinds = [kind for kind in WHOLE_FILES if any(kind in each.files for each in classes.values())]
    if kinds[:2] == ["image", "audio"]:
        raise InputError(f"the folders in {str(folder)!r} hold pictures and recordings; one data set holds one of them")
    kind = kinds[0]
    labelled = {name: each.files[kind] for name, each in classes.items() if kind in each.files}
    check_files_beside(folder, kind, beside, labelled)
    report_files_left_out(folder, kind, found)
    if len(labelled) > 1 and UNLABELLED in labelled:
        without = labelled.pop(UNLABELLED)
        message = "%s: %d files without a label are left out; name that folder to read them"
        log.warning(message, folder / UNLABELLED, len(without))
    if len(labelled) == 1:
        (only,) = labelled
        raise InputError(f"{str(folder)!r} holds one folder of files, so one class: name {str(folder / only)!r} itself")
    return kind, labelled


def sub_folders(folder: Path) -> list[Path]:
    """The folders in a folder that are not hidden, by name."""
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def read_class_folder(folder: Path, format: str | None) -> ClassFolder:
    """The files right in a folder, by name."""
    found = ClassFolder(folder)
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        for entry in entries:
            if entry.name.startswith("."):
                continue
            if entry.is_symlink() and not os.path.exists(entry.path):
                raise InputError(f"{entry.path!r} is a link to a file that is not there")
            kind = (format or whole_file_kind(entry.name)) if entry.is_file() else None
            if kind is None:
                found.others.append(entry.name)
            else:
                found.files.setdefault(kind, []).append(folder / entry.name)
    except OSError as error:
        raise InputError(f"{str(folder)!r} cannot be read: {reason_of(error)}") from None
    return found


def check_parts(folder: Path, classes: Mapping[str, ClassFolder]) -> None:
    """Refuse the parts of a data set as its classes, and names that no config file could hold."""
    if all(name.lower() in PARTS for name in classes):
        parts = " and ".join(repr(str(folder / name)) for name in list(classes)[:3])
        raise InputError(f"{str(folder)!r} holds the parts of a data set, not classes: name one of {parts}")
    for name in classes:
        if any("\ud800" <= character <= "\udfff" for character in name):
            raise InputError(f"the folder {str(folder / name)!a} is to be a label, and its name is no UTF-8")


def check_links(folder: Path, classes: Mapping[str, ClassFolder]) -> None:
    """Refuse a folder under two names, and a link that leads up: its files would have two labels, or a wrong one."""
    above = {identity(each): each for each in (folder.absolute(), *folder.absolute().parents)}
    seen: dict[tuple[int, int], str] = {}
    for name, each in classes.items():
        who = identity(each.path)
        if who in above:
            raise InputError(f"{str(each.path)!r} is a link to {str(above[who])!r}, which holds it, so it is no class")
        if who in seen:
            raise InputError(f"{str(folder / seen[who])!r} and {str(each.path)!r} are one folder, so not two classes")
        seen[who] = name


def identity(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_dev, facts.st_ino


def check_files_beside(folder: Path, kind: str, beside: Sequence[str], labelled: Mapping[str, Sequence[Path]]) -> None:
    """Raise if data files lie beside the classes, and nobody can tell which of them are meant.

    The classes are, if the files are of another kind or belong to the classes by their names: IMDB's urls_pos.txt.
    """
    same = [name for name in beside if whole_file_kind(name) == kind]
    unclear = [name for name in same if not Path(name).stem.endswith(tuple(labelled))]
    if unclear:
        pattern = str(folder / ("*" + Path(unclear[0]).suffix))
        raise InputError(
            f"{str(folder)!r} holds files, such as {unclear[0]!r}, and folders that may be classes, such as "
            f"{next(iter(labelled))!r}: name the files to read these ({pattern!r}), or move them away to read classes"
        )
    if beside:
        shown = ", ".join(beside[:3]) + (", ..." if len(beside) > 3 else "")
        log.warning("%s: its folders are read as classes, and not the files beside them: %s", folder, shown)


def report_files_left_out(folder: Path, kind: str, found: Mapping[str, ClassFolder]) -> None:
    """Log how many entries of the sub-folders are not rows."""
    left: list[str] = []
    for name, each in found.items():
        others = [path.name for other, paths in each.files.items() if other != kind for path in paths]
        left += [os.path.join(name, other) for other in (*each.others, *others)]
        if not each.files and not each.others:
            left.append(name)
    if left:
        log.warning("%s: %d entries are not read, as they are no %ss, such as %s", folder, len(left), kind, left[0])
