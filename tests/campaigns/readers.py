"""Files of rows in every format, damaged: rows, or an error of ours that names the file; never lost, slow or large."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from glassformer import read_rows
from glassformer.errors import GlassformerError

from .case import Case
from .json_mutations import VALUES, damage, mutate

NAME = "readers"
PIECES = [
    *('"', "'", ",", "\t", "\r", "\n", "\r\n", " ", "\0", "\ufeff", "{", "}", "[", "]", ":", "\\", "\\u", "\\ud800"),
    *("1", "-", "1e999", "NaN", "null", "true", "\u2028", "\x85", "\x0c", "é", "北京", "-DOCSTART-", "B-PER", "O", "#"),
    *("text", "label", "tokens", "data", "paragraphs", "a" * 300, " " * 300, '""', '","', "\n\n", "%", "=1+1"),
]
SQUAD = {
    "version": "1",
    "data": [
        {
            "title": "a",
            "paragraphs": [
                {
                    "context": "the cat sat",
                    "qas": [
                        {"id": "1", "question": "who?", "answers": [{"text": "cat", "answer_start": 4}]},
                        {"id": "2", "question": "why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}
ROWS = [{"text": "so good", "label": 1}, {"text": 'a "quoted", text', "label": 0}]
WHOLE: dict[str, str] = {
    "a.txt": "so good\n\nthe film\n",
    "a.csv": 'text,label\nso good,1\n"a ""quoted"", text\nof two lines",0\n',
    "a.tsv": "text\tlabel\nso good\t1\nthe film\t0\n",
    "a.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "a.json": json.dumps({"data": ROWS}, indent=1),
    "squad.json": json.dumps(SQUAD),
    "a.conll": "John B-PER\nlives O\n\nhere O\n",
}
NAMES = ["data", "text", "label", "context", "qas", "id", "question", "answers", "paragraphs", "answer_start"]
BIG = 50_000


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    hard = list(hard_cases(folder))
    while True:
        if rng.random() < 0.01:
            yield rng.choice(hard)
            continue
        name = rng.choice(sorted(WHOLE))
        raw, done = changed(rng, name)
        if rng.random() < 0.1:
            raw, name = gzip.compress(raw), name + ".gz"
            if rng.random() < 0.5:
                raw, more = damage(rng, raw)
                done += f", packed, {more}"
        options = random_options(rng)
        yield Case(f"{name}: {done}; {options}", partial(read, folder / name, raw, options), (GlassformerError,))


def changed(rng: random.Random, name: str) -> tuple[bytes, str]:
    kind = rng.random()
    if name.endswith(".json") and kind < 0.5:
        value, done = mutate(rng, json.loads(WHOLE[name]), NAMES)
        return json.dumps(value).encode(), done
    if kind < 0.6:
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(60)))
        return text.encode("utf-8", "surrogatepass"), f"{text!r:.200}".encode("ascii", "backslashreplace").decode()
    if kind < 0.7:
        raw = bytes(rng.randrange(256) for _ in range(rng.randrange(60)))
        return raw, repr(raw)
    return damage(rng, WHOLE[name].encode())


def random_options(rng: random.Random) -> dict[str, Any]:
    """Arguments of `read_rows`, of which most fit."""
    known: dict[str, list[Any]] = {
        "on_bad": ["raise", "skip", "skip", "other"],
        "columns": [["text"], {"text": 0}, {"text": -1, "label": "label"}, {"a": 99}, *VALUES],
        "header": [True, False, None, "x"],
        "delimiter": [",", ";", "\t", "ab", '"'],
        "quotes": [True, False],
        "types": [{"label": int}, {"label": float}, {"text": list}, {"label": "int"}],
        "needed": ["text", ("text", "label")],
        "format": [None, "csv", "json", "squad", "conll", "parquet", "x"],
        "encoding": ["utf-8", "utf-16", "gbk", "latin-1", "utf-7", "idna", "punycode", "base64", "x", "utf-32"],
    }
    return {name: rng.choice(known[name]) for name in rng.sample(sorted(known), rng.choice((0, 0, 1, 1, 2, 3)))}


def read(path: Path, raw: bytes, options: dict[str, Any]) -> None:
    path.write_bytes(raw)
    rows = read_rows(path, **options)
    for row in rows:
        assert row.place.startswith(str(path)), row.place
    if options.get("on_bad") != "skip":
        assert not rows.skipped.count


def hard_cases(folder: Path) -> Iterator[Case]:
    """Files on which a reader that is not linear takes minutes, or fills the memory."""
    names = [f"c{i}" for i in range(BIG)]
    object_text = "{" + ", ".join(f'"{name}": 1' for name in names)
    files: dict[str, tuple[str, bytes]] = {
        "a header of many columns": ("a.csv", (",".join(names) + "\n" + "1," * BIG + "1\n").encode()),
        "a header with a name that stands twice": ("a.csv", (",".join([*names, "c9"]) + "\n1\n").encode()),
        "an object of many keys": ("a.jsonl", (object_text + "}\n").encode()),
        "an object of many keys, one of them twice": ("a.json", (object_text + ', "c199999": 2}').encode()),
        "numbers and spaces": ("a.csv", (("1" + " " * BIG + "x,") * 5 + "\n").encode()),
        "digits and commas": ("a.csv", ("1,1" * BIG + "x\n").encode()),
        "an open quote": ("a.csv", b'text,label\n"' + b"\n" * 20 * BIG),
        "brackets": ("a.json", b"[" * BIG),
        "brackets in lines": ("a.jsonl", (b"[" * BIG + b"\n") * 3),
        "a long string": ("a.json", b'[{"text": "' + b"\\" * 20 * BIG),
        "many digits": ("a.json", b'[{"label": ' + b"9" * BIG + b"}]"),
        "zeros": ("a.json.gz", gzip.compress(bytes(80 * 2**20), 1)),
        "spaces": ("a.json.gz", gzip.compress(b" " * 80 * 2**20)),
        "carriage returns": ("a.txt", b"a\r" * BIG),
    }
    for description, (name, raw) in files.items():
        run = partial(read, folder / name, raw, {"on_bad": "raise"})
        yield Case(description, run, (GlassformerError,), forked=True, seconds=60, megabytes=2000)
