"""How the names in a checkpoint file become the names of our modules, and back.

One architecture's table is data: rows of names, read in both directions, that also say where a file transposes a
matrix or keeps several of ours in one tensor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

BODY = ("embeddings", "encoder", "decoder", "pooler")  # what our bodies are made of; all else is a head


class Source(NamedTuple):
    """Where one of our weights stands in a file: a tensor, or one of several equal parts of it."""

    name: str
    transpose: bool = False
    part: int = 0
    parts: int = 1

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape our weight gets from a tensor of the file that has `shape`."""
        shape = tuple(reversed(shape)) if self.transpose else tuple(shape)
        return (shape[0] // self.parts, *shape[1:]) if self.parts > 1 and shape and not shape[0] % self.parts else shape

    def take(self, tensor: Tensor) -> Tensor:
        """Our weight out of the file's tensor."""
        if self.transpose and tensor.dim() == 2:
            tensor = tensor.T
        return tensor.chunk(self.parts)[self.part].contiguous() if self.parts > 1 else tensor.contiguous()


@dataclass(frozen=True)
class Row:
    """One line of a table: a file's name, ours, and what else differs. `{i}` is a layer, `*` is `weight` or `bias`."""

    theirs: str
    ours: str | tuple[str, ...]  # several of ours stand in one tensor of the file, one after the other
    transpose: bool = False

    @property
    def our_names(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours


def pattern_of(name: str) -> re.Pattern[str]:
    """`h.{i}.ln_1.*` as a regular expression with the groups `i` and `leaf`."""
    text = re.escape(name).replace(r"\{i\}", r"(?P<i>\d+)").replace(r"\*", r"(?P<leaf>weight|bias)")
    return re.compile(text)


def fill_in(name: str, found: re.Match[str]) -> str:
    groups = found.groupdict()
    return name.replace("{i}", groups.get("i") or "").replace("*", groups.get("leaf") or "")


@dataclass(frozen=True)
class KeyMap:
    """One architecture's table of weight names.

    `prefix` stands before the body's names in the file of a model with a head (``bert.``) and is absent in the file
    of the bare body; both load into both. Names without a row are the same on both sides.

    >>> table = KeyMap("gpt.", ("wte", "h"), rows=(Row("h.{i}.fc.*", "layer.{i}.dense.*", transpose=True),))
    >>> table.to_ours("gpt.h.3.fc.weight", prefixed=False)
    {'layer.3.dense.weight': Source(name='gpt.h.3.fc.weight', transpose=True, part=0, parts=1)}
    """

    prefix: str
    body: tuple[str, ...]  # first components of the body's names in files
    rows: tuple[Row, ...] = ()
    optional: tuple[str, ...] = ()  # parts that a checkpoint may lack as a whole; they are then initialised
    old_names: tuple[tuple[str, str], ...] = ()  # endings of early checkpoints -> today's
    leftovers: tuple[str, ...] = ()  # buffers that old files hold and nobody needs

    @cached_property
    def _readers(self) -> list[tuple[re.Pattern[str], Row]]:
        return [(pattern_of(row.theirs), row) for row in self.rows]

    @cached_property
    def _writers(self) -> list[tuple[re.Pattern[str], int, Row]]:
        return [(pattern_of(ours), part, row) for row in self.rows for part, ours in enumerate(row.our_names)]

    def to_ours(self, file_name: str, prefixed: bool) -> dict[str, Source] | None:
        """Which of our weights (the body's under its prefix if `prefixed`) a tensor holds; None for a leftover."""
        name = file_name
        for old, new in self.old_names:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        inner = name.removeprefix(self.prefix)
        if any(re.fullmatch(pattern, inner) for pattern in self.leftovers):
            return None
        if inner == name and inner.split(".", 1)[0] not in self.body:
            return {name: Source(file_name)}  # a head's weight
        before = self.prefix if prefixed else ""
        for pattern, row in self._readers:
            found = pattern.fullmatch(inner)
            if found:
                names = [before + fill_in(ours, found) for ours in row.our_names]
                return {each: Source(file_name, row.transpose, i, len(names)) for i, each in enumerate(names)}
        return {before + inner: Source(file_name)}

    def is_of_body(self, file_name: str) -> bool:
        """Whether a tensor of a file belongs to the body, and to none of its optional parts."""
        inner = file_name.removeprefix(self.prefix)
        if inner == file_name and inner.split(".", 1)[0] not in self.body:
            return False
        return all(self.part(name) is None for name in self.to_ours(file_name, prefixed=True) or {})

    def read(self, file_names: Iterable[str], prefixed: bool) -> tuple[dict[str, Source], list[str]]:
        """Where each of our weights stands; the second value lists file names that bring one of ours again."""
        found: dict[str, Source] = {}
        twice: list[str] = []
        for file_name in file_names:
            ours = self.to_ours(file_name, prefixed) or {}
            if ours.keys() & found.keys():
                twice.append(file_name)
            found = {**ours, **found}
        return found, twice

    def place(self, name: str, prefixed: bool) -> Source:
        """Where one of our weights stands in a file: the way back of `to_ours`."""
        before = self.prefix if prefixed else ""
        inner = name.removeprefix(before)
        if bool(before) <= (inner != name):
            for pattern, part, row in self._writers:
                found = pattern.fullmatch(inner)
                if found:
                    return Source(before + fill_in(row.theirs, found), row.transpose, part, len(row.our_names))
        return Source(name)

    def to_file(self, weights: Mapping[str, Tensor], prefixed: bool) -> dict[str, Tensor]:
        """Our weights under the file's names and in the file's shapes."""
        written: dict[str, Tensor] = {}
        joined: dict[str, dict[int, Tensor]] = {}
        for name, tensor in weights.items():
            place = self.place(name, prefixed)
            parts = joined.setdefault(place.name, {})
            parts[place.part] = tensor
            if len(parts) == place.parts:
                del joined[place.name]
                whole = torch.cat([parts[i] for i in sorted(parts)]) if place.parts > 1 else tensor
                written[place.name] = whole.T.contiguous() if place.transpose and whole.dim() == 2 else whole
        if joined:
            raise ValueError(f"only some parts of {', '.join(joined)} are there")
        return written

    def part(self, name: str) -> str | None:
        """The part, optional in the body or outside of it, that one of our names belongs to: the files may lack it."""
        inner = name.removeprefix(self.prefix)
        for pattern in self.optional:
            found = re.match(pattern + r"(?=\.|$)", inner)
            if found:
                return name[: len(name) - len(inner)] + found.group()
        first = name.split(".", 1)[0]
        return None if inner != name or first in BODY else first
