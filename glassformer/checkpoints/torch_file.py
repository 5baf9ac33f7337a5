"""One pytorch_model.bin: read without ever running what it holds, and written.

A pickle is a program: it is read by `tensor_pickle`, which builds nothing but descriptions of tensors, and never by
torch. Sizes are compared with that of the file before anything is allocated.
"""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from glassformer.checkpoints.file_values import FileValues
from glassformer.checkpoints.files import clip, open_regular, reason_of
from glassformer.checkpoints.formats import CODES, TensorInfo, one_line
from glassformer.checkpoints.tensor_pickle import read_pickle
from glassformer.checkpoints.tensor_refs import OrderedTable, TensorRef, kind_of
from glassformer.errors import CheckpointError, DamagedFileError, UnsafeFileError

# Bounds that keep a hostile file cheap, in bytes: the table of tensors, and the list of an archive's members.
PICKLE_LIMIT = 16 * 2**20
DIRECTORY_LIMIT = 8 * 2**20
VIEWS_LIMIT = 4  # tied weights have several names, but a file is not read more often than this
INF = math.inf

_LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that torch wrote first before it used zip


class TorchFile:
    """One pytorch_model.bin, whose values are read when they are requested.

    With a `section`, the tensors are those of the table of that name, and `about` holds what stands beside it.
    """

    def __init__(self, path: Path, section: str | None = None) -> None:
        self.path = path
        with open_regular(path) as file:
            self.size = os.fstat(file.fileno()).st_size
            is_zip = file.read(4) == b"PK\x03\x04"
            file.seek(0)
            read = _read_zip if is_zip else _read_legacy
            table, self.about, self._places = read(file, path, self.size, section)
            self._values = FileValues(file, path)
        self._tensors: dict[str, TensorRef] = table
        self.metadata = _metadata_of(table)
        self.infos = {name: TensorInfo(tensor.dtype, tensor.shape, path) for name, tensor in self._tensors.items()}

    def read(self, name: str) -> torch.Tensor:
        tensor = self._tensors[name]
        if not tensor.span:
            return torch.empty(tensor.shape, dtype=tensor.dtype)
        begin = self._places[tensor.storage.key] + tensor.storage.begin * tensor.storage.dtype.itemsize
        values = self._values.read(begin + tensor.offset * tensor.dtype.itemsize, tensor.span, tensor.dtype)
        return values.as_strided(tensor.shape, tensor.stride).contiguous()


def _read_zip(file: BinaryIO, path: Path, size: int, section: str | None) -> tuple[Any, dict[str, Any], dict[str, int]]:
    """The table of an archive as torch writes it, every member stored as it is; and where each storage begins."""
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
            top = pickles[0].filename.removesuffix("data.pkl")
            if f"{top}byteorder" in archive.namelist() and archive.read(f"{top}byteorder") != b"little":
                raise DamagedFileError(f"{path} was written by a machine with another order of bytes")
            table, about = _select(read_pickle(io.BytesIO(archive.read(pickles[0])), path, size), section, path)
            storages = {m.filename.removeprefix(f"{top}data/"): m for m in members}
            places = {}
            for key, width in _widths_of(_check_table(table, path, size)).items():
                if key not in storages or storages[key].file_size < width:
                    raise DamagedFileError(f"{path} declares more values than its member {clip(key)} holds")
                places[key] = _begin_of(file, storages[key])
            return table, about, places
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(f"{path} is truncated or damaged: {one_line(error)}") from error


def _begin_of(file: BinaryIO, member: zipfile.ZipInfo) -> int:
    """The place of a member's first byte, behind a header that is written before it once more."""
    file.seek(member.header_offset)
    signature, name_length, extra_length = struct.unpack("<4s22xHH", file.read(30))
    if signature != b"PK\x03\x04":
        raise ValueError("a member is not where the list of members says")
    begin = member.header_offset + 30 + name_length + extra_length
    if begin + member.file_size > os.fstat(file.fileno()).st_size:
        raise ValueError("a member reaches beyond the end")
    return begin


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


