"""Write named tensors into a folder, in one file or in shards, so that the folder always holds one readable set.

Writing never overwrites. New files are complete on the disk before they take their names, and what they replace is
removed last: see `write_weights`.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from glassformer.checkpoints.files import (
    flush_folder,
    open_atomically,
    open_regular,
    read_weight_map,
    reason_of,
    remove_stale_temporaries,
    write_atomically,
)
from glassformer.checkpoints.formats import CODES, ENTRIES, is_unicode
from glassformer.checkpoints.safetensors_file import write_safetensors
from glassformer.checkpoints.torch_file import write_torch
from glassformer.errors import CheckpointError

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
    metadata: Mapping[str, str] | None = None,
) -> list[Path]:
    """Write tensors into a folder as Hugging Face names them, replacing the set that was there; returns the files.

    One `model.safetensors`, or, beyond `max_shard_size`, `model-00001-of-0000N.safetensors` with an index;
    `pytorch_model.bin` in the same way with `safe_serialization=False`. Each file keeps `metadata` too.

    However it ends, killed at any moment too, `open_weights` then finds all of the old tensors or all of the new,
    never a mixture. A lone file changes by one rename. Shards whose names are taken are first written under other
    names, then the index is renamed to one that names these, which is the moment of change; only then do they take
    the names of the old ones. What is replaced goes last. A failure before the change leaves the folder as it was.
    The disk must hold both sets for a while, and two processes must not save into one folder at the same time.

    A model may be saved over the very file that it was loaded from.
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
        _write_file(folder / entry, shards[0], metadata)
    else:
        entry = f"{stem}{suffix}.index.json"
        names = [f"{stem}-{i:05d}-of-{len(shards):05d}{suffix}" for i in range(1, len(shards) + 1)]
        _write_shards(folder, entry, names, shards, metadata)
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


def _write_shards(
    folder: Path,
    entry: str,
    names: list[str],
    shards: list[dict[str, torch.Tensor]],
    metadata: Mapping[str, str] | None,
) -> None:
    taken = any((folder / name).exists() for name in names)
    mark = f".staged-{secrets.token_hex(4)}"
    first_names = [f"{Path(name).stem}{mark}{Path(name).suffix}" for name in names] if taken else names
    try:
        for name, shard in zip(first_names, shards, strict=True):
            _write_file(folder / name, shard, metadata)
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
