"""A safetensors file: as the safetensors library has it, and a hostile header refused in one line."""

from __future__ import annotations

import copy
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import time

import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from glassformer.checkpoints.safetensors_file import HEADER_LIMIT
from glassformer.checkpoints.weights import open_weights, write_weights
from glassformer.errors import DamagedFileError
from tests.checkpoints.weight_files import bits, entry, memory_growth, raw_file, same, some_tensors


def test_the_safetensors_library_reads_ours_and_we_read_its(tmp_path):
    tensors = some_tensors()
    write_weights(tmp_path / "ours", tensors)
    theirs = safetensors.torch.load_file(tmp_path / "ours" / "model.safetensors")
    assert theirs.keys() == tensors.keys() and all(bits(theirs[name]) == bits(tensors[name]) for name in tensors)
    safetensors.torch.save_file(tensors, tmp_path / "theirs.safetensors", metadata={"made": "there"})
    opened = open_weights(tmp_path / "theirs.safetensors")
    assert same(opened, tensors) and opened.metadata == {"made": "there"}


def test_opening_reads_no_values_and_tensors_are_memory_of_their_own(tmp_path):
    tensors = {"a": torch.randn(3000, 1000), "b": torch.randn(3)}
    write_weights(tmp_path, tensors)
    file = tmp_path / "model.safetensors"
    before = file.read_bytes()
    open_weights(tmp_path)  # the first opening of a process also pays for the library
    opened = []
    assert memory_growth(lambda: opened.append(open_weights(tmp_path))) < 10**6 < tensors["a"].nbytes
    first, second = opened[0].read("a"), opened[0].read("a")
    first.zero_()
    assert file.read_bytes() == before and torch.equal(second, tensors["a"])
    with open(file, "r+b") as overwritten:  # in place, as cp does it
        overwritten.write(bytes(len(before)))
    assert torch.equal(second, tensors["a"])
    os.truncate(file, 100)
    assert torch.equal(second, tensors["a"])
    with pytest.raises(DamagedFileError, match="truncated while it was read"):
        opened[0].read("b")
    assert second.untyped_storage().nbytes() == second.nbytes  # one tensor does not drag the file along
    assert copy.deepcopy(second).equal(second)


def test_a_tensor_off_its_alignment_is_copied(tmp_path):
    values = torch.randn(3)
    header = {"byte": entry(0, 1, [1], "U8"), "a": entry(1, 13, [3])}
    path = raw_file(tmp_path / "x.safetensors", header, b"\x07" + bits(values))
    assert torch.equal(open_weights(path).read("a"), values)


# --- hostile headers ---


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
    "small lists": (b'{"a":[' + b"[0]," * (HEADER_LIMIT // 4 - 10) + b"0]}", b"", None),
    "a long shape": (b'{"a":{"dtype":"U8","data_offsets":[0,0],"shape":[' + b"0," * 2_000_000 + b"0]}}", b"", None),
    "much metadata": (b'{"__metadata__":{' + b",".join(b'"%x":""' % i for i in range(400_000)) + b"}}", b"", None),
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
    "dtype of no tensor": ({"a": entry(0, 3, [4], "F6_E2M3")}, b"\0" * 3, None),
    "dtype is an object": ({"a": {**entry(0, 4, [1]), "dtype": {"F32": None}}}, b"\0" * 4, None),
    "dtype is a list": ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4, None),
    "shape is true": ({"a": entry(0, 4, [True])}, b"\0" * 4, None),
    "shape is a fraction": ({"a": entry(0, 4, [1.0])}, b"\0" * 4, None),
    "shape is text": ({"a": entry(0, 4, "1")}, b"\0" * 4, None),
    "three offsets": ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}}, b"\0" * 4, None),
    "a field more": ({"a": {**entry(0, 4, [1]), "x": 1}}, b"\0" * 4, None),
    "fields without names": ({"a": ["F32", [1], [0, 4]]}, b"\0" * 4, None),
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


# --- what the library does not do, and why there is code of our own for it ---


@pytest.mark.parametrize("case", ["a million entries", "small lists", "a long shape"])
def test_the_library_does_not_bound_what_a_header_costs(tmp_path, case):
    path = raw_file(tmp_path / "model.safetensors", *HOSTILE[case])
    code = """
import contextlib, pathlib, sys
from safetensors import SafetensorError, safe_open
peak = lambda: int(pathlib.Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
before = peak()
with contextlib.suppress(SafetensorError):
    safe_open(sys.argv[1], "np")
print(peak() - before)
"""  # in a process of its own, which has no freed memory to use again
    if not os.path.exists("/proc/self/status"):
        pytest.skip("this system does not report the peak of memory")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 > 50 * 10**6


