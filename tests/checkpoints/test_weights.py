"""Weight files: what is read equals what was written, and what is damaged or hostile is refused in one line."""

from __future__ import annotations

import contextlib
import copy
import errno
import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch

from glassformer.checkpoints import files, weights
from glassformer.checkpoints.weights import DTYPES, ENTRIES, HEADER_LIMIT, open_weights, write_weights
from glassformer.errors import CheckpointError, DamagedFileError, UnsafeFileError

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tmp_path():
    """A folder in memory where there is one: thousands of flushes to a shared disk would take minutes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        yield Path(folder)


def some_tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {
        "embeddings.weight": torch.randn(7, 4),
        "layer.0.weight": torch.randn(4, 4).to(torch.bfloat16),
        "layer.0.bias": torch.randn(4),
        "position_ids": torch.arange(5) + seed,
        "scale": torch.tensor(1.5 + seed),
        "nothing": torch.empty(0, 4),
        "flags": torch.tensor([True, False, True]),
    }


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(opened: weights.Weights, tensors: dict[str, torch.Tensor]) -> bool:
    return set(opened.names()) == set(tensors) and all(
        opened.info(name).dtype == opened.read(name).dtype == tensors[name].dtype
        and opened.info(name).shape == tuple(opened.read(name).shape) == tuple(tensors[name].shape)
        and bits(opened.read(name)) == bits(tensors[name])
        for name in tensors
    )


def raw_file(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    """A safetensors file from any header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(begin: int, end: int, shape: list, dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


# --- reading what is sound ---


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


def test_the_safetensors_library_reads_ours_and_we_read_its(tmp_path):
    tensors = some_tensors()
    write_weights(tmp_path / "ours", tensors)
    theirs = safetensors.torch.load_file(tmp_path / "ours" / "model.safetensors")
    assert theirs.keys() == tensors.keys() and all(bits(theirs[name]) == bits(tensors[name]) for name in tensors)
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors", metadata={"made": "there"})
    opened = open_weights(tmp_path / "theirs.safetensors")
    assert same(opened, tensors) and opened.metadata == {"made": "there"}


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


def test_tensors_are_mapped_not_copied_and_private(tmp_path):
    tensors = {"a": torch.randn(500, 1000), "b": torch.randn(3)}
    write_weights(tmp_path, tensors)
    before = (tmp_path / "model.safetensors").read_bytes()
    kept = []
    grown = memory_growth(lambda: kept.append(open_weights(tmp_path).read("a")))
    assert grown < 10**6 < tensors["a"].nbytes
    first = kept[0]
    assert torch.equal(first, tensors["a"])
    first.zero_()
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert torch.equal(open_weights(tmp_path).read("a"), tensors["a"])
    assert first.untyped_storage().nbytes() == first.nbytes  # a copy of one tensor does not drag the file along
    assert copy.deepcopy(first).equal(first)


def test_a_tensor_off_its_alignment_is_copied(tmp_path):
    values = torch.randn(3)
    header = {"byte": entry(0, 1, [1], "U8"), "a": entry(1, 13, [3])}
    path = raw_file(tmp_path / "x.safetensors", header, b"\x07" + bits(values))
    assert torch.equal(open_weights(path).read("a"), values)


def test_the_mapping_outlives_the_name(tmp_path):
    tensors = some_tensors()
    write_weights(tmp_path, tensors)
    opened = open_weights(tmp_path)
    write_weights(tmp_path, {name: opened.read(name) for name in opened})  # over the very file that is mapped
    assert same(opened, tensors) and same(open_weights(tmp_path), tensors)
    os.unlink(tmp_path / "model.safetensors")
    assert same(opened, tensors)


@pytest.mark.parametrize("legacy", [False, True])
def test_torch_files_of_both_formats(tmp_path, legacy):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LayerNorm(2), torch.nn.BatchNorm1d(2))
    saved = {**module.state_dict(), "parameter": torch.nn.Parameter(torch.ones(2)), "turned": torch.randn(2, 3).t()}
    for table in (saved, module.state_dict()):
        torch.save(table, tmp_path / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
        opened = open_weights(tmp_path)
        assert same(opened, {name: tensor.detach() for name, tensor in table.items()})
        assert not any(opened.read(name).requires_grad for name in opened)


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


# --- hostile headers ---


def memory_growth(call) -> int:
    """How many bytes of memory a call needed at its peak, as the system counts them."""

    def read(field: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) * 1024

    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the earlier peak
        before = read("VmRSS")
    except OSError:
        pytest.skip("this system does not tell the peak of memory")
    call()
    return read("VmHWM") - before


ONE = b'"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
MANY = b",".join(b'"t%d":{"dtype":"U8","shape":[],"data_offsets":[%d,%d]}' % (i, i, i + 1) for i in range(80_000))
WIDE = "\U0001f600"  # makes Python store a text with four bytes for each character

HOSTILE = {
    "length 2^63": (b"{}", b"", 2**63),
    "length 2^64-1": (b"{}", b"", 2**64 - 1),
    "longer than the file": (b"{}", b"", 3),
    "a million entries": (b"{" + b",".join([MANY] * 13) + b"}", b"", None),
    "many entries within the limit": (b"{" + MANY[: HEADER_LIMIT - 100] + b"}", b"", None),
    "a header beyond the limit": (b"{" + b" " * HEADER_LIMIT + b"}", b"", None),
    "one long string": (b'{"' + b"a" * (HEADER_LIMIT - 100) + WIDE.encode() + b'": 1}', b"", None),
    "a long string of escapes": (b'{"' + b"\\u1234" * (HEADER_LIMIT // 6 - 10) + b'": 1}', b"", None),
    "many small objects": (b'{"a":[' + b"{}," * (HEADER_LIMIT // 3 - 10) + b"{}]}", b"", None),
    "objects below the count": (b'{"a":[' + b'{"":0},' * 66_000 + b"{}]}", b"", None),
    "lists below the count": (b'{"a":[' + b"[]," * 99_000 + b"0]}", b"", None),
    "deep lists": (b'{"a":' + b"[" * 190_000, b"", None),
    "deep objects": (b'{"a":' * 95_000, b"", None),
    "long sizes": (b'{"a":{"dtype":"U8","data_offsets":[0,1],"shape":[' + b"1" * 21 + b"]}}", b"\0", None),
    "long numbers": (b'{"a":[' + b",".join([b"9" * 4000] * 1000) + b"]}", b"", None),
    "a number too long": (b'{"a":' + b"9" * 100_000 + b"}", b"", None),
    "a huge exponent": (b'{"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}}', b"\0" * 4, None),
    "a name twice": (b"{" + b",".join([ONE] * 2) + b"}", b"\0", None),
    "a field twice": (b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"\0", None),
    "overlapping": ({"a": entry(0, 8, [2]), "b": entry(4, 12, [2])}, b"\0" * 12, None),
    "the same range twice": ({"a": entry(0, 8, [2]), "b": entry(0, 8, [2])}, b"\0" * 8, None),
    "a hole": ({"a": entry(0, 4, [1]), "b": entry(8, 12, [1])}, b"\0" * 12, None),
    "a hole at the start": ({"a": entry(4, 8, [1])}, b"\0" * 8, None),
    "beyond the file": ({"a": entry(0, 400, [100])}, b"\0" * 4, None),
    "overflowing": ({"a": entry(0, 2**62, [2**60])}, b"\0" * 4, None),
    "wrapping around": ({"a": entry(2**64 - 4, 2**64, [1])}, b"\0" * 4, None),
    "backwards": ({"a": entry(4, 0, [1])}, b"\0" * 4, None),
    "negative range": ({"a": entry(-4, 0, [1])}, b"\0" * 4, None),
    "negative shape": ({"a": entry(0, 4, [-1, -1])}, b"\0" * 4, None),
    "product wraps to the size": ({"a": entry(0, 4, [2**32, 2**32, 1])}, b"\0" * 4, None),
    "huge beside zero": ({"a": entry(0, 0, [0, 2**62, 2**62])}, b"", None),
    "too many dimensions": ({"a": entry(0, 4, [1] * 1000)}, b"\0" * 4, None),
    "size against shape": ({"a": entry(0, 4, [2])}, b"\0" * 4, None),
    "size against dtype": ({"a": entry(0, 4, [1], "F64")}, b"\0" * 4, None),
    "unknown dtype": ({"a": entry(0, 4, [1], "F33")}, b"\0" * 4, None),
    "dtype is a list": ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, None),
    "shape is true": ({"a": entry(0, 4, [True])}, b"\0" * 4, None),
    "shape is a fraction": ({"a": entry(0, 4, [1.0])}, b"\0" * 4, None),
    "shape is text": ({"a": entry(0, 4, "1")}, b"\0" * 4, None),
    "three offsets": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}}, b"\0" * 4, None),
    "a field more": ({"a": {**entry(0, 4, [1]), "x": 1}}, b"\0" * 4, None),
    "a field less": ({"a": {"dtype": "F32", "shape": [1]}}, b"\0" * 4, None),
    "no object": ({"a": 3}, b"", None),
    "a list": (b"[]", b"", None),
    "leading space": (b" {}", b"", None),
    "not a number": (b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', b"\0" * 4, None),
    "half a surrogate": (b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4, None),
    "not UTF-8": (b'{"\xff":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', b"\0" * 4, None),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, b"", None),
    "metadata is a list": ({"__metadata__": []}, b"", None),
    "trailing bytes": ({"a": entry(0, 4, [1])}, b"\0" * 5, None),
    "bytes without tensors": (b"{}", b"\0", None),
    "empty header": (b"", b"", None),
    "rubbish after the object": (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}x', b"\0" * 4, None),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_refused_cheaply(tmp_path, case):
    header, data, length = HOSTILE[case]
    path = raw_file(tmp_path / "model.safetensors", header, data, length)
    took = []

    def refuse():
        start = time.process_time()  # other work shares the machine
        with pytest.raises(DamagedFileError) as caught:
            open_weights(tmp_path)
        took.append(time.process_time() - start)
        message = str(caught.value)
        assert str(path) in message and "\n" not in message and len(message) < len(str(path)) + 300

    assert memory_growth(refuse) < 50 * 10**6
    refuse()
    assert min(took) < 0.2


@pytest.mark.parametrize("size", range(9))
def test_a_file_too_short_for_a_header(tmp_path, size):
    (tmp_path / "model.safetensors").write_bytes(b"\0" * size)
    with pytest.raises(DamagedFileError, match=r"truncated|empty|not a JSON object"):
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


def test_bit_flips_in_a_header(tmp_path):
    """Every single bit: a typed error, or equal values. A changed name is left to whoever knows the right ones."""
    tensors = some_tensors()
    del tensors["nothing"]  # the shape of an empty tensor may change and nobody but its model can tell
    write_weights(tmp_path, tensors)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    expected = sorted(map(bits, tensors.values()))
    refused = renamed = 0
    for position in range(8 * (8 + length)):
        flipped = bytearray(whole)
        flipped[position // 8] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            opened = open_weights(tmp_path)
        except DamagedFileError:
            refused += 1
            continue
        if same(opened, tensors):
            continue
        assert set(opened.names()) - set(tensors), position
        assert sorted(bits(opened.read(name)) for name in opened) == expected, position
        renamed += 1
    assert refused > 0.6 * 8 * length and renamed


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
    monkeypatch.setattr(weights, "_look_through_pickle", lambda *_: None)
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


# --- writing ---


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
def test_killed_at_any_moment_the_folder_holds_one_whole_set(tmp_path, old, new):
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


def test_what_a_dead_save_left_makes_room_before_the_next(tmp_path, monkeypatch):
    tensors = some_tensors(1)
    write_weights(tmp_path, tensors, max_shard_size=40)
    before = sorted(os.listdir(tmp_path))
    (tmp_path / "model-00001-of-00009.staged-0123abcd.safetensors").write_bytes(b"left over")
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

            for name in ("replace", "unlink", "link", "fsync"):
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


def test_a_reader_beside_a_writer_sees_whole_sets(tmp_path):
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


def test_without_hard_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(weights.os, "link", refuse)
    for seed in (1, 2):
        write_weights(tmp_path, some_tensors(seed), max_shard_size=40)
        assert same(open_weights(tmp_path), some_tensors(seed))
    assert not [name for name in os.listdir(tmp_path) if "staged" in name or "tmp" in name]


def test_other_files_are_left_alone(tmp_path):
    kept = ["config.json", "model-one.safetensors", "adapter_model.safetensors", "model-00001-of-00002.txt"]
    for name in kept:
        (tmp_path / name).write_text("{}")
    write_weights(tmp_path, some_tensors(), max_shard_size=40)
    write_weights(tmp_path, some_tensors())
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "model.safetensors"])


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="could not create"):
        write_weights(tmp_path / "file" / "folder", some_tensors())
