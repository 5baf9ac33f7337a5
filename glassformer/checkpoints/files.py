"""Atomic writes of small files, and JSON that is never trusted.

Every file is written beside its final name, flushed to the disk and renamed, so that a reader, or a machine that
loses power, meets either the old file or the new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.checkpoints.named_files import leads_elsewhere
from glassformer.errors import CheckpointError, DamagedFileError

JSON_LIMIT = 64 * 2**20  # bytes: the largest real vocabulary is a fifth of this
INDEX_LIMIT = 16 * 2**20

# The names of weights, in the order in which a folder is searched: the first that exists is read.
ENTRIES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)

# A temporary carries its writer's process number, so that one left by a dead process is distinguished from one in use.
TEMPORARY = re.compile(r"\..+\.(\d+)-[0-9a-f]{8}\.glassformer-tmp")
ONE_DAY = 24 * 3600

LFS_POINTER = b"version https://git-lfs.github.com/spec"  # what stands for a large file until Git LFS has fetched it

_in_use: set[Path] = set()


def write_atomically(path: str | os.PathLike, data: bytes | str) -> None:
    """Replace a file in one step: whatever happens, its name holds the old content or the new.

    Text is written as UTF-8. Raises CheckpointError, with the old file intact, when the disk is full or refuses.
    """
    with open_atomically(path) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)


@contextlib.contextmanager
def open_atomically(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name only when the block ends well.

    A failed block leaves no trace; a failure of the disk becomes a CheckpointError that names the file.
    """
    with _temporary_beside(Path(path)) as temporary:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


