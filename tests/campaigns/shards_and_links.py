"""Indexes of shards that lie, shards that are missing or another's, links out of a checkpoint and into nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from glassformer import AutoTokenizer, BertForSequenceClassification
from glassformer.checkpoints.weights import open_weights
from glassformer.errors import GlassformerError

from .case import Case
from .json_mutations import damage, mutate
from .small_models import small_classifier

NAME = "shards and links"
INDEX = "model.safetensors.index.json"
SECRET = "a secret of this machine"
LEFT = ["nowhere", ".", "..", "loop", "/", "/dev/zero", "/dev/null", "/proc/self/mem", "../other", "../secret.txt"]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    for seed, name in enumerate(("model", "other")):
        small_classifier(folder / name, seed)
        model = BertForSequenceClassification.from_pretrained(folder / name)
        model.save_pretrained(folder / name, max_shard_size=800)
    (folder / "secret.txt").write_text("\n".join([SECRET, "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]))
    names = sorted(os.listdir(folder / "model"))
    index = json.loads((folder / "model" / INDEX).read_text())
    while True:
        ways = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            kind = rng.choice(("index", "index", "raw index", "link", "swap", "gone", "tokenizer", "rename"))
            name, other = rng.choice(names), rng.choice(names)
            value: object = rng.choice(LEFT)
            if kind == "index":
                value = mutate(rng, index, ["weight_map", "metadata", *index["weight_map"]])[0]
            elif kind == "raw index":
                value = damage(rng, json.dumps(index).encode())[0]
            elif kind == "tokenizer":
                value = {rng.choice(("vocab_file", "merges_file", "tokenizer_file", "name_or_path")): value}
            ways.append((kind, name, other, value))
        description = "; ".join(f"{kind} {name} {other} {value!r:.80}" for kind, name, other, value in ways)
        description = description.encode("ascii", "backslashreplace").decode()
        run = partial(load, folder, ways)
        yield Case(description, run, (GlassformerError,), forked=True, seconds=30, megabytes=400)


def load(folder: Path, ways: list[tuple]) -> None:
    copy = folder / "changed"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder / "model", copy)
    for way in ways:
        change(folder, copy, *way)
    try:
        words = AutoTokenizer.from_pretrained(copy).get_vocab()
        assert SECRET not in words, "a file outside of the checkpoint was read"
    except GlassformerError as error:
        assert SECRET not in str(error), "an error shows a file outside of the checkpoint"
    weights = open_weights(copy)
    for name in weights:
        weights.read(name).sum()
    BertForSequenceClassification.from_pretrained(copy)(torch.tensor([[2, 5, 3]]))


def change(folder: Path, copy: Path, kind: str, name: str, other: str, value: object) -> None:
    path = copy / name
    if kind == "index":
        (copy / INDEX).unlink(missing_ok=True)
        (copy / INDEX).write_text(json.dumps(value))
    elif kind == "raw index":
        (copy / INDEX).unlink(missing_ok=True)
        (copy / INDEX).write_bytes(value)
    elif kind == "tokenizer":
        (copy / "tokenizer_config.json").unlink(missing_ok=True)
        (copy / "tokenizer_config.json").write_text(json.dumps(value))
    elif kind == "swap":
        path.unlink(missing_ok=True)
        shutil.copyfile(folder / "other" / other, path)
    elif kind == "rename" and os.path.lexists(path):
        os.replace(path, copy / other)
    elif kind in ("gone", "link"):
        path.unlink(missing_ok=True)
        if kind == "link":
            path.symlink_to(name if value == "loop" else f"../other/{other}" if value == "../other" else value)
