"""Corrupted safetensors files: bytes that changed, headers that lie, files that are cut or filled up."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from glassformer import BertForSequenceClassification
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import GlassformerError

from .case import Case
from .json_mutations import damage, mutate
from .small_models import small_classifier

NAME = "safetensors files"
NUMBERS = (0, 1, -1, 7, 2**31, 2**62, 2**63, 2**64 - 1)
HEADER_NAMES = ["__metadata__", "a", "bert.embeddings.word_embeddings.weight", "classifier.bias", "dtype", "shape"]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    small_classifier(folder / "model")
    path = folder / "model" / "model.safetensors"
    whole = path.read_bytes()
    expected = {name: open_weights(path).read(name) for name in open_weights(path)}
    while True:
        changed, description = corrupt(rng, whole)
        run = partial(load, path, changed, expected if changed == whole else None)
        yield Case(description, run, (GlassformerError,), forked=True, seconds=30, megabytes=400)


def corrupt(rng: random.Random, whole: bytes) -> tuple[bytes, str]:
    """Another file, and what was done to it."""
    (length,) = struct.unpack("<Q", whole[:8])
    header, values = whole[8 : 8 + length], whole[8 + length :]
    kind = rng.randrange(6)
    if kind == 0:
        changed = bytearray(whole)
        places = [rng.randrange(len(whole) if rng.random() < 0.5 else 8 + length) for _ in range(rng.choice((1, 2, 8)))]
        for place in places:
            changed[place] ^= 1 << rng.randrange(8)
        return bytes(changed), f"bits changed at {places}"
    if kind == 1:
        return damage(rng, whole)
    if kind == 2:
        number = rng.choice([*NUMBERS, length + rng.randrange(-9, 9)]) % 2**64
        return struct.pack("<Q", number) + whole[8:], f"a header of {number} bytes"
    if kind == 3:
        more = rng.randbytes(rng.choice((1, 8, 4096)))
        return whole + more, f"{len(more)} bytes behind the end"
    entries, done = (mutate if rng.random() < 0.6 else lie)(rng, json.loads(header), HEADER_NAMES)
    text = json.dumps(entries).encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(text)) + text + values, f"header: {done}"


def lie(rng: random.Random, entries: dict[str, Any], _: list[str]) -> tuple[dict[str, Any], str]:
    """A header with another place, shape or type of one tensor."""
    name = rng.choice([name for name in entries if name != "__metadata__"])
    entry = dict(entries[name])
    field = rng.choice(("data_offsets", "shape", "dtype"))
    if field == "dtype":
        entry[field] = rng.choice(("F64", "F16", "BF16", "I64", "U8", "BOOL", "F8_E4M3", "F4", "C64"))
    else:
        values = list(entry[field]) or [1]
        values[rng.randrange(len(values))] = rng.choice(NUMBERS)
        entry[field] = values if rng.random() < 0.8 else [*values, rng.choice(NUMBERS)]
    return {**entries, name: entry}, f"{name} {field} = {entry[field]}"


def load(path: Path, content: bytes, expected: dict[str, torch.Tensor] | None) -> None:
    path.write_bytes(content)
    weights = open_weights(path)
    values = {name: weights.read(name) for name in weights}
    for value in values.values():
        value.float().sum()
    if expected is not None:
        assert all(torch.equal(values[name], tensor) for name, tensor in expected.items())
    model = BertForSequenceClassification.from_pretrained(path.parent)
    with torch.no_grad():
        model(torch.tensor([[2, 5, 3]]))
