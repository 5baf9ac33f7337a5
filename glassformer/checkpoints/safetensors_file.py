"""One safetensors file, read and written by the safetensors library.

A safetensors file is

    8 bytes    length of the header, little endian
    header     a JSON object: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
               "__metadata__": {"format": "pt"}}, padded with spaces
    the rest   the values, row by row, little endian; offsets count from here, and the tensors cover every byte of it
               exactly once

The library checks the header. Here is only what it does not do: bounds on what a hostile header costs, and the refusal
of headers that it reads although they are ambiguous or describe no usable tensor. Values are read when they are
requested, by `file_values`.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from glassformer.checkpoints.file_values import FileValues
from glassformer.checkpoints.files import clip, open_regular, replace_atomically, unique_keys
from glassformer.checkpoints.formats import DTYPES, TensorInfo, one_line
from glassformer.errors import CheckpointError, DamagedFileError

# Bounds that keep a hostile header cheap: 15,000 tensors fit, and parsing takes tens of megabytes and milliseconds.
HEADER_LIMIT = 4 * 2**20
STRUCTURE_LIMIT = 200_000
RANK_LIMIT = 64


class SafetensorsFile:
    """One safetensors file, checked, whose values are read when they are requested."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open_regular(path) as file:
            self.size = os.fstat(file.fileno()).st_size
            header = _read_header(file, path, self.size)
            # The library opens its file twice. By the descriptor it meets the file that was checked both times, even
            # if another has taken its name by then.
            descriptor = f"/dev/fd/{file.fileno()}"
            try:
                with safe_open(descriptor if os.path.exists(descriptor) else path, "pt"):
                    pass
            except SafetensorError as error:
                raise DamagedFileError(f"{path} is truncated or damaged: {_reason(error)}") from error
            self._values = FileValues(file, path)
        self.metadata, self.infos, offsets = _check_header(header, path)
        self._places = {name: 8 + len(header) + offset for name, offset in offsets.items()}

    def read(self, name: str) -> torch.Tensor:
        info = self.infos[name]
        return self._values.read(self._places[name], math.prod(info.shape), info.dtype).reshape(info.shape)


def _read_header(file: BinaryIO, path: Path, size: int) -> bytes:
    """The bytes of the header, if parsing them can be afforded."""
    if size == 0:
        raise DamagedFileError(f"{path} is empty")
    (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
    if length > HEADER_LIMIT:
        raise DamagedFileError(
            f"{path} has a header of {length:,} bytes, more than the {HEADER_LIMIT:,} that are read, or is no "
            f"safetensors file"
        )
    header = file.read(length)
    # Counted before parsing, because a few megabytes of brackets become hundreds of megabytes of objects.
    if sum(header.count(mark) for mark in (b"{", b"[", b":", b",")) > STRUCTURE_LIMIT:
        raise DamagedFileError(f"{path} has a header with more entries than 15,000 tensors need")
    return header


def _check_header(header: bytes, path: Path) -> tuple[dict[str, str], dict[str, TensorInfo], dict[str, int]]:
    """The metadata, tensors and their offsets in a header that the library accepts.

    One that is ambiguous, or of no use to torch, is refused.
    """
    if not header.startswith(b"{"):
        raise DamagedFileError(f"{path} is no safetensors file: its header is not a JSON object")
    try:
        entries = json.loads(header, object_pairs_hook=unique_keys)
    except ValueError as error:
        raise DamagedFileError(f"{path} has a damaged header: {one_line(error)}") from error
    metadata = entries.pop("__metadata__", None) or {}
    infos = {name: _check_entry(name, entry, path) for name, entry in entries.items()}
    return metadata, infos, {name: entry["data_offsets"][0] for name, entry in entries.items()}


def _check_entry(name: str, entry: Any, path: Path) -> TensorInfo:
    if not isinstance(entry, dict) or len(entry) > 3:  # the library takes a list of the values, too
        raise DamagedFileError(f"{path}: tensor {clip(name)} must have exactly dtype, shape and data_offsets")
    shape, code = entry["shape"], entry["dtype"]
    if not isinstance(code, str) or code not in DTYPES:
        raise DamagedFileError(f"{path}: tensor {clip(name)} has an unknown dtype {clip(str(code))}")
    # Sizes beside a zero count too: torch multiplies them for its strides.
    if len(shape) > RANK_LIMIT or math.prod(size for size in shape if size) * DTYPES[code].itemsize >= 2**63:
        raise DamagedFileError(f"{path}: tensor {clip(name)} has a shape that no tensor of torch can have")
    return TensorInfo(DTYPES[code], tuple(shape), path)


def write_safetensors(
    path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors into a file that appears under its name complete, flushed to the disk, or not at all."""
    # The library writes the memory of a tensor as it lies, so that a conjugate view would lose its sign.
    ready = {name: tensor.detach().cpu().resolve_conj().resolve_neg().contiguous() for name, tensor in tensors.items()}
    with replace_atomically(path) as temporary:
        try:
            save_file(ready, temporary, {"format": "pt", **(metadata or {})})
        except SafetensorError as error:
            raise CheckpointError(f"could not write {path}: {_reason(error)}") from error


def _reason(error: SafetensorError) -> str:
    """The library's reason, without the stage at which it failed."""
    return one_line(error).removeprefix("Error while deserializing header: ").removeprefix("Error while serializing: ")
