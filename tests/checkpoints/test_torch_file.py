"""A pytorch_model.bin: both of torch's formats are read, damage is refused, and no code in it ever runs."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import struct
import zipfile
from pathlib import Path

import pytest
import torch

from glassformer.checkpoints import torch_file
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import CheckpointError, DamagedFileError, UnsafeFileError
from tests.checkpoints.weight_files import bits, memory_growth, same, some_tensors


@pytest.mark.parametrize("legacy", [False, True])
def test_torch_files_of_both_formats(tmp_path, legacy):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2), torch.nn.BatchNorm1d(2))
    saved = {**module.state_dict(), "parameter": torch.nn.Parameter(torch.ones(2)), "turned": torch.randn(2, 3).t()}
    for table in (saved, module.state_dict()):
        torch.save(table, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        opened = open_weights(tmp_path)
        assert same(opened, {name: tensor.detach() for name, tensor in table.items()})
        assert not any(opened.read(name).requires_grad for name in opened)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "legacy.bin"])
def test_bit_flips_in_a_torch_file_never_crash(tmp_path, name):
    tensors = some_tensors()
    torch.save(tensors, tmp_path / name, _use_new_zipfile_serialization=name != "legacy.bin")
    whole = (tmp_path / name).read_bytes()
    chance = random.Random(1)
    for _ in range(1000):
        flipped = bytearray(whole)
        for _ in range(chance.choice((1, 1, 8))):
            flipped[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / name).write_bytes(flipped)
        with contextlib.suppress(CheckpointError):
            opened = open_weights(tmp_path / name)
            for tensor in map(opened.read, opened):
                bits(tensor)  # every value can be touched


# --- pickles ---


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def malicious(path: Path, way: str, marker: Path) -> None:
    table = {"a": torch.ones(2), "b": Payload(marker)}
    if way.startswith("pickle"):
        path.write_bytes(pickle.dumps(table["b"], protocol=int(way[-1])))
    elif way == "inst":
        path.write_bytes(b"(S'%s'\nios\nmkdir\n." % bytes(marker))
    elif way == "inst in zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/data.pkl", b"\x80\x02(X\x01\x00\x00\x00aios\nmkdir\n.")
            archive.writestr("x/version", b"3\n")
    else:
        torch.save(table, path, _use_new_zipfile_serialization=way == "zip")


@pytest.mark.parametrize("way", ["zip", "legacy", "pickle2", "pickle4", "pickle5", "pickle0", "inst", "inst in zip"])
def test_a_malicious_pickle_is_refused_and_never_runs(tmp_path, way):
    marker = tmp_path / "it ran"
    malicious(tmp_path / "pytorch_model.bin", way, marker)
    with pytest.raises((UnsafeFileError, DamagedFileError)) as caught:
        open_weights(tmp_path)
    assert not marker.exists()
    if way not in ("pickle0", "inst"):  # pickles so old that they do not even say that they are pickles
        assert isinstance(caught.value, UnsafeFileError)
        assert "mkdir" in str(caught.value)


def test_the_restricted_unpickler_is_the_only_one(tmp_path, monkeypatch):
    """Even if the look through the pickle were fooled, torch is asked to load weights only, once, without fallback."""
    marker = tmp_path / "it ran"
    malicious(tmp_path / "pytorch_model.bin", "zip", marker)
    monkeypatch.setattr(torch_file, "_look_through_pickle", lambda *_: None)
    calls = []
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *a, **k: calls.append(k) or load(*a, **k))
    with pytest.raises(DamagedFileError):
        open_weights(tmp_path)
    assert not marker.exists()
    assert [call["weights_only"] for call in calls] == [True]


@pytest.mark.parametrize(
    "content, reason",
    [
        ({"state_dict": {"a": torch.ones(2)}}, "'state_dict' is no tensor .* training checkpoint"),
        ({"a": torch.ones(2), "epoch": 3}, "'epoch' is no tensor but a int"),
        ({"a": [torch.ones(2)]}, "'a' is no tensor but a list"),
        ({1: torch.ones(2)}, "names a tensor by '1'"),
        ([torch.ones(2)], "must hold a table of named tensors, got one list"),
        (torch.ones(2), "must hold a table of named tensors, got one Tensor"),
        ({"a": torch.ones(1).expand(10**6)}, "declares a size of 1,000,000"),
        ({"a": torch.ones(1, 1).expand(300, 300)}, "claims 360,000 bytes"),
        ({"a": torch.ones(2).to(torch.complex128)}, "no plain tensor|would run"),
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_torch_files_that_hold_no_plain_tensors(tmp_path, content, reason, zipped):
    torch.save(content, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match=reason):
        open_weights(tmp_path)


def refused(path: Path, reason: str = ".") -> None:
    with pytest.raises(DamagedFileError, match=reason):
        open_weights(path)


def rewrite_zip(path: Path, change, compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [(member.filename, archive.read(member)) for member in archive.infolist()]
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in change(members):
            archive.writestr(name, data)


def test_zip_tricks_are_refused(tmp_path):
    path = tmp_path / "pytorch_model.bin"

    def made(change, compression=zipfile.ZIP_STORED):
        torch.save({"a": torch.zeros(1000)}, path)
        rewrite_zip(path, change, compression)
        return path

    assert open_weights(made(lambda members: members)).read("a").shape == (1000,)
    with pytest.raises(DamagedFileError, match="compressed"):
        open_weights(made(lambda members: members, zipfile.ZIP_DEFLATED))
    with pytest.raises(DamagedFileError, match="not one of tensors"):
        open_weights(made(lambda members: [m for m in members if "data.pkl" not in m[0]]))
    with pytest.raises(UnsafeFileError, match="TorchScript"):
        open_weights(made(lambda members: [*members, ("pytorch_model/constants.pkl", b"")]))
    with pytest.raises(DamagedFileError):  # a tensor larger than its storage
        open_weights(made(lambda members: [(n, d[:40] if n.endswith("data/0") else d) for n, d in members])).read("a")
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/data.pkl", b"\0" * 10**8)
    path.write_bytes(bomb.getvalue())
    assert memory_growth(lambda: refused(path)) < 50 * 10**6


@pytest.mark.parametrize("zipped", [True, False])
def test_a_storage_larger_than_the_file_is_refused_before_allocation(tmp_path, zipped):
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.zeros(300)}, path, _use_new_zipfile_serialization=zipped)
    number, huge = b"M" + struct.pack("<H", 300), b"J" + struct.pack("<i", 2**31 - 1)  # the pickle's way to say 300

    if zipped:
        rewrite_zip(path, lambda members: [(n, d.replace(number, huge)) for n, d in members])
    else:
        path.write_bytes(path.read_bytes().replace(number, huge))
    assert memory_growth(lambda: refused(path, "declares a size of 2,147,483,647")) < 50 * 10**6
