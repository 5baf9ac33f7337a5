"""Named tensors in files: safetensors and pytorch_model.bin, whole or in shards. Nothing here knows a model.

Reading trusts nothing. A safetensors header is checked by the parser below before a byte is mapped; a pickle is
looked through for anything but tensors, then given to torch's restricted unpickler, never to the full one. Neither
format carries a checksum of its values: what cannot be noticed here is a value that changed in place.

A safetensors file is

    8 bytes    length of the header, little endian
    header     a JSON object: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
               "__metadata__": {"format": "pt"}}, padded with spaces
    the rest   the values, row by row, little endian; offsets count from here, and the tensors cover every byte of it
               exactly once

Writing never overwrites. New files are complete on the disk before they take their names, and what they replace is
removed last, so that a folder always holds one readable set: see `write_weights`.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import math
import mmap
import os
import pickletools
import re
import secrets
import shutil
import struct
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from glassformer.checkpoints.files import (
    clip,
    flush_folder,
    open_atomically,
    open_regular,
    read_weight_map,
    reason_of,
    remove_stale_temporaries,
    unique_keys,
    write_atomically,
)
from glassformer.errors import CheckpointError, DamagedFileError, UnsafeFileError

# In the order in which a folder is searched: the first that exists is read.
ENTRIES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)

# Bounds that keep a hostile header cheap: 15,000 tensors fit, and parsing takes tens of megabytes and milliseconds.
HEADER_LIMIT = 4 * 2**20
STRUCTURE_LIMIT = 200_000
RANK_LIMIT = 64
PICKLE_LIMIT = 64 * 2**20
DIRECTORY_LIMIT = 8 * 2**20

_DTYPE_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2": "float8_e5m2",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
DTYPES: dict[str, torch.dtype] = {
    code: getattr(torch, name) for code, name in _DTYPE_NAMES.items() if hasattr(torch, name)
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorInfo:
    """What a file says of one tensor, known without reading its values."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    file: Path

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class Weights:
    """The tensors of one checkpoint, read only when asked for.

    `files` maps each weight file to its size, `total_bytes` counts the values, `metadata` is what the files say of
    themselves. A tensor from `read` is mapped: no value is read from the disk before it is used, changing it changes
    neither the file nor another opening of it, and it outlives both the file's name and this object.

    >>> weights = open_weights("some/folder")                     # doctest: +SKIP
    >>> weights.info("embeddings.word_embeddings.weight").shape   # doctest: +SKIP
    (30522, 384)
    """

    def __init__(self, parts: list[_SafetensorsFile | _TorchFile]) -> None:
        self._parts = {part.path: part for part in parts}
        self._infos = {name: info for part in parts for name, info in part.infos.items()}
        self.files: dict[Path, int] = {part.path: part.size for part in parts}
        self.metadata: dict[str, str] = {key: value for part in parts for key, value in part.metadata.items()}
        self.total_bytes = sum(info.nbytes for info in self._infos.values())

    def names(self) -> list[str]:
        """Every tensor's name, in the order of the files."""
        return list(self._infos)

    def info(self, name: str) -> TensorInfo:
        """The dtype, shape and file of one tensor."""
        return self._infos[name]

    def read(self, name: str) -> torch.Tensor:
        """One tensor, mapped where the file allows and copied otherwise. Reading twice gives the same memory."""
        return self._parts[self._infos[name].file].read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        return f"Weights({len(self)} tensors, {self.total_bytes:,} bytes, {len(self.files)} files)"


def open_weights(path: str | os.PathLike) -> Weights:
    """Open the weights of a folder, or one weight or index file, checking all that can be checked unread.

    Raises CheckpointError when there is nothing to open, DamagedFileError for a file that contradicts itself and
    UnsafeFileError for one that holds code.
    """
    path = Path(path)
    if path.is_dir():
        path = path / _entry_of(path)
    if path.name.endswith(".index.json"):
        return _open_shards(path)
    return Weights([_open_file(path)])


