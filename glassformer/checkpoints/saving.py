"""Write named tensors into a folder, in one file or in shards, so that the folder always holds one readable set."""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import torch

from glassformer.checkpoints.files import open_atomically, write_atomically
from glassformer.checkpoints.folder_save import saved_together
from glassformer.checkpoints.formats import CODES, is_unicode
from glassformer.checkpoints.safetensors_file import write_safetensors
from glassformer.checkpoints.torch_file import write_torch
from glassformer.errors import CheckpointError

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def write_weights(
    folder: str | os.PathLike,
    tensors: Mapping[str, torch.Tensor],
    *,
    max_shard_size: int | str = "5GB",
    safe_serialization: bool = True,
    metadata: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write tensors into a folder as Hugging Face names them, replacing the set that was there; returns the files.

    One `model.safetensors`, or, beyond `max_shard_size`, `model-00001-of-0000N.safetensors` with an index;
    `pytorch_model.bin` in the same way with `safe_serialization=False`. Each file keeps `metadata` too.

    However it ends, killed at any moment too, `open_weights` then finds all of the old tensors or all of the new,
    never a mixture, and a failure leaves the folder as it was: see `folder_save`. The disk must hold both sets for a
    while, and two processes must not save into one folder at the same time.

    A model may be saved over the very file that it was loaded from.
    """
    limit = _parse_size(max_shard_size)
    _check_tensors(tensors)
    stem, suffix = ("model", ".safetensors") if safe_serialization else ("pytorch_model", ".bin")
    shards = _split(tensors, limit)
    names = [f"{stem}{suffix}"]
    if len(shards) > 1:
        names = [f"{stem}-{i:05d}-of-{len(shards):05d}{suffix}" for i in range(1, len(shards) + 1)]
    with saved_together(folder) as staged:
        for name, shard in zip(names, shards, strict=True):
            _write_file(staged / name, shard, metadata)
        if len(shards) > 1:
            names.append(f"{stem}{suffix}.index.json")
            _write_index(staged / names[-1], names[:-1], shards)
    return [Path(folder) / name for name in names]


def _parse_size(size: int | str) -> int:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(size))
    if not match or match[2].upper() not in _UNITS or float(match[1]) <= 0 or isinstance(size, bool):
        raise CheckpointError(f"max_shard_size must be a number of bytes or a string such as '5GB', got {size!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def _check_tensors(tensors: Mapping[str, torch.Tensor]) -> None:
    spans = []
    for name, tensor in tensors.items():
        if not isinstance(name, str) or not is_unicode(name) or name == "__metadata__":
            raise CheckpointError(f"{name!r} cannot name a tensor in a file")
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{name} is no tensor but a {type(tensor).__name__}")
        if tensor.is_meta or tensor.layout != torch.strided or tensor.dtype not in CODES:
            raise CheckpointError(
                f"{name} has no values that can be written: {tensor.layout}, {tensor.dtype}, {tensor.device}"
            )
        # The parts of a sliced tensor may interleave without sharing a value; contiguous ones that overlap do share.
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


def _write_file(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None) -> None:
    if path.suffix == ".safetensors":
        write_safetensors(path, tensors, metadata)
        return
    with open_atomically(path) as file:
        write_torch(file, tensors, path, metadata)


def _write_index(path: Path, names: list[str], shards: list[dict[str, torch.Tensor]]) -> None:
    places = {tensor: name for name, shard in zip(names, shards, strict=True) for tensor in shard}
    total = sum(tensor.nbytes for shard in shards for tensor in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    write_atomically(path, json.dumps(index, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
