"""Hostile pytorch_model.bin: pickles that changed, pickles of random instructions, zip archives that lie."""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import random
import struct
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from glassformer.checkpoints.weights import open_weights
from glassformer.errors import GlassformerError
from glassformer.text.transfo_xl_vocabulary import read_words

from .case import Case

NAME = "pickles"
OPERATIONS = [operation for operation in pickletools.opcodes if operation.name not in ("FRAME",)]
GLOBALS = (
    b"ccollections\nOrderedDict\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"ctorch._utils\n_rebuild_parameter\n",
    b"ctorch\nFloatStorage\n",
    b"ctorch\nSize\n",
    b"cos\nmkdir\n",
    b"cbuiltins\neval\n",
)
PIECES = (b")\x85", b"}", b"]", b"(", b"0", b"2", b"}K\x01}s", b"h\x00a", b"]q\x00", b"N", b"\x8f", b"R", b"b", b"t")
ENDS = (b".", b"", b"e.", b"s.", b"u.", b"Q.", b"tR.")


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    table = {"a": torch.randn(3, 4), "b": torch.arange(5), "c": torch.nn.Parameter(torch.ones(2))}
    originals = {}
    for name, zipped in (("zip", True), ("legacy", False)):
        file = io.BytesIO()
        torch.save(table, file, _use_new_zipfile_serialization=zipped)
        originals[name] = file.getvalue()
    marker = folder / "it ran"
    while True:
        if rng.random() < 0.2:
            content, description = hostile_vocabulary(rng)
            run = partial(read_vocabulary, folder / "vocab.pkl", content)
            yield Case(description, run, (GlassformerError,), forked=True, seconds=60, megabytes=500)
            continue
        content, description = hostile(rng, originals, marker)
        run = partial(load, folder / "pytorch_model.bin", content, marker)
        yield Case(description, run, (GlassformerError,), forked=True, seconds=60, megabytes=500)


def hostile(rng: random.Random, originals: dict[str, bytes], marker: Path) -> tuple[bytes, str]:
    """A file, and what it is."""
    kind = rng.choice(("bits", "cut", "instructions", "repeated", "pickled", "members", "spliced"))
    name = rng.choice(sorted(originals))
    whole = bytearray(originals[name])
    if kind == "bits":
        places = [rng.randrange(len(whole)) for _ in range(rng.choice((1, 2, 16)))]
        for place in places:
            whole[place] ^= 1 << rng.randrange(8)
        return bytes(whole), f"{name}, bits changed at {places}"
    if kind == "cut":
        place = rng.randrange(len(whole))
        return bytes(whole[:place]), f"{name}, cut at {place}"
    if kind == "spliced":
        place = rng.randrange(len(whole))
        more = instructions(rng, 5)
        return bytes(whole[:place]) + more + bytes(whole[place:]), f"{name}, {more!r:.80} put in at {place}"
    if kind == "members":
        return members(rng, originals["zip"])
    if kind == "instructions":
        content = b"\x80\x02" + instructions(rng, rng.choice((3, 20, 200))) + rng.choice(ENDS)
    elif kind == "repeated":
        piece, count = rng.choice(PIECES), rng.choice((10, 1000, 50_000, 1_000_000))
        content = b"\x80\x02" + rng.choice((b")", b"}", b"]q\x00", b"")) + piece * count + rng.choice(ENDS)
    else:
        value = nested(rng, 4) if rng.random() < 0.8 else Payload(marker)
        content = pickle.dumps(value, protocol=rng.randrange(6))
    if rng.random() < 0.5:
        return as_zip({"x/data.pkl": content, "x/version": b"3\n"}), f"zip, {kind}: {content!r:.100}"
    start = originals["legacy"]
    third = start.index(b"\x80\x02", start.index(b"\x80\x02", start.index(b"\x80\x02", 1) + 1) + 1)
    return start[:third] + content, f"legacy, {kind}: {content!r:.100}"


class Payload:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.marker),)


def nested(rng: random.Random, depth: int) -> object:
    if depth == 0:
        return rng.choice((None, True, 3, 2**70, 0.5, "a", b"b", "state_dict", set(), range(2)))
    inner = [nested(rng, depth - 1) for _ in range(rng.randrange(3))]
    return rng.choice((inner, tuple(inner), {str(i): each for i, each in enumerate(inner)}, {"a": inner}))


def instructions(rng: random.Random, count: int) -> bytes:
    """Random instructions with arguments of the right length, most of the time."""
    parts = []
    for _ in range(count):
        if rng.random() < 0.2:
            parts.append(rng.choice(GLOBALS))
            continue
        operation = rng.choice(OPERATIONS)
        argument = b""
        if operation.arg is not None:
            size = operation.arg.n
            if size > 0:
                argument = rng.randbytes(size)
            elif size == pickletools.UP_TO_NEWLINE:
                argument = rng.choice((b"1\n", b"x\n", b"'a'\n", b"9" * 5000 + b"\n"))
            else:
                width = {-2: 1, -3: 4, -4: 4, -5: 8}.get(size, 1)
                argument = struct.pack("<Q", rng.choice((0, 1, 3, 2**31 - 1, 2**63)))[:width] + b"abc"
        parts.append(operation.code.encode("latin-1") + argument)
    return b"".join(parts)


def as_zip(content: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file.getvalue()


def members(rng: random.Random, whole: bytes) -> tuple[bytes, str]:
    """An archive with one member that is missing, shorter, longer or another."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(content))
    way = rng.choice(("missing", "shorter", "longer", "empty", "renamed", "compressed", "big"))
    data = content.pop(name)
    if way == "renamed":
        content[rng.choice(("../" + name, "/etc/x", name + "0", "constants.pkl", "y/data.pkl"))] = data
    elif way != "missing":
        changed = {"shorter": data[: len(data) // 2], "longer": data * 3, "empty": b"", "big": b"big"}
        content[name] = changed.get(way, data)
    compression = zipfile.ZIP_DEFLATED if way == "compressed" else zipfile.ZIP_STORED
    return as_zip(content, compression), f"zip, {name} {way}"


def hostile_vocabulary(rng: random.Random) -> tuple[bytes, str]:
    """A vocabulary of Transformer-XL, which is a pickle too."""
    words = ["<eos>", "<unk>", "a", "b"]
    kind = rng.choice(("bits", "instructions", "repeated"))
    if kind == "instructions":
        return b"\x80\x02" + instructions(rng, rng.randrange(1, 60)) + rng.choice(ENDS), "vocabulary, instructions"
    if kind == "repeated":
        pieces, count = [rng.choice(PIECES) for _ in range(rng.randrange(1, 4))], rng.choice((60, 30_000, 1_000_000))
        begin = rng.choice((b")", b"}", b"]q\x00", b"(", b"ccollections\nOrderedDict\n}"))
        return b"\x80\x02" + begin + b"".join(pieces) * count + rng.choice(ENDS), f"vocabulary, {pieces} x {count}"
    whole = bytearray(pickle.dumps({"idx2sym": words, "sym2idx": dict(enumerate(words))}, rng.randrange(5)))
    for _ in range(rng.choice((1, 2, 8))):
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    return bytes(whole), "vocabulary, bits"


def read_vocabulary(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    read_words(path)


def load(path: Path, content: bytes, marker: Path) -> None:
    path.write_bytes(content)
    try:
        weights = open_weights(path)
        for name in weights:
            weights.read(name).double().sum()
    finally:
        assert not marker.exists(), "code of the file was run"