def _entry_of(folder: Path) -> str:
    for name in ENTRIES:
        if os.path.lexists(folder / name):  # a link to nowhere is an error to report, not a reason to look further
            return name
    try:
        held = sorted(os.listdir(folder))
    except OSError as error:
        raise CheckpointError(f"could not look into {folder}: {reason_of(error)}") from error
    shown = "has " + ", ".join(clip(name) for name in held[:12]) if held else "is empty"
    more = ", ..." if len(held) > 12 else ""
    raise CheckpointError(f"{folder} holds no weights: looked for {', '.join(ENTRIES)}; the folder {shown}{more}")


def _open_file(path: Path) -> _SafetensorsFile | _TorchFile:
    if path.suffix == ".safetensors":
        return _SafetensorsFile(path)
    if path.suffix in (".bin", ".pt", ".pth"):
        return _TorchFile(path)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    raise CheckpointError(f"{path} is not a weight file: its name must end in .safetensors, .bin, .pt or .pth")


# --- shards -----------------------------------------------------------------------------------------------------------


def _open_shards(index: Path) -> Weights:
    # A save that goes on meanwhile replaces the index before it replaces a shard: when the index is still the same
    # file after all shards are mapped, they belong together.
    for _ in range(3):
        before = _identity(index)
        try:
            weights = _open_shards_once(index)
        except CheckpointError:
            if _identity(index) == before:
                raise
            continue
        if _identity(index) == before:
            return weights
    raise CheckpointError(f"{index} keeps changing while it is read: another process is saving into this folder")


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _open_shards_once(index: Path) -> Weights:
    places = read_weight_map(index)
    parts = []
    found: dict[str, str] = {}
    for file in dict.fromkeys(places.values()):
        if not (index.parent / file).exists():
            raise DamagedFileError(f"{index} names {clip(file)}, which does not exist in {index.parent}")
        part = _open_file(index.parent / file)
        for name in part.infos:
            if name in found:
                raise DamagedFileError(
                    f"{index.parent}: tensor {clip(name)} is in two shards, {found[name]} and {file}"
                )
            if places.get(name) != file:
                raise DamagedFileError(f"{part.path} holds {clip(name)}, which {index.name} does not place there")
            found[name] = file
        parts.append(part)
    for name, file in places.items():
        if name not in found:
            raise DamagedFileError(f"{index} places {clip(name)} in {file}, which does not hold it")
    return Weights(parts)


# --- safetensors ------------------------------------------------------------------------------------------------------


