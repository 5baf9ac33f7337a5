"""Patterns of attention: which keys a query sees, where it does not see all of them.

A pattern divides a sequence into tiles (`sparse_attention.py`). Its cost grows with the length of a text, not with its
square.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from .layout import Layout, Run
from .sparse_attention import Tile, TileKeys, hidden_score

TILE = 64  # queries of a tile


class Pattern(Protocol):
    """Who sees whom."""

    def sees_all(self, length: int) -> bool:
        """Whether every query of a sequence of this length sees every key (or every one before it)."""

    def drops_weights(self, length: int) -> bool:
        """Whether dropout applies to the weights of a sequence of this length."""

    def of_heads(self, heads: Sequence[int]) -> Pattern:
        """The pattern of some of the heads."""

    def plan(self, layout: Layout, like: Tensor) -> Iterator[tuple[Run, tuple[Tile, ...]]]:
        """The tiles of the sequences of a batch, for rows of the type of `like`."""


@dataclass(frozen=True)
class Window:
    """A query sees the `size` keys before it and the `size` keys behind it, or every `dilation`-th of so many more.

    Global tokens see all, and all see them.
    """

    size: int
    dilation: int = 1
    global_tokens: Tensor | None = None  # N, boolean
    global_queries: bool = True  # whether global tokens see all; False where another attention computes their outputs

    def sees_all(self, length: int) -> bool:
        return length == 1 or (self.dilation == 1 and length - 1 <= self.size)

    def drops_weights(self, length: int) -> bool:
        return True

    def of_heads(self, heads: Sequence[int]) -> Window:
        return self

    def plan(self, layout: Layout, like: Tensor) -> Iterator[tuple[Run, tuple[Tile, ...]]]:
        settings = self.size, self.dilation, self.global_queries, layout.causal, like.dtype, like.device
        for run in layout.runs:
            places = [()] * run.count
            if self.global_tokens is not None:
                tokens = self.global_tokens[run.start : run.start + run.count * run.length]
                places = [tuple(row.nonzero()[:, 0].tolist()) for row in tokens.view(run.count, run.length)]
            if len(set(places)) == 1:
                yield run, window_tiles(run.length, places[0], *settings)
                continue
            for number, (member, where) in enumerate(zip(run.members, places, strict=True)):
                start = run.start + number * run.length
                yield Run(start, 1, run.length, run.column, (member,)), window_tiles(run.length, where, *settings)


@dataclass(frozen=True)
class Blocks:
    """Texts in blocks: a query sees its own block and its neighbours, the first block and the last, and random blocks.

    The first block and the last see all. `random` returns the blocks that every head draws for every block of a
    sequence of so many tokens (heads blocks r), or None if there are none; a block that is seen anyway counts twice.
    """

    size: int
    heads: tuple[int, ...] | None = None  # those that are left; None: all
    random: Callable[[int], Tensor | None] = lambda length: None
    dense_up_to: int = 0  # tokens of a sequence that is read without blocks
    weight_dropout: bool = True  # whether weights are dropped in sequences that are read in blocks

    def sees_all(self, length: int) -> bool:
        return length <= self.dense_up_to

    def drops_weights(self, length: int) -> bool:
        return self.weight_dropout or self.sees_all(length)

    def of_heads(self, heads: Sequence[int]) -> Blocks:
        return replace(self, heads=tuple(heads if self.heads is None else [self.heads[head] for head in heads]))

    def plan(self, layout: Layout, like: Tensor) -> Iterator[tuple[Run, tuple[Tile, ...]]]:
        for run in layout.runs:
            yield run, block_tiles(self, run.length, layout.causal, like.dtype, like.device)


@dataclass(frozen=True)
class NeighbourBlocks:
    """Texts in blocks of `size` tokens: a query sees its own block and the one on each side."""

    size: int

    def sees_all(self, length: int) -> bool:
        return length <= 2 * self.size

    def drops_weights(self, length: int) -> bool:
        return True

    def of_heads(self, heads: Sequence[int]) -> NeighbourBlocks:
        return self

    def plan(self, layout: Layout, like: Tensor) -> Iterator[tuple[Run, tuple[Tile, ...]]]:
        for run in layout.runs:
            yield run, neighbour_tiles(self.size, run.length, layout.causal, like.dtype, like.device)


def is_sparse(pattern: Pattern | None, layout: Layout) -> bool:
    """Whether there are queries of a batch that do not see all keys."""
    return pattern is not None and not all(pattern.sees_all(run.length) for run in layout.runs)


def as_mask(seen: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor | None:
    """What is added to scores; None if all is seen."""
    if bool(seen.all()):
        return None
    return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, hidden_score(dtype)).to(device)


@lru_cache(1024)
def band_mask(
    queries: int, keys: int, offset: int, size: int, causal: bool, dtype: torch.dtype, device: torch.device
) -> Tensor | None:
    """The mask of queries that stand at `offset` among the keys, and see `size` of them on each side: T S."""
    distance = torch.arange(queries)[:, None] + offset - torch.arange(keys)
    return as_mask((distance <= size) & (distance >= (0 if causal else -size)), dtype, device)


@lru_cache(256)
def window_tiles(
    length: int,
    global_places: tuple[int, ...],
    size: int,
    dilation: int,
    global_queries: bool,
    causal: bool,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[Tile, ...]:
    """The tiles of a window; with a dilation, tokens that are so far apart make a sequence of their own."""
    tiles = []
    everywhere = torch.tensor(global_places, device=device, dtype=torch.long)
    for first in range(min(dilation, length)):
        count = len(range(first, length, dilation))
        own = [place // dilation for place in global_places if place % dilation == first]
        for begin in range(0, count, TILE):
            end = min(begin + TILE, count)
            low, high = max(0, begin - size), min(count, end + (0 if causal else size))
            mask = band_mask(end - begin, high - low, begin - low, size, causal, dtype, device)
            inside = [place - low for place in own if low <= place < high]
            if inside:  # they are seen as global tokens
                mask = (
                    torch.zeros(end - begin, high - low, dtype=dtype, device=device) if mask is None else mask.clone()
                )
                mask[:, inside] = hidden_score(dtype)
            keys = [TileKeys(slice(first + low * dilation, first + (high - 1) * dilation + 1, dilation), mask)]
            queries = slice(first + begin * dilation, first + (end - 1) * dilation + 1, dilation)
            if global_places:
                seen = None
                if causal:
                    rows = torch.arange(queries.start, queries.stop, dilation)[:, None]
                    seen = as_mask(rows >= everywhere.cpu(), dtype, device)
                keys.append(TileKeys(everywhere, seen))
            tiles.append(Tile(queries, tuple(keys)))
    if global_queries:
        for begin in range(0, len(global_places), TILE):
            rows = everywhere[begin : begin + TILE]
            mask = as_mask(rows.cpu()[:, None] >= torch.arange(length), dtype, device) if causal else None
            tiles.append(Tile(rows, (TileKeys(slice(0, length), mask),)))
    return tuple(tiles)


@lru_cache(256)
def block_tiles(
    pattern: Blocks, length: int, causal: bool, dtype: torch.dtype, device: torch.device
) -> tuple[Tile, ...]:
    """The tiles of a text in blocks, the last of which may be shorter."""
    if pattern.sees_all(length):
        return dense_tiles(range(length), length, causal, dtype, device)
    size, count = pattern.size, math.ceil(length / pattern.size)
    drawn = pattern.random(length)
    if drawn is not None and pattern.heads is not None:
        drawn = drawn[list(pattern.heads)]
    tiles: list[Tile] = []
    for block in range(count):
        rows = range(block * size, min((block + 1) * size, length))
        if block in (0, count - 1):
            tiles += dense_tiles(rows, length, causal, dtype, device)
            continue
        copies = torch.zeros(count, dtype=torch.long)  # how often a block is seen
        copies[[0, block - 1, block, block + 1, count - 1]] = 1
        others = None if drawn is None else drawn[:, block]  # H r
        if others is not None and bool((others == others[:1]).all()):  # all heads have drawn the same ones
            copies += torch.bincount(others[0], minlength=count)
            others = None
        if causal:
            copies[block + 1 :] = 0
        keys = [
            TileKeys(slice(low, high), mask_of_keys(rows, torch.arange(low, high), number, causal, dtype, device))
            for low, high, number in ranges_of_blocks(copies.tolist(), size, length)
        ]
        if others is not None:
            columns = (others[..., None] * size + torch.arange(size)).flatten(1)  # H m
            mask = mask_of_keys(rows, columns, 1, causal, dtype, device, length)
            keys.append(TileKeys(columns.clamp(max=length - 1).to(device), mask))
        tiles.append(Tile(slice(rows.start, rows.stop), tuple(keys)))
    return tuple(tiles)


@lru_cache(256)
def neighbour_tiles(size: int, length: int, causal: bool, dtype: torch.dtype, device: torch.device) -> tuple[Tile, ...]:
    """The tiles of blocks and their neighbours; a causal text has none behind it."""
    tiles = []
    for begin in range(0, length, size):
        end, low = min(begin + size, length), max(0, begin - size)
        high = end if causal else min(end + size, length)
        mask = band_mask(end - begin, high - low, begin - low, length, True, dtype, device) if causal else None
        tiles.append(Tile(slice(begin, end), (TileKeys(slice(low, high), mask),)))
    return tuple(tiles)


def ranges_of_blocks(copies: list[int], size: int, length: int) -> Iterator[tuple[int, int, int]]:
    """Neighbouring blocks that are seen equally often: the first and last column, and how often."""
    first = 0
    for block in range(1, len(copies) + 1):
        if block == len(copies) or copies[block] != copies[first]:
            if copies[first]:
                yield first * size, min(block * size, length), copies[first]
            first = block


def mask_of_keys(
    rows: range,
    columns: Tensor,
    copies: int,
    causal: bool,
    dtype: torch.dtype,
    device: torch.device,
    length: int | None = None,
) -> Tensor | None:
    """The mask of some queries (T) and keys (S, or H S) that each count as several; None if all are seen once."""
    seen = torch.ones(*columns.shape[:-1], len(rows), columns.shape[-1], dtype=torch.bool)
    if length is not None:
        seen &= columns[..., None, :] < length
    if causal:
        seen &= columns[..., None, :] <= torch.arange(rows.start, rows.stop)[:, None]
    if copies == 1:
        return as_mask(seen, dtype, device)
    return torch.full(seen.shape, math.log(copies), dtype=dtype).masked_fill_(~seen, hidden_score(dtype)).to(device)


def dense_tiles(rows: range, length: int, causal: bool, dtype: torch.dtype, device: torch.device) -> tuple[Tile, ...]:
    """Tiles in which these queries see all keys, or all before them."""
    tiles = []
    for first in range(rows.start, rows.stop, TILE):
        last = min(first + TILE, rows.stop)
        keys = last if causal else length
        mask = band_mask(last - first, keys, first, length, True, dtype, device) if causal else None
        tiles.append(Tile(slice(first, last), (TileKeys(slice(0, keys), mask),)))
    return tuple(tiles)
