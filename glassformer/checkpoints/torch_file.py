"""One pytorch_model.bin: read without ever running what it holds, and written.

A pickle is a program. It is scanned for anything but tensors, then read by torch's restricted unpickler, never by the
full one. Sizes are compared with that of the file before anything is allocated.
"""

from __future__ import annotations

import math
import mmap
import os
import pickletools
import re
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from glassformer.checkpoints.files import clip, open_regular, reason_of
from glassformer.checkpoints.formats import CODES, TensorInfo, one_line
from glassformer.errors import CheckpointError, DamagedFileError, UnsafeFileError

# Bounds that keep a hostile file cheap, in bytes: the table of tensors, and the list of an archive's members.
PICKLE_LIMIT = 64 * 2**20
DIRECTORY_LIMIT = 8 * 2**20

# All that a file of tensors has to name. Anything else would be called with arguments of the file's choosing.
_HARMLESS = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|tensor_v3|parameter)"
    r"|torch(\.storage)? (Untyped|Typed|Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool|ComplexFloat)Storage"
    r"|torch (Size|bfloat16|float(16|32|64)|float8_\w+|u?int(8|16|32|64)|bool|complex64)"
)
_LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that torch wrote first before it used zip


class TorchFile:
    """One pytorch_model.bin, read by the restricted unpickler and mapped where its format allows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            self.size = os.fstat(file.fileno()).st_size
            start = file.read(len(_LEGACY_START))
            zipped = start.startswith(b"PK\x03\x04")
            if zipped:
                _look_through_zip(file, path, self.size)
            else:
                _look_through_legacy(file, path, self.size, start)
        loaded = _load_restricted(path, mapped=zipped)
        self._tensors = _check_loaded(loaded, path, self.size)
        self.metadata = _metadata_of(loaded)
        self.infos = {name: TensorInfo(value.dtype, tuple(value.shape), path) for name, value in self._tensors.items()}

    def read(self, name: str) -> torch.Tensor:
        return self._tensors[name]


def _look_through_zip(file: BinaryIO, path: Path, size: int) -> None:
    """Refuse an archive that is not what torch writes: every member stored as it is, the pickle naming tensors only."""
    try:
        _check_directory_size(file, path, size)
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            pickles = [m for m in members if m.filename.endswith(".pkl") and m.filename.count("/") <= 1]
            if any(m.filename.endswith("constants.pkl") for m in members):
                raise UnsafeFileError(f"{path} is a TorchScript program, not a file of weights")
            if any(m.compress_type != zipfile.ZIP_STORED or m.compress_size != m.file_size for m in members):
                raise DamagedFileError(f"{path} has compressed members, which torch never writes")
            if sum(m.file_size for m in members) > size or len({m.filename for m in members}) < len(members):
                raise DamagedFileError(f"{path} declares more data than its {size:,} bytes hold")
            if len(pickles) != 1 or not pickles[0].filename.endswith("data.pkl"):
                raise DamagedFileError(f"{path} is a zip archive, but not one of tensors")
            if pickles[0].file_size > PICKLE_LIMIT:
                raise DamagedFileError(f"{path} has a table of {pickles[0].file_size:,} bytes, too long for weights")
            _look_through_pickle(archive.read(pickles[0]), path, size)
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{path} is truncated or damaged: {one_line(error)}") from error


def _check_directory_size(file: BinaryIO, path: Path, size: int) -> None:
    """Refuse an archive whose list of members would fill the memory; torch writes no comment after the list."""
    file.seek(max(0, size - 98))
    tail = file.read()
    if tail[-22:-18] != b"PK\x05\x06":
        raise DamagedFileError(f"{path} is truncated: it does not end as a torch file does")
    lengths = [struct.unpack("<I", tail[-10:-6])[0]]
    if tail[-98:-94] == b"PK\x06\x06":
        lengths.append(struct.unpack("<Q", tail[-58:-50])[0])
    if min(lengths) > DIRECTORY_LIMIT or (max(lengths) > DIRECTORY_LIMIT and max(lengths) != 0xFFFFFFFF):
        raise DamagedFileError(f"{path} lists more members than the {DIRECTORY_LIMIT:,} bytes that are read")


def _look_through_legacy(file: BinaryIO, path: Path, size: int, start: bytes) -> None:
    """Refuse an old torch file, a row of pickles and then values, whose pickles name more than tensors."""
    if size == 0:
        raise DamagedFileError(f"{path} is empty")
    with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as stream:
        if start != _LEGACY_START:
            if start[:1] == b"\x80":  # some other pickle: report what it would run, if that is its purpose
                _look_through_pickle(stream, path, math.inf)
            raise DamagedFileError(f"{path} is not a file that torch wrote, or its start is damaged")
        for limit in (math.inf, math.inf, math.inf, size, math.inf):  # magic, version, machine, tensors, storages
            _look_through_pickle(stream, path, limit)


def _look_through_pickle(stream: Any, path: Path, limit: float) -> None:
    """Read a pickle's instructions without following them; no number in it may exceed what the file could hold."""
    strings: list[str] = []
    try:
        for operation, argument, _ in pickletools.genops(stream):
            if operation.name == "GLOBAL" and _HARMLESS.fullmatch(str(argument)):
                continue
            if operation.name in ("GLOBAL", "INST", "STACK_GLOBAL"):
                called = argument or " ".join(strings)
                raise UnsafeFileError(
                    f"{path} would run {clip(called.replace(' ', '.'))[1:-1]} if it were loaded; only tensors are read"
                )
            if operation.name in ("EXT1", "EXT2", "EXT4", "OBJ", "NEWOBJ", "NEWOBJ_EX"):
                raise UnsafeFileError(f"{path} would build Python objects if it were loaded; only tensors are read")
            if isinstance(argument, str):
                strings = [*strings[-1:], argument]  # the last two: STACK_GLOBAL takes its names from them
            elif isinstance(argument, int) and argument > limit:
                raise DamagedFileError(f"{path} declares a size of {argument:,}, the file has {limit:,} bytes")
    except (UnsafeFileError, DamagedFileError):
        raise
    except Exception as error:  # pickletools raises whatever the damaged bytes lead it to
        raise DamagedFileError(f"{path} is truncated or damaged: {one_line(error)}") from error


