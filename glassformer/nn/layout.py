"""Padding is a file format, not a computation.

At the door a padded batch ``B T`` becomes a stream of its N real tokens; everything position-wise runs on ``N C``.
Sequences of one length stand side by side in the stream, so that attention can look at each such run as a dense
``count, length`` block without copying, padding or masking anything. At the exit the rows return to ``B T C``.

>>> import torch
>>> layout = Layout.of(torch.tensor([[1, 1, 1], [1, 0, 0]]))
>>> layout.pack(torch.tensor([[11, 12, 13], [21, 0, 0]])).tolist()
[21, 11, 12, 13]
>>> layout.unpack(torch.tensor([21, 11, 12, 13])).tolist()
[[11, 12, 13], [21, 0, 0]]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError


class Run(NamedTuple):
    """Sequences of equal length that stand one after the other in the stream."""

    start: int  # row of the stream where the first of them begins
    count: int
    length: int
    column: int  # column of the batch where each of them begins
    members: tuple[int, ...]  # which sequences of the batch they are


@dataclass(frozen=True)
class Layout:
    """Where every row of the stream stands in the caller's batch."""

    batch: int
    length: int
    runs: tuple[Run, ...]
    index: Tensor | None = None  # N: place of each row in the flattened batch; None when every place is taken in order
    mask: Tensor | None = None  # added to the scores, broadcast to B H T S; only where runs cannot say who sees whom
    causal: bool = False
    distance: Tensor | None = None  # B T S: from key to query, where columns do not tell it

    @classmethod
    def full(
        cls,
        batch: int,
        length: int,
        mask: Tensor | None = None,
        causal: bool = False,
        distance: Tensor | None = None,
    ) -> Layout:
        """Every position is a real token; an additive `mask`, if any, says which keys are seen."""
        run = Run(0, batch, length, 0, tuple(range(batch)))
        return cls(batch, length, (run,), mask=mask, causal=causal and mask is None, distance=distance)

    @classmethod
    def of(cls, attention_mask: Tensor, causal: bool = False) -> Layout | None:
        """The layout that leaves out what `attention_mask` (B T) hides, or None if a sequence has holes in it."""
        batch, length = attention_mask.shape
        seen = attention_mask.bool()
        lengths = seen.sum(1)
        starts = seen.int().argmax(1)
        ends = length - seen.flip(1).int().argmax(1)
        table = torch.stack((lengths, starts, ends)).tolist()  # the one moment a device has to wait for the host
        for row, (size, start, end) in enumerate(zip(*table, strict=True)):
            if size == 0:
                raise InputError(f"attention_mask hides every position of sequence {row}: it has no token to read")
            if size != end - start:
                return None
        if min(table[0]) == length:
            return cls.full(batch, length, causal=causal)

        order = sorted(range(batch), key=lambda row: (table[0][row], table[1][row]))
        runs: list[Run] = []
        row = 0
        for member in order:
            size, start = table[0][member], table[1][member]
            last = runs[-1] if runs else None
            if last and (last.length, last.column) == (size, start):
                runs[-1] = last._replace(count=last.count + 1, members=(*last.members, member))
            else:
                runs.append(Run(row, 1, size, start, (member,)))
            row += size
        chosen = torch.tensor(order, device=seen.device)
        sequence, column = seen[chosen].nonzero(as_tuple=True)
        return cls(batch, length, tuple(runs), index=chosen[sequence] * length + column, causal=causal)

    @property
    def rows(self) -> int:
        """How many real tokens there are."""
        return sum(run.count * run.length for run in self.runs)

    def columns(self, device: torch.device) -> Tensor:
        """The column of the batch that every row stands in."""
        if self.index is None:
            return torch.arange(self.length, device=device).repeat(self.batch)  # N
        return self.index % self.length  # N

    def pack(self, x: Tensor) -> Tensor:
        """B T ... -> N ..."""
        flat = x.reshape(self.batch * self.length, *x.shape[2:])
        return flat if self.index is None else flat[self.index]

    def unpack(self, rows: Tensor, fill: float | Tensor = 0.0) -> Tensor:
        """N ... -> B T ..., with `fill` (a number, or one row) at the padded positions."""
        shape = (self.batch, self.length, *rows.shape[1:])
        if self.index is None:
            return rows.reshape(shape)
        fill = torch.as_tensor(fill, dtype=rows.dtype, device=rows.device)
        flat = fill.expand(self.batch * self.length, *rows.shape[1:]).contiguous()  # a compiler may write into it
        return flat.index_copy(0, self.index, rows).reshape(shape)

    def distances(self, queries: int, keys: int, device: torch.device) -> Tensor:
        """How far each query stands behind each key: B T S, or 1 T S where all sequences are alike.

        Without a `distance` of its own, the queries are the last of the columns that hold the keys.
        """
        if self.distance is not None:
            return self.distance
        columns = torch.arange(keys, device=device)
        return (columns[keys - queries :, None] - columns)[None]

    def heads(self, rows: Tensor) -> Tensor:
        """N H D -> B H T D, the form in which keys and values are kept between calls."""
        return self.unpack(rows).transpose(1, 2)

    def first(self, rows: Tensor) -> Tensor:
        """The first real token of every sequence, in the batch's order: N C -> B C."""
        return self.pick(rows, 0)

    def last(self, rows: Tensor) -> Tensor:
        """The last real token of every sequence, in the batch's order: N C -> B C."""
        return self.pick(rows, -1)

    def pick(self, rows: Tensor, which: int) -> Tensor:
        if self.index is None:
            return rows.reshape(self.batch, self.length, -1)[:, which]
        place = {
            member: run.start + i * run.length + which % run.length
            for run in self.runs
            for i, member in enumerate(run.members)
        }
        return rows[[place[member] for member in range(self.batch)]]

    def padding_mask(self, like: Tensor) -> Tensor | None:
        """What hides the padding from queries that look at all positions: B 1 1 T, added to scores."""
        if self.index is None:
            return None
        mask = torch.full(
            (self.batch * self.length,), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device
        )
        return mask.index_fill(0, self.index, 0.0).view(self.batch, 1, 1, self.length)

    def with_mask(self, mask: Tensor | None) -> Layout:
        return replace(self, mask=mask, causal=self.causal and mask is None)


