"""How the names in a checkpoint file become the names of our modules, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class KeyMap:
    """One architecture's table of weight names, read in both directions.

    `prefix` stands before the body's names in the file of a model with a head (``bert.``) and is absent in the file
    of the bare body; both load into both.
    """

    prefix: str
    body: tuple[str, ...]  # first components of the body's names
    optional: tuple[str, ...] = ()  # parts that a checkpoint may lack as a whole; they are then initialised
    old_names: tuple[tuple[str, str], ...] = ()  # endings of early checkpoints -> today's
    leftovers: tuple[str, ...] = ()  # buffers that old files hold and nobody needs

    def to_ours(self, file_name: str, prefixed: bool) -> str | None:
        """The name in our module tree (with the body under its prefix if `prefixed`), or None for a leftover."""
        name = file_name
        for old, new in self.old_names:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        inner = name.removeprefix(self.prefix)
        if any(re.fullmatch(pattern, inner) for pattern in self.leftovers):
            return None
        if inner == name and inner.split(".", 1)[0] not in self.body:
            return name  # a head's weight
        return self.prefix + inner if prefixed else inner

    def part(self, name: str) -> str | None:
        """The optional part that one of our names belongs to."""
        inner = name.removeprefix(self.prefix)
        for pattern in self.optional:
            found = re.match(pattern + r"(?=\.|$)", inner)
            if found:
                return name[: len(name) - len(inner)] + found.group()
        return None

    def read(self, file_names: Iterable[str], prefixed: bool) -> tuple[dict[str, str], list[str]]:
        """Map our names to the file's names; the second value lists file names that stand for one of ours twice."""
        found: dict[str, str] = {}
        twice: list[str] = []
        for file_name in file_names:
            name = self.to_ours(file_name, prefixed)
            if name is None:
                continue
            if name in found:
                twice.append(file_name)
            else:
                found[name] = file_name
        return found, twice