def _load_restricted(path: Path, mapped: bool) -> Any:
    try:
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # what names code was refused before; what still fails here is damage
        raise DamagedFileError(f"{path} is truncated or damaged: {one_line(error)}") from error


def _check_loaded(loaded: Any, path: Path, size: int) -> dict[str, torch.Tensor]:
    if isinstance(loaded, torch.Tensor) or not isinstance(loaded, Mapping):
        raise DamagedFileError(f"{path} must hold a table of named tensors, got one {type(loaded).__name__}")
    for name, value in loaded.items():
        if not isinstance(name, str):
            raise DamagedFileError(f"{path} names a tensor by {clip(str(name))}, which is no string")
        if not isinstance(value, torch.Tensor):
            raise DamagedFileError(
                f"{path}: {clip(name)} is no tensor but a {type(value).__name__}{_hint(name, value)}"
            )
        if value.layout != torch.strided or value.device.type != "cpu" or value.dtype not in CODES:
            raise DamagedFileError(f"{path}: {clip(name)} is no plain tensor but {value.layout}, {value.dtype}")
        if value.nbytes > size:
            raise DamagedFileError(f"{path}: {clip(name)} claims {value.nbytes:,} bytes, the file has {size:,}")
    return {name: value.detach() for name, value in loaded.items()}


def _metadata_of(loaded: Any) -> dict[str, str]:
    """The metadata that `write_torch` wrote; files of others hold the versions of their modules there."""
    table = getattr(loaded, "_metadata", None)
    about = table.get("") if isinstance(table, Mapping) else None
    return {k: v for k, v in about.items() if isinstance(v, str)} if isinstance(about, Mapping) else {}


def _hint(name: str, value: Any) -> str:
    if isinstance(value, Mapping) and any(isinstance(part, torch.Tensor) for part in value.values()):
        return f": this is a training checkpoint; save the table under {clip(name)} on its own"
    return ""


def write_torch(
    file: BinaryIO, tensors: Mapping[str, torch.Tensor], path: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors, with metadata where torch keeps that of a state_dict's modules."""
    try:
        # Cloned where a tensor is part of something larger, because torch writes complete storages.
        table = OrderedDict((name, _on_its_own(tensor.detach().cpu())) for name, tensor in tensors.items())
        if metadata:
            table._metadata = {"": dict(metadata)}  # type: ignore[attr-defined]
        torch.save(table, file)
    except (OSError, RuntimeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else one_line(error)
        raise CheckpointError(f"could not write {path}: {reason}") from error


def _on_its_own(tensor: torch.Tensor) -> torch.Tensor:
    alone = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if alone else tensor.clone(memory_format=torch.contiguous_format)