@contextlib.contextmanager
def replace_atomically(path: str | os.PathLike) -> Iterator[Path]:
    """The same for a library that opens its file by name: the block writes a file of the name that it is given.

    That name is in a folder of its own, so that the library's temporaries are recognised as ours if it is killed.
    """
    with _temporary_beside(Path(path)) as folder:
        os.mkdir(folder)
        written = folder / Path(path).name
        yield written
        os.chmod(written, os.stat(folder).st_mode & 0o666)  # what the umask leaves of an ordinary file's permissions
        with open(written, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(written, path)


@contextlib.contextmanager
def _temporary_beside(path: Path) -> Iterator[Path]:
    """A temporary name in the folder of `path`; whatever still has it at the end is removed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.glassformer-tmp")
    _in_use.add(temporary)
    try:
        try:
            yield temporary
        finally:
            with contextlib.suppress(OSError):
                _remove(temporary)
        flush_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"could not write {path}: {reason_of(error)}") from error
    finally:
        _in_use.discard(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def flush_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network and user-space file systems cannot flush a folder; the rename itself stands
    finally:
        os.close(descriptor)


def remove_stale_temporaries(folder: str | os.PathLike) -> list[Path]:
    """Remove what a killed save of ours left in a folder, and return it.

    Only names of our own pattern are touched, and of these only the ones whose writer no longer runs; a number that
    the system has given to another process since is recognised by the file's age.
    """
    removed: list[Path] = []
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return removed
    except OSError as error:
        raise CheckpointError(f"could not look into {folder}: {reason_of(error)}") from error
    for name in names:
        match = TEMPORARY.fullmatch(name)
        path = Path(folder) / name
        if match and _is_stale(path, int(match[1])):
            with contextlib.suppress(OSError):  # another process may have removed it first
                _remove(path)
                removed.append(path)
    return removed


def _is_stale(path: Path, writer: int) -> bool:
    if writer == os.getpid():
        return path not in _in_use
    try:
        os.kill(writer, 0)  # signal 0 only checks whether the process exists
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    try:
        return time.time() - path.stat().st_mtime > ONE_DAY
    except OSError:
        return False


def read_json(
    path: str | os.PathLike, what: str = "config.json", *, limit: int = JSON_LIMIT, unique: bool = False
) -> dict[str, Any]:
    """Read a JSON object from a file that may be damaged or hostile.

    `what` names the file in errors by its purpose. With `unique`, a key given twice is refused as well.
    Raises DamagedFileError with the reason, and the line where the JSON goes wrong.
    """
    path = Path(path)
    shown = str(path) if path.name == what else f"{path} ({what})"
    if leads_elsewhere(path, path.parent):  # what an error then quotes would be of a file that others must not see
        raise DamagedFileError(f"{shown} is a link out of its folder, to a file of another name: copy that file")
    raw = _read_bounded(path, shown, limit)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DamagedFileError(f"{shown} is not UTF-8 text: byte {raw[error.start]:#04x} in line {line}") from error
    if not text.strip():
        raise DamagedFileError(f"{shown} is empty")
    try:
        value = json.loads(text, object_pairs_hook=unique_keys if unique else None)
    except json.JSONDecodeError as error:
        raise DamagedFileError(f"{shown} is not valid JSON: {error.msg} in line {error.lineno}") from error
    except RecursionError as error:
        raise DamagedFileError(f"{shown} is nested too deeply") from error
    except ValueError as error:
        raise DamagedFileError(f"{shown} is not usable: {error}") from error
    if not isinstance(value, dict):
        raise DamagedFileError(f"{shown} must hold a JSON object, got {_KINDS.get(type(value), 'a number')}")
    return value


_KINDS = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"it names {clip(twice)} twice")
    return result


def read_weight_map(index: str | os.PathLike) -> dict[str, str]:
    """The table of an index file, tensor to shard; every shard is a plain file name beside the index."""
    index = Path(index)
    places = read_json(index, index.name, limit=INDEX_LIMIT, unique=True).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise DamagedFileError(f"{index} has no table 'weight_map' of tensors")
    suffix = ".bin" if index.name.endswith(".bin.index.json") else ".safetensors"
    for name, file in places.items():
        if not isinstance(file, str) or not _is_plain_name(file) or not file.endswith(suffix):
            shown = clip(file) if isinstance(file, str) else type(file).__name__
            raise DamagedFileError(f"{index} places {clip(name)} in {shown}, which is no {suffix} file of this folder")
    return places


def _is_plain_name(file: str) -> bool:
    return file.isprintable() and not set(file) & set("/\\:") and not file.startswith("..")


def _read_bounded(path: Path, shown: str, limit: int) -> bytes:
    with open_regular(path, shown) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise DamagedFileError(f"{shown} has {size:,} bytes, more than the {limit:,} that are read")
        return file.read(limit)


@contextlib.contextmanager
def open_regular(path: Path, shown: str | None = None) -> Iterator[BinaryIO]:
    """Open a file for reading, and nothing that only looks like one.

    A pipe would block, a device never end, and a pointer of Git LFS only refers to the file.
    """
    shown = shown or str(path)
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
        file = open(path, "rb") if is_file else None  # noqa: SIM115 - closed below
    except FileNotFoundError as error:
        raise CheckpointError(f"{shown} does not exist") from error
    except OSError as error:
        raise CheckpointError(f"could not read {shown}: {reason_of(error)}") from error
    except ValueError as error:  # a NUL in the name
        raise CheckpointError(f"{shown!r} is not a file name: {error}") from error
    if file is None:
        raise DamagedFileError(f"{shown} is not a file")
    with file:
        try:
            if file.read(len(LFS_POINTER)) == LFS_POINTER:
                raise DamagedFileError(
                    f"{shown} is not the file itself but a Git LFS pointer to it; run `git lfs pull` in its folder, "
                    f"or download the file itself"
                )
            file.seek(0)
            yield file
        except OSError as error:
            raise CheckpointError(f"could not read {shown}: {reason_of(error)}") from error


def reason_of(error: OSError) -> str:
    """The system's own words for a failure, without numbers and paths."""
    return (error.strerror or str(error)).lower()


def clip(text: str, length: int = 80) -> str:
    """Quote a string from an untrusted file so that it stays one short printable line."""
    start = text[:length]
    shown = repr(start) if start.isprintable() else ascii(start)
    return shown if len(text) <= length else shown + "..."


def make_folder(path: str | os.PathLike) -> Path:
    """The folder at `path`, created if it does not exist."""
    try:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
    except (TypeError, OSError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "a folder is named by a string or a Path"
        raise CheckpointError(f"{str(path)!r} cannot be a folder: {reason}") from None
    return folder
