"""The weights of a checkpoint, opened and written: `open_weights` and `write_weights`. Nothing here knows a model.

A folder holds them as safetensors or as pytorch_model.bin, in one file or in shards with an index. Reading trusts none
of these: each file is checked by the reader of its format, and shards against their index. Neither format carries a
checksum of its values: what cannot be noticed is a value that changed in place. Imports run one way:

    weights -> saving -> folder_save, safetensors_file, torch_file -> file_values, tensor_pickle -> tensor_refs ->
    formats, files
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import torch

from glassformer.checkpoints.files import ENTRIES, clip, read_weight_map, reason_of
from glassformer.checkpoints.folder_save import COMPLETE, finish_save
from glassformer.checkpoints.formats import TensorInfo
from glassformer.checkpoints.named_files import is_inside
from glassformer.checkpoints.safetensors_file import SafetensorsFile
from glassformer.checkpoints.saving import write_weights
from glassformer.checkpoints.torch_file import TorchFile
from glassformer.errors import CheckpointError, DamagedFileError

__all__ = ["ENTRIES", "TensorInfo", "Weights", "open_weights", "write_weights"]


class Weights:
    """The tensors of one checkpoint, read only when requested.

    `files` maps each weight file to its size, `total_bytes` counts the values, `metadata` is that of the files,
    `prefix` precedes every name in the files and is left out of the names here. Opening reads no value. A tensor from
    `read` is memory of its own: whatever happens to the file later, its values stay.

    >>> weights = open_weights("some/folder")                     # doctest: +SKIP
    >>> weights.info("embeddings.word_embeddings.weight").shape   # doctest: +SKIP
    (30522, 384)
    """

    def __init__(self, parts: list[SafetensorsFile | TorchFile], prefix: str = "") -> None:
        self._parts = {part.path: part for part in parts}
        self.prefix = prefix
        self._infos = {name.removeprefix(prefix): info for part in parts for name, info in part.infos.items()}
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
        """One tensor, read from the disk. Reading twice gives two."""
        return self._parts[self._infos[name].file].read(self.prefix + name)

    def without(self, prefix: str) -> Weights:
        """The same tensors under names that leave out what every one of them begins with."""
        return Weights(list(self._parts.values()), self.prefix + prefix)

    def __contains__(self, name: object) -> bool:
        return name in self._infos

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        return f"Weights({len(self)} tensors, {self.total_bytes:,} bytes, {len(self.files)} files)"


def open_weights(path: str | os.PathLike, *, only_safetensors: bool = False) -> Weights:
    """Open the weights of a folder, or one weight or index file, checking all that can be checked unread.

    With `only_safetensors`, a folder that has nothing but a pytorch_model.bin is refused.
    Raises CheckpointError when there is nothing to open, DamagedFileError for a file that contradicts itself and
    UnsafeFileError for one that holds code.
    """
    path = Path(path)
    finish_save(path if path.is_dir() else path.parent)
    if path.is_dir():
        path = path / _entry_of(path)
        if only_safetensors and path.name.startswith("pytorch_model.bin"):
            raise CheckpointError(f"{path.parent} has its weights only as {path.name}, and safetensors are required")
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


def _open_file(path: Path) -> SafetensorsFile | TorchFile:
    if path.suffix == ".safetensors":
        return SafetensorsFile(path)
    if path.suffix in (".bin", ".pt", ".pth"):
        return TorchFile(path)
    if not path.exists():
        raise CheckpointError(f"{path} does not exist")
    raise CheckpointError(f"{path} is not a weight file: its name must end in .safetensors, .bin, .pt or .pth")


# --- shards -----------------------------------------------------------------------------------------------------------


def _open_shards(index: Path) -> Weights:
    # A save that goes on meanwhile replaces the index before it replaces a shard, and is complete before either: when
    # the index is still the same file after all shards are open, and no save waits, they belong together.
    for _ in range(3):
        before = _identity(index)
        finish_save(index.parent)
        try:
            weights = _open_shards_once(index)
        except CheckpointError:
            if _is_unchanged(index, before):
                raise
            continue
        if _is_unchanged(index, before):
            return weights
    raise CheckpointError(f"{index} keeps changing while it is read: another process is saving into this folder")


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _is_unchanged(index: Path, before: tuple[int, ...] | None) -> bool:
    return not (index.parent / COMPLETE).exists() and _identity(index) == before


def _open_shards_once(index: Path) -> Weights:
    places = read_weight_map(index)
    parts = []
    shard_of: dict[str, str] = {}
    for file in dict.fromkeys(places.values()):
        if not (index.parent / file).exists():
            raise DamagedFileError(f"{index} names {clip(file)}, which does not exist in {index.parent}")
        if not is_inside(index.parent / file, index.parent, index):
            raise DamagedFileError(f"{index} names {clip(file)}, which is a link to a file outside of the checkpoint")
        part = _open_file(index.parent / file)
        for name in part.infos:
            if name in shard_of:
                raise DamagedFileError(
                    f"{index.parent}: tensor {clip(name)} is in two shards, {shard_of[name]} and {file}"
                )
            if places.get(name) != file:
                raise DamagedFileError(f"{part.path} holds {clip(name)}, which {index.name} does not place there")
            shard_of[name] = file
        parts.append(part)
    for name, file in places.items():
        if name not in shard_of:
            raise DamagedFileError(f"{index} places {clip(name)} in {file}, which does not hold it")
    return Weights(parts)
