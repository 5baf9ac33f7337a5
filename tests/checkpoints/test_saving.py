"""Writing weights: named as others name them, and one whole set in the folder whatever interrupts a save."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from glassformer.checkpoints import files
from glassformer.checkpoints.weights import open_weights, write_weights
from glassformer.errors import CheckpointError
from tests.checkpoints.weight_files import same, some_tensors

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_shards_are_named_as_hugging_face_names_them(tmp_path, suffix):
    from huggingface_hub import split_torch_state_dict_into_shards

    tensors = {f"t{i}": torch.randn(10 + i) for i in range(9)}
    write_weights(tmp_path, tensors, max_shard_size="0.1KB", safe_serialization=suffix == "safetensors")
    pattern = f"{'model' if suffix == 'safetensors' else 'pytorch_model'}{{suffix}}.{suffix}"
    theirs = split_torch_state_dict_into_shards(tensors, filename_pattern=pattern, max_shard_size=100)
    index = json.loads(next(tmp_path.glob("*.index.json")).read_text())
    assert index["weight_map"] == theirs.tensor_to_filename
    assert index["metadata"]["total_size"] == theirs.metadata["total_size"]


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path):
    whole = torch.randn(4, 6)
    for tensors, reason in [
        ({"a": whole, "b": whole}, "a and b share memory"),
        ({"a": whole, "b": whole[2:]}, "a and b share memory"),
        ({"a": whole.to("meta")}, "no values"),
        ({"a": whole.to_sparse()}, "no values"),
        ({"a": whole.to(torch.complex128)}, "no values"),
        ({"a": 3}, "no tensor"),
        ({"__metadata__": whole}, "cannot name"),
        ({"\ud800": whole}, "cannot name"),
    ]:
        with pytest.raises(CheckpointError, match=reason):
            write_weights(tmp_path / "x", tensors)
        assert not (tmp_path / "x").exists()
    parts = dict(zip("qkv", whole.chunk(3, dim=1), strict=True))  # interleaved, but no value is shared
    write_weights(tmp_path, parts | {"rows": torch.arange(4), "more": torch.arange(4)})
    assert torch.equal(open_weights(tmp_path).read("k"), parts["k"])


@pytest.mark.parametrize("size", [0, -1, "0GB", "five", "5 parsecs", "", None, True, "-5GB", float("nan")])
def test_shard_sizes_that_make_no_sense(tmp_path, size):
    with pytest.raises(CheckpointError, match="max_shard_size must be"):
        write_weights(tmp_path, some_tensors(), max_shard_size=size)


def test_part_of_a_larger_tensor_is_written_alone(tmp_path):
    write_weights(tmp_path, {"a": torch.zeros(10**6)[:10]}, safe_serialization=False)
    assert (tmp_path / "pytorch_model.bin").stat().st_size < 10**4


KINDS = {
    "one file": {},
    "shards": {"max_shard_size": 40},
    "fewer shards": {"max_shard_size": 130},
    "bin": {"safe_serialization": False},
    "bin shards": {"safe_serialization": False, "max_shard_size": 40},
}


CHANGES = [(old, new) for old in KINDS for new in KINDS if "bin" not in old + new or "shards" not in old]


@pytest.mark.parametrize("old, new", CHANGES)
def test_killed_at_any_moment_the_folder_holds_one_complete_set(tmp_path, old, new):
    """A child process dies before every single call that changes the folder; nothing of Python runs after that."""
    old_tensors, new_tensors = some_tensors(1), some_tensors(2)
    changed = []
    for moment in range(1000):
        folder = tmp_path / str(moment)
        write_weights(folder, old_tensors, **KINDS[old])
        survived = save_and_die(folder, new_tensors, KINDS[new], moment)
        opened = open_weights(folder)
        changed.append(same(opened, new_tensors))
        assert changed[-1] or same(opened, old_tensors), moment
        if survived:
            break
        write_weights(folder, new_tensors, **KINDS[new])  # the next save clears what the dead one left
        clean = tmp_path / "clean"
        write_weights(clean, new_tensors, **KINDS[new])
        assert sorted(os.listdir(folder)) == sorted(os.listdir(clean)), moment
        assert same(open_weights(folder), new_tensors)
    assert moment >= 3
    assert changed == sorted(changed) and changed[-1] and not changed[0]  # old, old, ..., then new for good


def test_killed_while_two_old_sets_are_replaced(tmp_path):
    """The set that lies behind the one in use must never come to light."""
    for moment in range(1000):
        folder = tmp_path / str(moment)
        write_weights(tmp_path / "other", some_tensors(1))
        write_weights(folder, some_tensors(0), max_shard_size=40)
        os.replace(tmp_path / "other" / "model.safetensors", folder / "model.safetensors")
        assert same(open_weights(folder), some_tensors(1))
        survived = save_and_die(folder, some_tensors(2), KINDS["bin"], moment)
        opened = open_weights(folder)
        assert same(opened, some_tensors(2)) or (same(opened, some_tensors(1)) and not survived), moment
        if survived:
            break


def test_files_of_a_killed_save_are_removed_before_the_next(tmp_path, monkeypatch):
    tensors = some_tensors(1)
    write_weights(tmp_path, tensors, max_shard_size=40)
    before = sorted(os.listdir(tmp_path))
    (tmp_path / f".x.{2**22 + 1}-0123abcd.glassformer-tmp").write_bytes(b"left over")

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(CheckpointError):
        write_weights(tmp_path, some_tensors(2))
    assert sorted(os.listdir(tmp_path)) == before


def save_and_die(folder: Path, tensors: dict, how: dict, moment: int) -> bool:
    """Save in a child that is gone at its `moment`-th change of the disk; True if it lived to the end."""
    child = os.fork()
    if child == 0:
        try:
            left = [moment]

            def dying(real):
                def call(*args, **kwargs):
                    if left[0] == 0:
                        os._exit(9)
                    left[0] -= 1
                    return real(*args, **kwargs)

                return call

            for name in ("replace", "rename", "unlink", "mkdir", "rmdir", "fsync"):
                setattr(os, name, dying(getattr(os, name)))
            write_weights(folder, tensors, **how)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 0


def test_killed_for_real(tmp_path):
    """SIGKILL at arbitrary times while a process saves shards over shards, over and over."""
    code = """
