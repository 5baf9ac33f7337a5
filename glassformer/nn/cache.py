"""The KV cache: keys and values of every layer, written into memory that is allocated once.

Passed to a decoder as `past_key_values`, a `Cache` is filled in place: nothing is copied when a token is added. A
column holds one token of every sequence. Several continuations of one prompt can share one sequence, each in columns of
its own; a mask per query (B T S) then says which columns belong to which continuation, so that the prompt is kept once.
"""

from __future__ import annotations

from torch import Tensor

from ..errors import InputError


class AttentionCache:
    """Keys and values of one attention, B H S D, at the front of a larger block."""

    def __init__(self, cache: Cache):
        self.cache = cache
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.position_keys: Tensor | None = None  # R H D: of distances from 0 on, where scores depend on them

    def add(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write B H T D behind the columns that are filled; returns all that is cached now."""
        filled = self.cache.length
        end = filled + keys.shape[2]
        self.cache.check_capacity(end)
        if self.keys is None:
            self.keys, self.values = (
                x.new_empty(*x.shape[:2], self.cache.capacity, x.shape[3]) for x in (keys, values)
            )
        self.keys.narrow(2, filled, end - filled).copy_(keys)
        self.values.narrow(2, filled, end - filled).copy_(values)
        return self.keys.narrow(2, 0, end), self.values.narrow(2, 0, end)

    def select(self, rows: Tensor) -> None:
        if self.keys is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]

    def gather(self, columns: Tensor) -> None:
        """Move the columns (B S') to the front, in the given order."""
        for block in (self.keys, self.values):
            index = columns[:, None, :, None].expand(-1, block.shape[1], -1, block.shape[3])
            block[:, :, : columns.shape[1]] = block.gather(2, index)


class LayerCache:
    """The caches of one layer: for its self-attention, and for the source that its cross-attention reads."""

    def __init__(self, cache: Cache):
        self.self_attention = AttentionCache(cache)
        self.cross_attention = AttentionCache(cache)


class Cache:
    """Keys and values of all layers; the first `length` columns are filled.

    >>> import torch
    >>> cache = Cache(layers=2, capacity=8)
    >>> _ = cache[0].self_attention.add(torch.ones(1, 4, 3, 5), torch.ones(1, 4, 3, 5))
    >>> cache[0].self_attention.keys.shape
    torch.Size([1, 4, 8, 5])
    """

    def __init__(self, layers: int, capacity: int):
        self.capacity = capacity
        self.length = 0
        self.layers = [LayerCache(self) for _ in range(layers)]
        self.positions: Tensor | None = None  # B capacity: the position of each column's token in its text

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, layer: int) -> LayerCache:
        return self.layers[layer]

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        caches = [
            each
            for layer in self.layers
            for each in (layer.self_attention, layer.cross_attention)
            if each.keys is not None
        ]
        return sum(x.numel() * x.element_size() for each in caches for x in (each.keys, each.values))

    def check_capacity(self, columns: int) -> None:
        if columns > self.capacity:
            raise InputError(f"{columns} columns are more than the cache's capacity of {self.capacity}")

    def distances(self, positions: Tensor) -> Tensor | None:
        """Record the positions (B T) of the new tokens; returns their distances to all keys (B T S), given a past."""
        end = self.length + positions.shape[1]
        if self.positions is None or not self.length:
            self.positions = positions.new_zeros(positions.shape[0], self.capacity)
        self.positions[:, self.length : end] = positions
        return positions[:, :, None] - self.positions[:, None, :end] if self.length else None

    def select(self, rows: Tensor) -> None:
        """Keep these sequences, in this order; one may be named more than once."""
        self.positions = self.positions[rows]
        for layer in self.layers:
            layer.self_attention.select(rows)
            layer.cross_attention.select(rows)

    def gather(self, columns: Tensor) -> None:
        """Keep of every sequence only these columns (B S'), in this order."""
        self.positions[:, : columns.shape[1]] = self.positions.gather(1, columns)
        for layer in self.layers:
            layer.self_attention.gather(columns)
        self.length = columns.shape[1]


Past = LayerCache | tuple[Tensor, ...]


def self_and_cross(past: Past | None) -> tuple[AttentionCache | tuple | None, AttentionCache | tuple | None]:
    """The two parts of a layer's cache: of its self-attention and of its cross-attention."""
    if past is None:
        return None, None
    if isinstance(past, LayerCache):
        return past.self_attention, past.cross_attention
    return past[:2], past[2:] or None