class _SafetensorsFile:
    """One safetensors file, checked and mapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            self.size = os.fstat(file.fileno()).st_size
            header, self._start = _read_header(file, path, self.size)
            self.metadata, entries = _check_header(header, path, self.size - self._start)
            self.infos = {name: TensorInfo(dtype, shape, path) for name, (dtype, shape, _) in entries.items()}
            self._begins = {name: begin for name, (_, _, begin) in entries.items()}
            # Mapped from the descriptor that was checked, so that no other file can step in between; private, so
            # that a changed tensor never reaches the disk.
            self._map = mmap.mmap(file.fileno(), self.size, access=mmap.ACCESS_COPY)

    def read(self, name: str) -> torch.Tensor:
        info = self.infos[name]
        if info.nbytes == 0:
            return torch.empty(info.shape, dtype=info.dtype)
        begin = self._start + self._begins[name]
        count = math.prod(info.shape)
        if begin % info.dtype.itemsize == 0:
            return torch.frombuffer(self._map, dtype=info.dtype, count=count, offset=begin).view(info.shape)
        values = torch.frombuffer(self._map, dtype=torch.uint8, count=info.nbytes, offset=begin)
        return values.clone().view(info.dtype).view(info.shape)


def _read_header(file: BinaryIO, path: Path, size: int) -> tuple[bytes, int]:
    if size == 0:
        raise DamagedFileError(f"{path} is empty")
    if size < 8:
        raise DamagedFileError(f"{path} is truncated: {size} bytes, too short for a safetensors header")
    (length,) = struct.unpack("<Q", file.read(8))
    if length > size - 8:
        raise DamagedFileError(
            f"{path} is truncated or no safetensors file: a header of {length:,} bytes in a file of {size:,}"
        )
    if length > HEADER_LIMIT:
        raise DamagedFileError(f"{path} has a header of {length:,} bytes, more than the {HEADER_LIMIT:,} that are read")
    header = file.read(length)
    if len(header) != length:
        raise DamagedFileError(f"{path} became shorter while it was read")
    return header, 8 + length


def _check_header(header: bytes, path: Path, data_size: int) -> tuple[dict[str, str], dict[str, tuple]]:
    """The metadata and {name: (dtype, shape, begin)} of a header, or DamagedFileError at its first contradiction."""
    entries = _parse_header(header, path)
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise DamagedFileError(f"{path}: __metadata__ must map strings to strings")
    tensors, ranges = {}, []
    for name, entry in entries.items():
        dtype, shape, begin, end = _check_entry(name, entry, path)
        tensors[name] = (dtype, shape, begin)
        ranges.append((begin, end, name))
    covered = 0
    for begin, end, name in sorted(ranges):
        if begin != covered:
            kind = "overlaps the one before" if begin < covered else f"leaves a hole of {begin - covered:,} bytes"
            raise DamagedFileError(f"{path}: tensor {clip(name)} at byte {begin:,} {kind}")
        covered = end
    if covered > data_size:
        raise DamagedFileError(f"{path} is truncated: its tensors need {covered:,} bytes, it holds {data_size:,}")
    if covered < data_size:
        raise DamagedFileError(f"{path} has {data_size - covered:,} bytes after its last tensor")
    return metadata, tensors


def _parse_header(header: bytes, path: Path) -> dict[str, Any]:
    # Counted before parsing, because a few megabytes of brackets would become gigabytes of Python objects.
    if sum(header.count(mark) for mark in (b"{", b"[", b":", b",")) > STRUCTURE_LIMIT:
        raise DamagedFileError(f"{path} has a header with more entries than 15,000 tensors need")
    if not header.startswith(b"{"):
        raise DamagedFileError(f"{path} is no safetensors file: its header is not a JSON object")
    try:
        with _without_collector():
            return _HEADER_JSON.decode(header.decode("utf-8"))
    except RecursionError as error:
        raise DamagedFileError(f"{path} has a header that is nested too deeply") from error
    except ValueError as error:  # bad UTF-8, bad JSON, numbers too long, a name given twice
        raise DamagedFileError(f"{path} has a damaged header: {_one_line(error)}") from error


def _size(digits: str) -> int:
    if len(digits) > 20:  # checked before the conversion, whose time grows with the square of the length
        raise ValueError(f"the number {digits[:20]}... is too long")
    return int(digits)


def _refuse_number(text: str) -> None:
    raise ValueError(f"{clip(text, 20)} is not a size")


_HEADER_JSON = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_int=_size, parse_float=_refuse_number, parse_constant=_refuse_number
)


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Pause the garbage collector: many new objects would make it search the whole program again and again."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


def _check_entry(name: str, entry: Any, path: Path) -> tuple[torch.dtype, tuple[int, ...], int, int]:
    def refuse(reason: str) -> DamagedFileError:
        return DamagedFileError(f"{path}: tensor {clip(name)} {reason}")

    if not _is_unicode(name):
        raise refuse("has a name that is not valid Unicode")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise refuse("must have exactly dtype, shape and data_offsets")
    code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise refuse(f"has an unknown dtype {clip(str(code))}")
    if not _are_sizes(shape) or len(shape) > RANK_LIMIT:
        raise refuse("has a shape that is no list of sizes")
    if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise refuse("has data_offsets that are no range")
    # Sizes beside a zero count too: torch multiplies them for its strides.
    if math.prod(size for size in shape if size) * DTYPES[code].itemsize >= 2**63:
        raise refuse("has a shape too large for any memory")
    needed, given = math.prod(shape) * DTYPES[code].itemsize, offsets[1] - offsets[0]
    if needed != given:
        raise refuse(f"of shape {shape} and dtype {code} needs {needed:,} bytes, its range has {given:,}")
    return DTYPES[code], tuple(shape), offsets[0], offsets[1]


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**63 for value in values)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


# --- pytorch_model.bin ------------------------------------------------------------------------------------------------

# All that a file of tensors has to name. Anything else would be called with arguments of the file's choosing.
_HARMLESS = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor|tensor_v2|tensor_v3|parameter)"
    r"|torch(\.storage)? (Untyped|Typed|Double|Float|Half|BFloat16|Long|Int|Short|Char|Byte|Bool|ComplexFloat)Storage"
    r"|torch (Size|bfloat16|float(16|32|64)|float8_\w+|u?int(8|16|32|64)|bool|complex64)"
)
_LEGACY_START = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # the number that torch wrote first before it used zip


class _TorchFile:
    """One pytorch_model.bin, read by the restricted unpickler and mapped where its format allows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metadata: dict[str, str] = {}
        with open_regular(path) as file:
            self.size = os.fstat(file.fileno()).st_size
            start = file.read(len(_LEGACY_START))
            zipped = start.startswith(b"PK\x03\x04")
            if zipped:
                _look_through_zip(file, path, self.size)
            else:
                _look_through_legacy(file, path, self.size, start)
        self._tensors = _check_loaded(_load_restricted(path, mapped=zipped), path, self.size)
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
        raise DamagedFileError(f"{path} is truncated or damaged: {_one_line(error)}") from error


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
            if start[:1] == b"\x80":  # some other pickle: say what it would run, if that is what it is for
                _look_through_pickle(stream, path, math.inf)
            raise DamagedFileError(f"{path} is not a file that torch wrote, or its start is damaged")
        for limit in (math.inf, math.inf, math.inf, size, math.inf):  # magic, version, machine, tensors, storages
            _look_through_pickle(stream, path, limit)