CALL = 4096  # pairs of positions that take as long as one more call of a kernel


def pays_to_pad(queries: Layout, keys: Layout) -> bool:
    """Whether two layouts whose runs do not meet are quicker read as padded blocks than sequence by sequence."""
    if queries is keys or meet(queries, keys):
        return False
    lengths = zip(lengths_of(queries), lengths_of(keys), strict=True)
    exact = sum(mine * theirs for mine, theirs in lengths)
    return queries.batch * queries.length * keys.length < exact + queries.batch * CALL


def lengths_of(layout: Layout) -> list[int]:
    """How long each sequence of the batch is."""
    lengths = {member: run.length for run in layout.runs for member in run.members}
    return [lengths[member] for member in range(layout.batch)]


def meet(queries: Layout, keys: Layout) -> bool:
    """Whether every run of one layout holds the sequences of a run of the other, in the same order."""
    return queries.runs is keys.runs or [r.members for r in queries.runs] == [r.members for r in keys.runs]


def paired_runs(queries: Layout, keys: Layout) -> Iterator[tuple[Run, Run]]:
    """Runs in which each sequence of `queries` meets the same sequence of `keys`."""
    if meet(queries, keys):
        yield from zip(queries.runs, keys.runs, strict=True)
        return
    place = {
        member: Run(run.start + i * run.length, 1, run.length, run.column, (member,))
        for run in keys.runs
        for i, member in enumerate(run.members)
    }
    for run in queries.runs:
        for i, member in enumerate(run.members):
            yield Run(run.start + i * run.length, 1, run.length, run.column, (member,)), place[member]
