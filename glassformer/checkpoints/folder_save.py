"""Saves of several files that take their places in a folder in one step.

    folder/.NAME.PID-XXXXXXXX.glassformer-tmp/   the files while they are written: removed by the next save if killed
    folder/.glassformer-save/                    the same, complete: one rename makes the save valid
    folder/...                                   where the files are moved then

Whoever finds a complete save, the process itself or the next one that loads or saves, moves its files; so a process
that is killed leaves the old files or the new ones, never some of both. Other files of the folder are not touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import CheckpointError, DamagedFileError
from .files import ENTRIES, TEMPORARY, clip, flush_folder, make_folder, read_json, reason_of, remove_stale_temporaries
from .named_files import is_inside

COMPLETE = ".glassformer-save"
CONTENTS = "contents.json"  # in the folder of a save, removed last: the files that the new ones replace
SHARD = re.compile(
    r"(model-\d{5}-of-\d{5}(\.staged-[0-9a-f]{8})?\.safetensors"
    r"|pytorch_model-\d{5}-of-\d{5}(\.staged-[0-9a-f]{8})?\.bin)"
)
TOKENIZER, TOKENIZER_EXTRAS = "tokenizer_config.json", ("added_tokens.json", "tokenizer.json")


@contextlib.contextmanager
def saved_together(folder: str | os.PathLike) -> Iterator[Path]:
    """A folder to write files into, which take their places in `folder` together when the block ends well.

    Of weights and of a tokenizer's files, those that a new set replaces go, too. A failure leaves `folder` as it was.
    """
    target = make_folder(folder)
    if TEMPORARY.fullmatch(target.name):  # a part of a larger save, which nobody reads before that is complete
        yield target
        return
    finish_save(target)
    remove_stale_temporaries(target)
    staged = target / f".save.{os.getpid()}-{secrets.token_hex(4)}.glassformer-tmp"
    try:
        os.mkdir(staged)
        yield staged
        complete(staged, target)
    except OSError as error:
        raise CheckpointError(f"could not write into {folder}: {reason_of(error)}") from error
    except CheckpointError as error:
        raise type(error)(str(error).replace(str(staged), str(folder))) from error
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    finish_save(target)


def complete(staged: Path, target: Path) -> None:
    """Make a save valid: from here on its files count."""
    files = [path.relative_to(staged) for path in files_in(staged)]
    for file in files:
        if (target / file).is_dir():
            raise CheckpointError(f"could not write {target / file}: there is a folder of this name")
    contents = {"replaced": replaced_by({str(file) for file in files}, target)}
    with open(staged / CONTENTS, "x", encoding="utf-8") as written:
        json.dump(contents, written)
        written.flush()
        os.fsync(written.fileno())
    for each in {path.parent for path in files_in(staged)}:
        flush_folder(each)
    finish_save(target)  # another process may have saved meanwhile
    os.rename(staged, target / COMPLETE)
    flush_folder(target)


def replaced_by(new: set[str], target: Path) -> list[str]:
    """The files of a folder that belong to a set of weights or a tokenizer that the new files replace."""
    found = [name for name in os.listdir(target) if not (target / name).is_dir()]
    gone: list[str] = []
    if new & set(ENTRIES):
        gone += [name for name in found if name in ENTRIES or SHARD.fullmatch(name)]
    if TOKENIZER in new:
        gone += [name for name in found if name in TOKENIZER_EXTRAS]
    return sorted(set(gone) - new)


def finish_save(folder: Path) -> None:
    """Move the files of a save that is complete to their places, if a folder has one."""
    saved = folder / COMPLETE
    if not saved.is_dir():
        return
    try:
        with locked(saved) as is_there:
            if is_there:
                move_files(saved, folder)
                with contextlib.suppress(OSError):
                    shutil.rmtree(saved)
                flush_folder(folder)
    except OSError as error:
        raise CheckpointError(
            f"a save into {folder} is complete, but its files could not be moved out of {saved}: {reason_of(error)}"
        ) from error


def move_files(saved: Path, folder: Path) -> None:
    if not (saved / CONTENTS).exists():
        return  # all were moved, and only the folder is left
    replaced = read_json(saved / CONTENTS, CONTENTS).get("replaced")
    for name in replaced if isinstance(replaced, list) else ():
        if name in ENTRIES or name in TOKENIZER_EXTRAS or (isinstance(name, str) and SHARD.fullmatch(name)):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(folder / name)
    for inner in (path for path, _, _ in os.walk(saved)):
        place = folder / Path(inner).relative_to(saved)
        if not is_inside(place, folder):  # a checkpoint of others may come with links, and with a save
            raise DamagedFileError(f"{inner} would be moved to {clip(str(place))}, outside of {folder}")
        place.mkdir(exist_ok=True)
    for path in sorted(files_in(saved), key=lambda path: (path.suffix != ".json", path)):  # the index of shards first
        if path != saved / CONTENTS:
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, folder / path.relative_to(saved))
    flush_folder(folder)
    os.unlink(saved / CONTENTS)


def files_in(folder: Path) -> list[Path]:
    return [Path(root) / name for root, _, names in os.walk(folder) for name in names]


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock against other processes; says whether the folder is still there."""
    try:
        descriptor: Any = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        with contextlib.suppress(ImportError, OSError):  # some systems, and some network file systems, have no locks
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield os.path.samestat(os.stat(folder), os.fstat(descriptor))
        except FileNotFoundError:
            yield False
    finally:
        os.close(descriptor)