import sys, torch
from glassformer.checkpoints.weights import write_weights
for step in range(10**6):
    write_weights(sys.argv[1], {f"t{i}": torch.full((5000,), float(step)) for i in range(4)}, max_shard_size=20_000)
    if step == 0: print("saved", flush=True)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    chance = random.Random(0)
    for _ in range(2):
        command = [sys.executable, "-c", code, str(tmp_path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.15))
            child.kill()
        opened = open_weights(tmp_path)
        values = {value for name in opened for value in opened.read(name).unique().tolist()}
        assert len(opened) == 4 and len(values) == 1
    write_weights(tmp_path, {"a": torch.ones(1)})
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_a_reader_beside_a_writer_sees_complete_sets(tmp_path):
    def save(step: int) -> None:
        write_weights(tmp_path, {f"t{i}": torch.full((3,), float(step)) for i in range(4)}, max_shard_size=12)

    save(0)
    stop = threading.Event()

    def keep_saving() -> None:
        step = 1
        while not stop.is_set():
            save(step)
            step += 1

    writer = threading.Thread(target=keep_saving)
    writer.start()
    seen = set()
    try:
        end = time.monotonic() + 2
        while time.monotonic() < end:
            with contextlib.suppress(CheckpointError):  # "keeps changing" is an honest answer
                opened = open_weights(tmp_path)
                values = {value for name in opened for value in opened.read(name).tolist()}
                assert len(values) == 1, values
                seen |= values
    finally:
        stop.set()
        writer.join()
    assert len(seen) > 3


@pytest.mark.parametrize("new", KINDS)
@pytest.mark.parametrize("old", ["one file", "shards"])
def test_a_full_disk_leaves_the_previous_checkpoint(tmp_path, monkeypatch, old, new):
    tensors = some_tensors(1)
    write_weights(tmp_path, tensors, **KINDS[old])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    fsync, calls = os.fsync, []

    def full_at(moment):
        def call(descriptor):
            calls.append(1)
            if len(calls) > moment:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return fsync(descriptor)

        return call

    for moment in (0, 3):
        if moment and "shards" not in new:
            continue  # a single file is complete by then
        calls.clear()
        monkeypatch.setattr(files.os, "fsync", full_at(moment))
        with pytest.raises(CheckpointError, match=r"could not write .*: no space left on device"):
            write_weights(tmp_path, some_tensors(2), **KINDS[new])
        monkeypatch.undo()
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_write_that_really_fails(tmp_path):
    """The size limit of a process stands for a full disk: the third shard, or the one file, breaks off half way."""
    code = """
import resource, sys, torch
from glassformer.checkpoints.weights import write_weights
from glassformer.errors import CheckpointError
tensors = {"a": torch.ones(20_000), "b": torch.ones(20_000), "c": torch.ones(100_000)}
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for safe in (True, False):
    for size in ("5GB", 100_000):
        try:
            write_weights(sys.argv[1], tensors, safe_serialization=safe, max_shard_size=size)
        except CheckpointError as error:
            print(error)
"""
    tensors = some_tensors()
    write_weights(tmp_path, tensors, max_shard_size=40)
    before = sorted(os.listdir(tmp_path))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and all(line.startswith("could not write ") for line in lines), done
    assert sorted(os.listdir(tmp_path)) == before and same(open_weights(tmp_path), tensors)


def test_other_files_are_left_alone(tmp_path):
    kept = ["config.json", "model-one.safetensors", "adapter_model.safetensors", "model-00001-of-00002.txt"]
    for name in kept:
        (tmp_path / name).write_text("{}")
    write_weights(tmp_path, some_tensors(), max_shard_size=40)
    write_weights(tmp_path, some_tensors())
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "model.safetensors"])


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="cannot be a folder"):
        write_weights(tmp_path / "file" / "folder", some_tensors())