def _look_through_pickle(stream: Any, path: Path, limit: float) -> None:
    """Read a pickle's instructions without following them; no number in it may exceed what the file could hold."""
    strings: list[str] = []
    try:
        for operation, argument, _ in pickletools.genops(stream):
            if operation.name == "GLOBAL" and _HARMLESS.fullmatch(argument):
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
        raise DamagedFileError(f"{path} is truncated or damaged: {_one_line(error)}") from error


def _load_restricted(path: Path, mapped: bool) -> Any:
    try:
        return torch.load(str(path), map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # what names code was refused before; what still fails here is damage
        raise DamagedFileError(f"{path} is truncated or damaged: {_one_line(error)}") from error


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
        if value.layout != torch.strided or value.device.type != "cpu" or value.dtype not in _CODES:
            raise DamagedFileError(f"{path}: {clip(name)} is no plain tensor but {value.layout}, {value.dtype}")
        if value.nbytes > size:
            raise DamagedFileError(f"{path}: {clip(name)} claims {value.nbytes:,} bytes, the file has {size:,}")
    return {name: value.detach() for name, value in loaded.items()}


def _hint(name: str, value: Any) -> str:
    if isinstance(value, Mapping) and any(isinstance(part, torch.Tensor) for part in value.values()):
        return f": this is a training checkpoint; save the table under {clip(name)} on its own"
    return ""


def _one_line(error: BaseException) -> str:
    first = (str(error) or type(error).__name__).split("\n")[0]
    return first if len(first) <= 160 else first[:160] + "..."


# --- writing ----------------------------------------------------------------------------------------------------------

_SHARD = re.compile(
    r"model-\d{5}-of-\d{5}(\.staged-[0-9a-f]{8})?\.safetensors"
    r"|pytorch_model-\d{5}-of-\d{5}(\.staged-[0-9a-f]{8})?\.bin"
)
_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def write_weights(
    folder: str | os.PathLike,
    tensors: Mapping[str, torch.Tensor],
    *,
    max_shard_size: int | str = "5GB",
    safe_serialization: bool = True,
) -> list[Path]:
    """Write tensors into a folder as Hugging Face names them, replacing the set that was there; returns the files.

    One `model.safetensors`, or, beyond `max_shard_size`, `model-00001-of-0000N.safetensors` with an index;
    `pytorch_model.bin` in the same way with `safe_serialization=False`.

    However it ends, killed at any moment too, `open_weights` then finds all of the old tensors or all of the new,
    never a mixture. A lone file changes by one rename. Shards whose names are taken are first written under other
    names, then the index is renamed to one that names these, which is the moment of change; only then do they take
    the names of the old ones. What is replaced goes last. A failure before the change leaves the folder as it was.
    The disk must hold both sets for a while, and two processes must not save into one folder at the same time.

    A model may be saved over the very file it is mapped from: its memory stays with the old content.
    """
    folder = Path(folder)
    limit = _parse_size(max_shard_size)
    _check_tensors(tensors)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"could not create {folder}: {reason_of(error)}") from error
    remove_stale_temporaries(folder)
    _remove_abandoned(folder)
    stem, suffix = ("model", ".safetensors") if safe_serialization else ("pytorch_model", ".bin")
    shards = _split(tensors, limit)
    if len(shards) == 1:
        entry, names = f"{stem}{suffix}", [f"{stem}{suffix}"]
        _write_file(folder / entry, shards[0])
    else:
        entry = f"{stem}{suffix}.index.json"
        names = [f"{stem}-{i:05d}-of-{len(shards):05d}{suffix}" for i in range(1, len(shards) + 1)]
        _write_shards(folder, entry, names, shards)
    _remove_replaced(folder, entry, keep=names)
    return [folder / name for name in dict.fromkeys([*names, entry])]


