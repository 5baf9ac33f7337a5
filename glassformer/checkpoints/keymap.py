"""How the names in a checkpoint file become the names of our modules, and back.

One architecture's table is data: rows of names, read in both directions, that also state where a file transposes a
tensor, keeps several of ours in one, or one of ours in several.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .conversion import AS_IS, Conversion

BODY = ("embeddings", "encoder", "decoder", "pooler")  # parts of our bodies; all else is a head


class Source(NamedTuple):
    """The location of one of our weights in a file: one tensor, a part of one, or several pieces."""

    name: str
    conversion: Conversion = AS_IS
    part: int = 0
    siblings: tuple[str, ...] = ()  # our names of all parts of a fused tensor, in the file's order
    pieces: tuple[str, ...] = ()  # the tensors of the file that continue this one
    is_copy: bool = False  # a declared second name of a tensor
    copies: tuple[str, ...] = ()  # the second names that are written too
    sizes: tuple[int, ...] = ()  # of all parts; equal if not known
    heads: int = 1

    @property
    def parts(self) -> int:
        return max(1, len(self.siblings))

    @property
    def file_names(self) -> tuple[str, ...]:
        return (self.name, *self.pieces)

    def resolve(self, shapes: Mapping[str, Sequence[int]], config: Any) -> Source:
        """The same place with the numbers that only the model knows: the sizes of parts, the count of heads."""
        dim = self.conversion.dim
        known = all(name in shapes and len(shapes[name]) > dim for name in self.siblings)
        sizes = tuple(shapes[name][dim] for name in self.siblings) if known else ()
        return self._replace(sizes=sizes, heads=self.conversion.count_heads(config))

    def shape(self, *shapes: Sequence[int]) -> tuple[int, ...] | None:
        """The shape our weight gets from tensors of the file that have `shapes`; None if they do not fit the row."""
        if self.conversion == AS_IS and not self.siblings and len(shapes) == 1:
            return tuple(shapes[0])
        try:
            return tuple(self.take(*(torch.empty(tuple(shape), device="meta") for shape in shapes)).shape)
        except (RuntimeError, ValueError, IndexError):
            return None

    def take(self, *tensors: Tensor) -> Tensor:
        """Our weight out of the file's tensors."""
        converted = [self.conversion.from_file(tensor) for tensor in tensors]
        tensor = torch.cat(converted, self.conversion.dim) if len(converted) > 1 else converted[0]
        if self.siblings:
            sizes = self.sizes or (tensor.shape[self.conversion.dim] // self.parts,) * self.parts
            tensor = self.conversion.split(tensor, sizes, self.part, self.heads)
        return tensor.contiguous()


def as_names(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


@dataclass(frozen=True)
class Row:
    """One line of a table: a file's name, ours, and what else differs.

    `{i}`, `{j}` and the like are running numbers, `*` is `weight`, `bias` or a scale of quantized weights. Several of
    ours are fused in one tensor of the file, one after the other; several of theirs are pieces of one of ours. The
    sizes of fused parts are those of our weights. `Conversion` explains the fields that it shares with a row.
    """

    theirs: str | tuple[str, ...]
    ours: str | tuple[str, ...]
    transpose: bool | tuple[int, ...] = False
    merge: int | None = None
    interleaved: bool = False
    heads: str = ""
    dim: int = 0
    shares: tuple[int, ...] = ()
    same_in_file: tuple[str, ...] = ()  # further names of the same tensor in files: any may be there, all must agree
    same_in_model: tuple[str, ...] = ()  # further weights of ours that the same tensor serves
    write_copies: bool = False  # whether the further names are written too

    def __post_init__(self) -> None:
        numbers = {frozenset(re.findall(r"\{\w+\}|\*", name)) for name in (*self.file_names, *self.same_in_file)}
        numbers |= {frozenset(re.findall(r"\{\w+\}|\*", name)) for name in (*self.our_names, *self.same_in_model)}
        if len(numbers) > 1:
            raise ValueError(f"{self.theirs} and {self.ours} must have the same running numbers")
        if len(self.file_names) > 1 and len(self.our_names) > 1:
            raise ValueError(f"{self.theirs}: a row fuses or splits, not both")
        if (self.interleaved or self.merge is not None) and not self.heads:
            raise ValueError(f"{self.theirs}: name the config field that counts the heads")
        if self.shares and len(self.shares) != len(self.file_names):
            raise ValueError(f"{self.theirs}: {len(self.shares)} shares for {len(self.file_names)} pieces")

    @property
    def our_names(self) -> tuple[str, ...]:
        return as_names(self.ours)

    @property
    def file_names(self) -> tuple[str, ...]:
        return as_names(self.theirs)

    @cached_property
    def conversion(self) -> Conversion:
        return Conversion(self.transpose, self.merge, self.interleaved, self.heads, self.dim, self.shares)

    def under(self, prefix: str) -> Row:
        """The same row for names that `prefix` precedes on both sides."""

        def longer(names: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(prefix + name for name in names)

        return replace(
            self,
            theirs=longer(self.file_names),
            ours=longer(self.our_names),
            same_in_file=longer(self.same_in_file),
            same_in_model=longer(self.same_in_model),
        )

    def source(self, match: re.Match[str], theirs: str, ours: str, part: int) -> Source:
        """The location of a part; `theirs` and `ours` are the prefixes of the names on both sides."""
        first, *others = (theirs + fill_in(name, match) for name in self.file_names)
        siblings = tuple(ours + fill_in(name, match) for name in self.our_names) if len(self.our_names) > 1 else ()
        copies = tuple(theirs + fill_in(name, match) for name in self.same_in_file) if self.write_copies else ()
        return Source(first, self.conversion, part, siblings, tuple(others), copies=copies)


def pattern_of(name: str) -> re.Pattern[str]:
    """`h.{i}.ln_1.*` as a regular expression with the groups `i` and `leaf`."""
    text = re.escape(name).replace(r"\*", r"(?P<leaf>weight|bias|weight_scale|input_scale)")
    for number in dict.fromkeys(re.findall(r"\{(\w+)\}", name)):
        text = text.replace(rf"\{{{number}\}}", rf"(?P<{number}>\d+)", 1).replace(rf"\{{{number}\}}", f"(?P={number})")
    return re.compile(text)


def fill_in(name: str, match: re.Match[str]) -> str:
    for number, value in match.groupdict().items():
        name = name.replace("*" if number == "leaf" else f"{{{number}}}", value)
    return name


@dataclass(frozen=True)
class KeyMap:
    """One architecture's table of weight names.

    `prefix` precedes the body's names in the file of a model with a head (``bert.``) and is absent in the file
    of the bare body; both load into both. Names without a row are the same on both sides.

    >>> table = KeyMap("gpt.", ("wte", "h"), rows=(Row("h.{i}.fc.*", "layer.{i}.dense.*", transpose=True),))
    >>> {ours: source.name for ours, source in table.to_ours("gpt.h.3.fc.weight", prefixed=False).items()}
    {'layer.3.dense.weight': 'gpt.h.3.fc.weight'}
    >>> table.place("layer.3.dense.weight", prefixed=False).name
    'h.3.fc.weight'
    """

    prefix: str
    body: tuple[str, ...]  # first components of the body's names in files
    rows: tuple[Row, ...] = ()
    optional: tuple[str, ...] = ()  # parts that a checkpoint may lack completely; they are then initialised
    old_names: tuple[tuple[str, str], ...] = ()  # endings of early checkpoints -> today's
    leftovers: tuple[str, ...] = ()  # buffers that old files hold and nobody needs
    overruled: tuple[str, ...] = ()  # second names of weights whose own values in a file nothing computes with
    prefix_in_files: str | None = None  # if it is not that of the body in a model with a head

    @property
    def file_prefix(self) -> str:
        return self.prefix if self.prefix_in_files is None else self.prefix_in_files

    @classmethod
    def of_parts(cls, **parts: tuple[KeyMap, bool]) -> KeyMap:
        """The table of a model made of several: the name of each part -> its table, and whether it has a head."""
        rows: list[Row] = []
        optional: list[str] = []
        leftovers: list[str] = []
        for name, (table, has_head) in parts.items():
            before = [f"{name}.{table.prefix}" if has_head else f"{name}."]
            rows += [row.under(before[0]) for row in table.rows]
            leftovers += [re.escape(before[0]) + pattern for pattern in table.leftovers]
            if has_head:
                before.append(f"{name}.")  # of the head
            optional += [re.escape(prefix) + pattern for prefix in before for pattern in table.optional]
        return cls(
            prefix="",
            body=tuple(parts),
            rows=tuple(rows),
            optional=tuple(optional),
            old_names=tuple(dict.fromkeys(pair for table, _ in parts.values() for pair in table.old_names)),
            leftovers=tuple(leftovers),
            overruled=tuple(f"{name}.{each}" for name, (table, _) in parts.items() for each in table.overruled),
        )

    @cached_property
    def _readers(self) -> list[tuple[re.Pattern[str], bool, Row]]:
        named = [(pattern_of(name), False, row) for row in self.rows for name in row.file_names]
        return named + [(pattern_of(name), True, row) for row in self.rows for name in row.same_in_file]

    @cached_property
    def _writers(self) -> list[tuple[re.Pattern[str], int, Row]]:
        named = [(pattern_of(ours), part, row) for row in self.rows for part, ours in enumerate(row.our_names)]
        return named + [(pattern_of(ours), 0, row) for row in self.rows for ours in row.same_in_model]

    @cached_property
    def _optional_parts(self) -> list[re.Pattern[str]]:
        return [re.compile(pattern + r"(?=\.|$)") for pattern in self.optional]

    def to_ours(self, file_name: str, prefixed: bool) -> dict[str, Source] | None:
        """Which of our weights (the body's under its prefix if `prefixed`) a tensor holds; None for a leftover."""
        name = file_name
        for old, new in self.old_names:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        inner = name.removeprefix(self.file_prefix)
        if any(re.fullmatch(pattern, inner) for pattern in self.leftovers):
            return None
        if inner == name and inner.split(".", 1)[0] not in self.body:
            return {name: Source(file_name)}  # a head's weight
        before = self.prefix if prefixed else ""
        for pattern, is_copy, row in self._readers:
            match = pattern.fullmatch(inner)
            if match:
                sources = [
                    row.source(match, self.file_prefix * (inner != name), before, i) for i in range(len(row.our_names))
                ]
                if len(row.file_names) == 1:
                    sources = [source._replace(name=file_name, is_copy=is_copy) for source in sources]
                ours = {
                    before + fill_in(each, match): source for each, source in zip(row.our_names, sources, strict=True)
                }
                return ours | {before + fill_in(each, match): sources[0] for each in row.same_in_model}
        return {before + inner: Source(file_name)}

    def is_of_body(self, file_name: str) -> bool:
        """Whether a tensor of a file belongs to the body, and to none of its optional parts."""
        inner = file_name.removeprefix(self.file_prefix)
        if inner == file_name and inner.split(".", 1)[0] not in self.body:
            return False
        return all(self.part(name) is None for name in self.to_ours(file_name, prefixed=True) or {})

    def read(self, file_names: Iterable[str], prefixed: bool) -> tuple[dict[str, Source], list[str]]:
        """The location of each of our weights; the second value lists file names that duplicate one of ours."""
        sources: dict[str, Source] = {}
        twice: list[str] = []
        for file_name in file_names:
            for name, source in (self.to_ours(file_name, prefixed) or {}).items():
                first = sources.setdefault(name, source)
                if first.file_names == source.file_names or source.is_copy:
                    continue
                if first.is_copy:
                    sources[name] = source
                elif file_name not in twice:
                    twice.append(file_name)
        return sources, twice

    def copies(self, file_names: Iterable[str], sources: Mapping[str, Source], prefixed: bool) -> dict[str, str]:
        """Tensors that repeat one of ours under a second name that the table declares."""
        if not any(row.same_in_file for row in self.rows):
            return {}
        return {
            file_name: name
            for file_name in file_names
            for name, source in (self.to_ours(file_name, prefixed) or {}).items()
            if source.is_copy and sources[name].name != file_name
        }

    def place(self, name: str, prefixed: bool) -> Source:
        """The location of one of our weights in a file: the inverse of `to_ours`."""
        before = self.prefix if prefixed else ""
        inner = name.removeprefix(before)
        if bool(before) <= (inner != name):
            for pattern, part, row in self._writers:
                match = pattern.fullmatch(inner)
                if match:
                    return row.source(match, self.file_prefix if prefixed else "", before, part)
            if prefixed and self.prefix_in_files is not None:
                return Source(self.file_prefix + inner)
        return Source(name)

    def to_file(self, weights: Mapping[str, Tensor], prefixed: bool, config: Any = None) -> dict[str, Tensor]:
        """Our weights under the file's names and in the file's shapes. `config` counts the heads."""
        joined: dict[str, tuple[Source, dict[int, Tensor]]] = {}
        for name, tensor in weights.items():
            place = self.place(name, prefixed)
            parts = joined.setdefault(place.name, (place, {}))[1]
            if place.part in parts and not torch.equal(parts[place.part], tensor):
                raise ValueError(f"{name} differs from another weight that the file keeps as the same {place.name}")
            parts[place.part] = tensor
        incomplete = [name for name, (place, parts) in joined.items() if len(parts) < place.parts]
        if incomplete:
            raise ValueError(f"only some parts of {', '.join(incomplete)} are there")
        written: dict[str, Tensor] = {}
        for place, parts in joined.values():
            heads = place.conversion.count_heads(config)
            joined_parts = place.conversion.join([parts[i] for i in sorted(parts)], heads)
            pieces = place.conversion.cut(joined_parts, 1 + len(place.pieces)) if place.pieces else [joined_parts]
            for name, piece in zip(place.file_names, pieces, strict=True):
                written[name] = place.conversion.to_file(piece, heads)
            written.update((name, written[place.name].clone()) for name in place.copies)
        return written

    def part(self, name: str) -> str | None:
        """The part, optional in the body or outside of it, that one of our names belongs to: the files may lack it."""
        inner = name.removeprefix(self.prefix)
        for pattern in self._optional_parts:
            match = pattern.match(inner)
            if match:
                return name[: len(name) - len(inner)] + match.group()
        first = name.split(".", 1)[0]
        return None if inner != name or first in BODY else first
