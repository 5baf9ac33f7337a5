"""Padding is a file format, not a computation.

On entry a padded batch ``B T`` is packed into a stream of its N real tokens; everything position-wise runs on ``N C``.
Sequences of one length are adjacent in the stream, so that attention can view each such run as a dense
``count, length`` block without copying, padding or masking anything. On exit the rows are unpacked to ``B T C``.

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
    """Sequences of equal length that are adjacent in the stream."""

    start: int  # row of the stream where the first of them begins
    count: int
    length: int
    column: int  # column of the batch where each of them begins
    members: tuple[int, ...]  # which sequences of the batch they are


@dataclass(frozen=True)
class Layout:
    """The position of every row of the stream in the caller's batch."""

    batch: int
    length: int
    runs: tuple[Run, ...]
    index: Tensor | None = None  # N: index of each row in the flattened batch; None without padding
    mask: Tensor | None = None  # added to the scores, broadcast to B H T S; only where runs cannot express it
    causal: bool = False
    distance: Tensor | None = None  # B T S: from key to query, where it does not follow from the columns

    @classmethod
    def full(
        cls,
        batch: int,
        length: int,
        mask: Tensor | None = None,
        causal: bool = False,
        distance: Tensor | None = None,
    ) -> Layout:
        """Every position is a real token; an additive `mask`, if any, masks keys."""
        run = Run(0, batch, length, 0, tuple(range(batch)))
        return cls(batch, length, (run,), mask=mask, causal=causal and mask is None, distance=distance)

    @classmethod
    def of(cls, attention_mask: Tensor, causal: bool = False) -> Layout | None:
        """The layout without the positions that `attention_mask` (B T) masks; None if a sequence has holes in it."""
        batch, length = attention_mask.shape
        seen = attention_mask.bool()
        lengths = seen.sum(1)
        starts = seen.int().argmax(1)
        ends = length - seen.flip(1).int().argmax(1)
        table = torch.stack((lengths, starts, ends)).tolist()  # the only synchronisation of device and host
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
        """The additive mask of the padding: B 1 1 T."""
        if self.index is None:
            return None
        mask = torch.full(
            (self.batch * self.length,), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device
        )
        return mask.index_fill(0, self.index, 0.0).view(self.batch, 1, 1, self.length)

    def with_mask(self, mask: Tensor | None) -> Layout:
        return replace(self, mask=mask, causal=self.causal and mask is None)


KERNEL_CALL = 4096  # pairs of positions that take as long as one more call of a kernel


def is_faster_padded(queries: Layout, keys: Layout) -> bool:
    """Whether layouts with different runs are computed faster as padded blocks than sequence by sequence."""
    if queries is keys or have_same_runs(queries, keys):
        return False
    exact = sum(t * s for t, s in zip(sequence_lengths(queries), sequence_lengths(keys), strict=True))
    return queries.batch * queries.length * keys.length < exact + queries.batch * KERNEL_CALL


def sequence_lengths(layout: Layout) -> list[int]:
    """How long each sequence of the batch is."""
    lengths = {member: run.length for run in layout.runs for member in run.members}
    return [lengths[member] for member in range(layout.batch)]


def have_same_runs(queries: Layout, keys: Layout) -> bool:
    """Whether the runs of both layouts hold the same sequences in the same order."""
    return queries.runs is keys.runs or [r.members for r in queries.runs] == [r.members for r in keys.runs]


def paired_runs(queries: Layout, keys: Layout) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs that hold the same sequences of `queries` and `keys`."""
    if have_same_runs(queries, keys):
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
