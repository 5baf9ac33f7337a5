"""A pytorch_model.bin: both of torch's formats are read, damage is refused, and no code in it ever runs."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import struct
import time
import zipfile
from pathlib import Path

import pytest
import torch

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


def test_no_unpickler_of_python_or_torch_reads_a_file(tmp_path, monkeypatch):
    tensors = some_tensors()
    for legacy in (False, True):
        torch.save(tensors, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        with monkeypatch.context() as patched:
            for owner, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
                patched.setattr(owner, name, None)
            assert same(open_weights(tmp_path), tensors)


def as_zip(path: Path, table: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/data.pkl", table)
    return path


START = b"\x80\x02"
ORDERED = b"ccollections\nOrderedDict\n"
HOSTILE = {
    "nested tuples": START + b")" + b"\x85" * 300_000 + b".",
    "nested tuples as a key": START + b"}" + b")" + b"\x85" * 100_000 + b"Ns.",
    "nested lists": START + b"]" + b"]" * 10_000 + b"a" * 10_000 + b".",
    "nested tables": START + b"}" + b"K\x01}" * 9_000 + b"s" * 9_000 + b".",
    "marks": START + b"(" * 300_000 + b".",
    "30 MB of tables": START + b"}" * 30_000_000,
    "15 MB of tables": START + b"}" * 15_000_000,
    "tables that are dropped": START + b"}0" * 5_000_000 + b".",
    "one list many times": START + b"]q\x00" + b"h\x00a" * 2_000_000 + b".",
    "a list in itself": START + b"]q\x00h\x00a.",
    "a table with odd state": START + ORDERED + b")RK\x01b.",
    "a table with a tuple as state": START + ORDERED + b")R)b.",
    "a table of odd pairs": START + ORDERED + b"(K\x01K\x02tR.",
    "a number of a million digits": START + b"I" + b"9" * 1_000_000 + b"\n.",
    "a long number": START + b"\x8b" + struct.pack("<i", 2_000_000) + b"\x7f" * 2_000_000 + b".",
    "a string longer than the file": START + b"\x8d" + struct.pack("<Q", 2**40) + b"x.",
    "an empty stack": START + b"0.",
    "nothing on the stack": START + b".",
    "a set": START + b"\x8f.",
    "a called number": START + b"K\x01)R.",
    "a tensor of nothing": START + b"ctorch._utils\n_rebuild_tensor_v2\n)R.",
    "a storage of nothing": START + b")Q.",
    "a function named by tuples": START + b")" + b"\x85" * 5000 + b")\x93.",
}


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_damaged_files_in_bounded_time_and_memory(tmp_path, name, zipped):
    path = tmp_path / "pytorch_model.bin"
    if zipped:
        as_zip(path, HOSTILE[name])
    else:
        torch.save({}, path, _use_new_zipfile_serialization=False)
        start = path.read_bytes()
        path.write_bytes(start[: start.rindex(b"\x80\x02", 0, start.rindex(b"\x80\x02"))] + HOSTILE[name])
    begin = time.process_time()
    assert memory_growth(lambda: refused(path)) < 200 * 10**6
    assert time.process_time() - begin < 20  # a few seconds, and minutes before there were bounds


def test_an_ordered_table_with_attributes_is_read(tmp_path):
    module = torch.nn.Linear(2, 2)
    torch.save(module.state_dict(), tmp_path / "pytorch_model.bin")
    assert same(open_weights(tmp_path), {name: value.detach() for name, value in module.state_dict().items()})


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_pickle_is_read(tmp_path, zipped, protocol):
    shared = torch.arange(12.0).reshape(3, 4)
    table = {"a": shared, "b": shared[1:], "c": shared.t(), "scalar": shared[2, 1], "empty": shared[:0]}
    table["float8"] = torch.randn(3).to(torch.float8_e4m3fn)
    if protocol > 2 and not zipped:
        pytest.skip("an old torch file begins with a number of protocol 2")
    path = tmp_path / "pytorch_model.bin"
    torch.save(table, path, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    assert same(open_weights(path), table)


def test_views_of_one_storage_cannot_fill_the_memory(tmp_path):
    values = torch.zeros(100_000)
    torch.save({f"w{i}": values for i in range(50)}, tmp_path / "pytorch_model.bin")
    refused(tmp_path, "so many tensors")


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