def _parse_size(size: int | str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if not match or match[2].upper() not in _UNITS or float(match[1]) <= 0 or isinstance(size, bool):
        raise CheckpointError(f"max_shard_size must be a number of bytes or a string such as '5GB', got {size!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _check_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
    spans = []
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not _is_unicode(name) or name == "__metadata__":
            raise CheckpointError(f"{name!r} cannot name a tensor in a file")
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{name} is no tensor but a {type(tensor).__name__}")
        if tensor.is_meta or tensor.layout != torch.strided or tensor.dtype not in _CODES:
            raise CheckpointError(
                f"{name} has no values that can be written: {tensor.layout}, {tensor.dtype}, {tensor.device}"
            )
        # The parts of a sliced tensor may interleave without sharing a value; whole ones that touch do share.
        if tensor.numel() and tensor.is_contiguous():
            start = tensor.data_ptr()
            spans.append((str(tensor.device), start, start + tensor.nbytes, name))
    spans.sort()
    for (device, _, end, one), (other_device, start, _, other) in itertools.pairwise(spans):
        if device == other_device and start < end:
            raise CheckpointError(f"{one} and {other} share memory; write one of them, and tie them when loading")


def _split(tensors: Mapping[str, torch.Tensor], limit: int) -> list[dict[str, torch.Tensor]]:
    """Tensors in their order, filled into shards of at most `limit` bytes; a larger one has a shard of its own."""
    shards: list[dict[str, torch.Tensor]] = [{}]
    filled = 0
    for name, tensor in tensors.items():
        if shards[-1] and filled + tensor.nbytes > limit:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += tensor.nbytes
    return shards


def _write_file(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    with open_atomically(path) as file:
        if path.suffix == ".safetensors":
            _write_safetensors(file, tensors)
        else:
            _write_torch(file, tensors, path)


def _write_safetensors(file: BinaryIO, tensors: Mapping[str, torch.Tensor]) -> None:
    # Wide dtypes first, behind a header of a multiple of eight bytes: so every tensor is aligned and can be mapped.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, _CODES[tensors[name].dtype], name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        code, shape = _CODES[tensors[name].dtype], list(tensors[name].shape)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in order:
        values = tensors[name].detach().cpu().contiguous()
        if values.numel():
            file.write(values.view(-1).view(torch.uint8).numpy())


def _write_torch(file: BinaryIO, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    try:
        # Cloned where a tensor is part of something larger, because torch writes whole storages.
        torch.save({name: _on_its_own(tensor.detach().cpu()) for name, tensor in tensors.items()}, file)
    except (OSError, RuntimeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else _one_line(error)
        raise CheckpointError(f"could not write {path}: {reason}") from error


def _on_its_own(tensor: torch.Tensor) -> torch.Tensor:
    alone = tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    return tensor if alone else tensor.clone(memory_format=torch.contiguous_format)


def _write_shards(folder: Path, entry: str, names: list[str], shards: list[dict[str, torch.Tensor]]) -> None:
    taken = any((folder / name).exists() for name in names)
    mark = f".staged-{secrets.token_hex(4)}"
    first_names = [f"{Path(name).stem}{mark}{Path(name).suffix}" for name in names] if taken else names
    try:
        for name, shard in zip(first_names, shards, strict=True):
            _write_file(folder / name, shard)
        _write_index(folder / entry, first_names, shards)
    except BaseException:
        for name in first_names:
            with contextlib.suppress(OSError):
                (folder / name).unlink()
        raise
    if taken:
        for first, name in zip(first_names, names, strict=True):
            _give_second_name(folder / first, folder / name)
        _write_index(folder / entry, names, shards)


def _write_index(path: Path, names: list[str], shards: list[dict[str, torch.Tensor]]) -> None:
    places = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    write_atomically(path, json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def _give_second_name(file: Path, name: Path) -> None:
    """Let a complete file also be known by a name that another file has, in one step and without a copy if possible."""
    link = file.with_name(f".{name.name}.{os.getpid()}-{secrets.token_hex(4)}.glassformer-tmp")
    try:
        os.link(file, link)
    except OSError:  # a file system without hard links
        with open_regular(file) as source, open_atomically(name) as target:
            shutil.copyfileobj(source, target, 2**20)
        return
    try:
        os.replace(link, name)
    except OSError as error:
        raise CheckpointError(f"could not write {name}: {reason_of(error)}") from error
    flush_folder(name.parent)


def _remove_abandoned(folder: Path) -> None:
    """Remove shards that a killed save staged, unless it got as far as naming them in an index."""
    staged = {name for name in os.listdir(folder) if (match := _SHARD.fullmatch(name)) and any(match.groups())}
    if not staged:
        return
    for entry in ENTRIES:
        if entry.endswith(".index.json") and (folder / entry).exists():
            staged -= set(read_weight_map(folder / entry).values())
    _remove(folder, staged)


def _remove_replaced(folder: Path, entry: str, keep: list[str]) -> None:
    """Remove every other set, in the order that never brings a third one to light: nearest in the search first."""
    position = ENTRIES.index(entry)
    for name in reversed(ENTRIES[:position]):
        _remove(folder, [name])
    _remove(folder, ENTRIES[position + 1 :])
    _remove(folder, [name for name in os.listdir(folder) if _SHARD.fullmatch(name) and name not in keep])


def _remove(folder: Path, names: Any) -> None:
    removed = False
    for name in names:
        try:
            os.unlink(folder / name)
            removed = True
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CheckpointError(f"could not remove the replaced {folder / name}: {reason_of(error)}") from error
    if removed:
        flush_folder(folder)