@pytest.mark.parametrize(
    "case",
    [
        "a name twice",
        "a field more",
        "fields without names",
        "leading space",
        "huge beside zero",
        "too many dimensions",
        "dtype of no tensor",
        "dtype is an object",
    ],
)
def test_the_library_accepts_headers_that_are_ambiguous_or_of_no_use(tmp_path, case):
    with safe_open(raw_file(tmp_path / "model.safetensors", *HOSTILE[case]), "pt") as opened:
        assert list(opened.keys()) == ([] if case == "leading space" else ["a"])


def test_the_library_waits_for_a_pipe(tmp_path):
    """It opens whatever has the name: a pipe, which has no end, makes it wait until somebody writes."""
    pipe = tmp_path / "model.safetensors"
    os.mkfifo(pipe)
    with pytest.raises(DamagedFileError, match="is not a file"):
        open_weights(tmp_path)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.open(pipe, os.O_WRONLY)  # returns when another process has opened the pipe for reading
        os.write(writing, b"opened")
        os._exit(0)
    try:
        with pytest.raises((SafetensorError, OSError)):
            safe_open(pipe, "pt")
        assert select.select([reading], [], [], 10)[0]
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_the_library_opens_a_name_twice(tmp_path, monkeypatch):
    """A file that takes the name between the two openings: the header of the one with the values of the other."""
    path, other = tmp_path / "model.safetensors", tmp_path / "other.safetensors"
    map_file = torch.UntypedStorage.from_file

    def replace_and_map(*args, **kwargs):
        os.replace(other, path)
        return map_file(*args, **kwargs)

    monkeypatch.setattr(torch.UntypedStorage, "from_file", replace_and_map)
    for read, expected in (
        (lambda: safe_open(path, "pt").get_tensor("a"), 2),
        (lambda: open_weights(path).read("a"), 1),
    ):
        safetensors.torch.save_file({"a": torch.tensor([1])}, path)
        safetensors.torch.save_file({"b": torch.tensor([2])}, other)
        assert read().item() == expected


def test_the_library_leaves_a_tensor_off_its_alignment(tmp_path):
    header = {"byte": entry(0, 1, [1], "U8"), "a": entry(1, 13, [3])}
    path = raw_file(tmp_path / "x.safetensors", header, b"\x07" + bits(torch.randn(3)))
    assert safe_open(path, "pt").get_tensor("a").data_ptr() % 4 != 0
    assert open_weights(path).read("a").data_ptr() % 4 == 0


def test_the_library_writes_for_its_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        safetensors.torch.save_file(some_tensors(), tmp_path / "theirs.safetensors")
        write_weights(tmp_path, some_tensors())
    finally:
        os.umask(before)
    assert (tmp_path / "theirs.safetensors").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace shows the calls that reach the system")
def test_the_library_renames_what_is_not_on_the_disk_yet(tmp_path):
    """After a power cut its new name may stand for an empty file, with the old one gone."""
    code = "import sys, numpy, safetensors.numpy as s; s.save_file({'a': numpy.ones(3)}, sys.argv[1])"
    command = ["strace", "-f", "-e", "trace=fsync,fdatasync,rename,renameat,renameat2", sys.executable, "-c", code]
    done = subprocess.run([*command, tmp_path / "x.safetensors"], capture_output=True, text=True)
    if "rename" not in done.stderr:
        pytest.skip("strace may not be used here")
    assert "x.safetensors" in done.stderr and "sync(" not in done.stderr


def test_the_library_writes_the_memory_of_a_view(tmp_path):
    view = torch.tensor([1 + 2j], dtype=torch.complex64).conj()
    safetensors.torch.save_file({"a": view}, tmp_path / "theirs.safetensors")
    write_weights(tmp_path, {"a": view})
    assert open_weights(tmp_path / "theirs.safetensors").read("a").item() == 1 + 2j
    assert open_weights(tmp_path).read("a").item() == 1 - 2j


def test_what_the_library_says_of_a_file_is_printable(tmp_path):
    path = raw_file(tmp_path / "x.safetensors", {"\x1b[31m": entry(4, 8, [1])}, b"\0" * 8)
    with pytest.raises(SafetensorError, match="\x1b"):
        safe_open(path, "pt")
    with pytest.raises(DamagedFileError, match=r"invalid offset for tensor `\?\[31m`"):
        open_weights(path)