def _read_legacy(
    file: BinaryIO, path: Path, size: int, section: str | None
) -> tuple[Any, dict[str, Any], dict[str, int]]:
    """The table of an old torch file: magic number, version, machine, tensors and keys, each a pickle, then values."""
    if size == 0:
        raise DamagedFileError(f"{path} is empty")
    stream = io.BytesIO(file.read(PICKLE_LIMIT))
    if stream.getvalue()[: len(_LEGACY_START)] != _LEGACY_START:
        if stream.getvalue()[:1] == b"\x80":  # some other pickle: report what it would run, if that is its purpose
            read_pickle(stream, path)
        raise DamagedFileError(f"{path} is not a file that torch wrote, or its start is damaged")
    _, _, machine, table, keys = (read_pickle(stream, path, limit) for limit in (INF, INF, INF, size, INF))
    table, about = _select(table, section, path)
    if not isinstance(machine, dict) or machine.get("little_endian") is not True:
        raise DamagedFileError(f"{path} was written by a machine with another order of bytes")
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise DamagedFileError(f"{path} is truncated or damaged: it has no list of its storages")
    refs = {tensor.storage.key: tensor.storage for tensor in _check_table(table, path, size).values()}
    needed, places, begin = _widths_of(table), {}, stream.tell()
    for key in keys:
        file.seek(begin)
        (count,) = struct.unpack("<q", file.read(8).ljust(8, b"\xff"))
        width = count * refs[key].dtype.itemsize if key in refs else -1
        if count < 0 or width < needed.get(key, 0) or begin + 8 + width > size:
            raise DamagedFileError(f"{path} is truncated or damaged: the values of {clip(key)} are not complete")
        places[key] = begin + 8
        begin += 8 + width
    if not needed.keys() <= places.keys():
        raise DamagedFileError(f"{path} is truncated or damaged: it does not hold the values of all tensors")
    return table, about, places


def _select(table: Any, section: str | None, path: Path) -> tuple[Any, dict[str, Any]]:
    """The table of tensors, and what stands beside it in a file that keeps it under a name."""
    if section is None:
        return table, {}
    if not isinstance(table, dict) or section not in table:
        raise DamagedFileError(f"{path} holds no {section}")
    return table[section], {name: value for name, value in table.items() if name != section}


def _widths_of(table: Mapping[str, TensorRef]) -> dict[str, int]:
    """The bytes that each storage must have for what the table says of it."""
    widths: dict[str, int] = {}
    for tensor in table.values():
        storage = tensor.storage
        needed = (storage.begin + storage.count) * storage.dtype.itemsize
        widths[storage.key] = max(needed, widths.get(storage.key, 0))
    return widths


def _check_table(table: Any, path: Path, size: int) -> dict[str, TensorRef]:
    if not isinstance(table, dict):
        raise DamagedFileError(f"{path} must hold a table of named tensors, got one {kind_of(table)}")
    for name, value in table.items():
        if not isinstance(name, str):
            raise DamagedFileError(f"{path} names a tensor by {clip(str(name))}, which is no string")
        if not isinstance(value, TensorRef):
            raise DamagedFileError(f"{path}: {clip(name)} is no tensor but a {kind_of(value)}{_hint(name, value)}")
        if value.dtype not in CODES:
            raise DamagedFileError(f"{path}: {clip(name)} is no plain tensor but {value.dtype}")
        if value.nbytes > size:
            raise DamagedFileError(f"{path}: {clip(name)} claims {value.nbytes:,} bytes, the file has {size:,}")
    if sum(tensor.nbytes for tensor in table.values()) > VIEWS_LIMIT * size:
        raise DamagedFileError(f"{path} gives the same values to so many tensors that they would fill the memory")
    return table


def _metadata_of(table: Any) -> dict[str, str]:
    """The metadata that `write_torch` wrote; files of others hold the versions of their modules there."""
    modules = table.attributes.get("_metadata") if isinstance(table, OrderedTable) else None
    about = modules.get("") if isinstance(modules, dict) else None
    return {k: v for k, v in about.items() if isinstance(v, str)} if isinstance(about, dict) else {}


def _hint(name: str, value: Any) -> str:
    if isinstance(value, dict) and any(isinstance(part, TensorRef) for part in value.values()):
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
