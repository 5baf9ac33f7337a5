"""One safetensors file: a strict parser of its header, its tensors mapped, and its writer.

A safetensors file is

    8 bytes    length of the header, little endian
    header     a JSON object: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
               "__metadata__": {"format": "pt"}}, padded with spaces
    the rest   the values, row by row, little endian; offsets count from here, and the tensors cover every byte of it
               exactly once

Reading trusts nothing: the header is checked before a byte is mapped.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import mmap
import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch

from glassformer.checkpoints.files import clip, open_regular, unique_keys
from glassformer.checkpoints.formats import CODES, DTYPES, TensorInfo, is_unicode, one_line
from glassformer.errors import DamagedFileError

# Bounds that keep a hostile header cheap: 15,000 tensors fit, and parsing takes tens of megabytes and milliseconds.
HEADER_LIMIT = 4 * 2**20
STRUCTURE_LIMIT = 200_000
RANK_LIMIT = 64


class SafetensorsFile:
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
        raise DamagedFileError(f"{path} has a damaged header: {one_line(error)}") from error


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

    if not is_unicode(name):
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


def write_safetensors(
    file: BinaryIO, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    # Wide dtypes first, behind a header of a multiple of eight bytes: so every tensor is aligned and can be mapped.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, CODES[tensors[name].dtype], name))
    header: dict[str, Any] = {"__metadata__": {"format": "pt", **(metadata or {})}}
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        code, shape = CODES[tensors[name].dtype], list(tensors[name].shape)
        header[name] = {"dtype": code, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    for name in order:
        values = tensors[name].detach().cpu().contiguous()
        if values.numel():
            file.write(values.view(-1).view(torch.uint8).numpy().data)
