"""Hostile values for the fields of JSON files, and ways to damage such a file."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    10_000,
    2**31 - 1,
    2**31,
    2**63,
    10**400,
    -(10**30),
    0.5,
    -0.0,
    1e30,
    1e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    "",
    "x",
    "7",
    "-1",
    "²",
    "٣",
    "9" * 5000,
    "true",
    "\0",
    "\ud800",
    "../../etc/passwd",
    "[MASK]",
    "a b",
    "Ġ",
    "x" * 3000,
    [],
    [[]],
    [1],
    [1, 2],
    ["a"],
    ["a", "b"],
    [None],
    [{}],
    ["a", 1, None],
    {},
    {"a": 1},
    {"a": {}},
    {"content": 1},
    {"content": "a"},
    {"content": ["a"]},
    {"type": []},
    {"type": {}},
    {"type": "x"},
    {"1": "a"},
    {"-1": "a"},
    {"": ""},
]


def hostile(rng: random.Random) -> Any:
    """One of the values above, or one that holds others."""
    kind = rng.random()
    if kind < 0.85:
        return copy.deepcopy(rng.choice(VALUES))
    if kind < 0.9:
        return {str(rng.choice(VALUES)): hostile(rng) for _ in range(3)}
    if kind < 0.95:
        return [hostile(rng) for _ in range(3)]
    value: Any = rng.choice(VALUES)
    for _ in range(rng.choice((5, 200))):
        value = [value] if rng.random() < 0.5 else {"a": value}
    return value


def places(value: Any, limit: int = 300) -> list[tuple[Any, ...]]:
    """The paths of the fields of a JSON value, those near the root first; of long tables only the first fields."""
    found: list[tuple[Any, ...]] = [()]
    for path in found:
        inner = at(value, path)
        keys = list(inner) if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        found += [(*path, key) for key in list(keys)[:40]]
        if len(found) > limit:
            break
    return found


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutate(rng: random.Random, value: Any, names: list[str]) -> tuple[Any, str]:
    """A JSON value with one to three fields replaced, removed or added; and what was done."""
    value = copy.deepcopy(value)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        path = rng.choice(places(value))
        new = hostile(rng)
        if not path:
            if isinstance(value, dict) and rng.random() < 0.9:
                name = rng.choice(names)
                value[name] = new
                done.append(f"{name} = {new!r:.60}")
            else:
                value = new
                done.append(f"all = {new!r:.60}")
            continue
        owner = at(value, path[:-1])
        if rng.random() < 0.2:
            del owner[path[-1]]
            done.append(f"without {path}")
        else:
            owner[path[-1]] = new
            done.append(f"{path} = {new!r:.60}")
    return value, "; ".join(done).encode("ascii", "backslashreplace").decode()


def damage(rng: random.Random, raw: bytes) -> tuple[bytes, str]:
    """A file that is cut, changed or filled up with other bytes; and what was done."""
    place = rng.randrange(len(raw) + 1)
    ways: dict[str, Callable[[], bytes]] = {
        "cut": lambda: raw[:place],
        "empty": lambda: b"",
        "NUL bytes": lambda: raw[:place] + b"\0\0" + raw[place:],
        "no UTF-8": lambda: raw[:place] + b"\xff\xc3" + raw[place:],
        "UTF-16": lambda: raw.decode("utf-8", "replace").encode("utf-16"),
        "a changed byte": lambda: raw[:place] + bytes([rng.randrange(256)]) + raw[place + 1 :],
        "written twice": lambda: raw + raw,
        "brackets": lambda: b"[" * 20_000,
        "a carriage return": lambda: raw[:place] + b"\r" + raw[place:],
        "a line separator": lambda: raw[:place] + "\u2028".encode() + raw[place:],
        "a lost line": lambda: b"\n".join(raw.split(b"\n")[1:]),
    }
    name = rng.choice(sorted(ways))
    return ways[name](), f"{name} at {place}"


def write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
