"""Opening weights: what is read equals what was written, whichever files hold it, and damage is refused in one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import safetensors.torch
import torch

from glassformer.checkpoints.formats import DTYPES
from glassformer.checkpoints.weights import ENTRIES, open_weights, write_weights
from glassformer.errors import CheckpointError, DamagedFileError
from tests.checkpoints.weight_files import same, some_tensors


@pytest.mark.parametrize("safe", [True, False])
@pytest.mark.parametrize("size", ["5GB", 40])
def test_round_trip_of_every_dtype(tmp_path, safe, size):
    tensors = {code: torch.randint(0, 2, (3, 5)).to(dtype) for code, dtype in DTYPES.items()}
    tensors |= {"empty": torch.empty(2, 0), "scalar": torch.tensor(-1.5), "ü": torch.randn(3, 2).t()}
    files = write_weights(tmp_path, tensors, max_shard_size=size, safe_serialization=safe)
    opened = open_weights(tmp_path)
    assert same(opened, tensors)
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in files)
    assert opened.total_bytes == sum(tensor.nbytes for tensor in tensors.values())
    assert opened.files == {path: path.stat().st_size for path in files if path.suffix != ".json"}
    assert "scalar" in opened and "x" not in opened and len(opened) == len(list(opened)) == len(tensors)
    if safe:
        assert opened.metadata == {"format": "pt"}


def test_values_outlive_the_name(tmp_path):
    tensors = some_tensors()
    write_weights(tmp_path, tensors)
    opened = open_weights(tmp_path)
    write_weights(tmp_path, {name: opened.read(name) for name in opened})  # over the very file that is open
    assert same(opened, tensors) and same(open_weights(tmp_path), tensors)
    os.unlink(tmp_path / "model.safetensors")
    assert same(opened, tensors)


def test_the_order_of_search(tmp_path):
    for number, name in enumerate(reversed(ENTRIES)):
        if name.endswith("index.json"):
            file = f"shard{number}" + (".bin" if ".bin" in name else ".safetensors")
            (tmp_path / name).write_text(json.dumps({"weight_map": {"a": file}}))
        else:
            file = name
        tensors = {"a": torch.tensor([number])}
        if file.endswith(".bin"):
            torch.save(tensors, tmp_path / file)
        else:
            safetensors.torch.save_file(tensors, tmp_path / file)
        assert open_weights(tmp_path).read("a").item() == number


def test_a_folder_without_weights_says_what_it_has(tmp_path):
    with pytest.raises(CheckpointError, match="is empty"):
        open_weights(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tf_model.h5").write_text("")
    with pytest.raises(CheckpointError, match=r"looked for model.safetensors, .* has 'config.json', 'tf_model.h5'"):
        open_weights(tmp_path)
    for name in ("nowhere", "nowhere.safetensors", "nowhere.bin", "x.index.json"):
        with pytest.raises(CheckpointError, match="does not exist"):
            open_weights(tmp_path / name)
    with pytest.raises(CheckpointError, match="not a weight file"):
        open_weights(tmp_path / "tf_model.h5")
    (tmp_path / "model.safetensors").symlink_to("gone")
    with pytest.raises(CheckpointError, match="does not exist"):
        open_weights(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin", "legacy.bin"])
def test_truncated_at_every_byte(tmp_path, name):
    tensors = some_tensors()
    write_weights(tmp_path, tensors, safe_serialization=name == "model.safetensors")
    if name == "legacy.bin":
        os.unlink(tmp_path / "pytorch_model.bin")
        torch.save(tensors, tmp_path / name, _use_new_zipfile_serialization=False)
    whole = (tmp_path / name).read_bytes()
    for length in range(len(whole)):
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(DamagedFileError):
            open_weights(tmp_path / name)
    (tmp_path / name).write_bytes(whole)
    assert same(open_weights(tmp_path / name), tensors)


# --- shards ---


def shard(folder: Path, name: str, **tensors: int) -> None:
    safetensors.torch.save_file({key: torch.tensor([value]) for key, value in tensors.items()}, folder / name)


@pytest.mark.parametrize(
    "index, shards, reason",
    [
        ({"a": "1.safetensors", "b": "2.safetensors"}, {"1": {"a": 1}}, "'2.safetensors', which does not exist"),
        ({"a": "1.safetensors", "b": "1.safetensors"}, {"1": {"a": 1}}, "places 'b' in 1.safetensors, which does not"),
        ({"a": "1.safetensors", "b": "2.safetensors"}, {"1": {"a": 1}, "2": {"a": 1, "b": 2}}, "'a' is in two shards"),
        ({"a": "1.safetensors"}, {"1": {"a": 1, "b": 2}}, "holds 'b', which"),
        ({"a": "../1.safetensors"}, {}, "no .safetensors file of this folder"),
        ({"a": "sub/1.safetensors"}, {}, "no .safetensors file of this folder"),
    ],
)
def test_shards_that_contradict_their_index(tmp_path, index, shards, reason):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    for name, tensors in shards.items():
        shard(tmp_path, f"{name}.safetensors", **tensors)
    with pytest.raises(DamagedFileError, match=reason):
        open_weights(tmp_path)
