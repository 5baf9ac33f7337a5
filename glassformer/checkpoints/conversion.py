"""How a tensor of a file becomes one of ours, and back: permuted, with heads merged, split and joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Conversion:
    """What differs between a tensor in a file and ours, beside its name."""

    transpose: bool | tuple[int, ...] = False  # all dimensions reversed, or a permutation for tensors of its rank
    merge: int | None = None  # once permuted, this dimension (heads) and the next (head size) are one of ours
    interleaved: bool = False  # the parts of a fused tensor alternate head by head
    heads: str = ""  # the config field that counts these heads
    dim: int = 0  # the dimension of ours along which parts and pieces are joined
    shares: tuple[int, ...] = ()  # the proportions of the pieces of a split tensor; equal if not given

    def permutation(self, rank: int) -> tuple[int, ...]:
        if self.transpose is True:
            return tuple(reversed(range(rank)))
        if isinstance(self.transpose, tuple) and len(self.transpose) == rank:
            return self.transpose
        return tuple(range(rank))

    def merges(self, file_rank: int) -> bool:
        if self.merge is None or file_rank < self.merge + 2:
            return False
        return not isinstance(self.transpose, tuple) or len(self.transpose) == file_rank

    def from_file(self, tensor: Tensor) -> Tensor:
        if self == AS_IS:
            return tensor
        permuted = tensor.permute(self.permutation(tensor.dim()))
        return permuted.flatten(self.merge, self.merge + 1) if self.merges(tensor.dim()) else permuted  # type: ignore

    def to_file(self, tensor: Tensor, heads: int) -> Tensor:
        if self == AS_IS:
            return tensor
        if self.merges(tensor.dim() + 1):
            tensor = tensor.unflatten(self.merge, (math.gcd(heads, tensor.shape[self.merge]), -1))  # type: ignore
        permutation = self.permutation(tensor.dim())
        return tensor.permute(sorted(range(tensor.dim()), key=permutation.__getitem__)).contiguous()

    def count_heads(self, config: Any) -> int:
        """The number of heads in the config, or 1 where it makes no difference."""
        if not self.heads:
            return 1
        heads = getattr(config, self.heads, None)
        if not isinstance(heads, int) or heads < 1:
            raise ValueError(f"the table of weights needs the config's {self.heads}, got {heads!r}")
        return heads

    def split(self, fused: Tensor, sizes: Sequence[int], part: int, heads: int) -> Tensor:
        """One of the parts of a fused tensor, which have these sizes."""
        groups = math.gcd(heads, *sizes) if self.interleaved else 1  # fewer than heads where some are pruned
        if sum(sizes) != fused.shape[self.dim]:
            raise ValueError(f"{fused.shape[self.dim]} rows cannot be parts of {list(sizes)}")
        begin, size = sum(sizes[:part]) // groups, sizes[part] // groups
        if groups == 1:
            return fused.narrow(self.dim, begin, size)
        grouped = fused.unflatten(self.dim, (groups, fused.shape[self.dim] // groups))
        return grouped.narrow(self.dim + 1, begin, size).flatten(self.dim, self.dim + 1)

    def join(self, parts: Sequence[Tensor], heads: int) -> Tensor:
        """The inverse of `split`."""
        if len(parts) == 1:
            return parts[0]
        if not self.interleaved:
            return torch.cat(list(parts), self.dim)
        groups = math.gcd(heads, *(part.shape[self.dim] for part in parts))
        grouped = [part.unflatten(self.dim, (groups, part.shape[self.dim] // groups)) for part in parts]
        return torch.cat(grouped, self.dim + 1).flatten(self.dim, self.dim + 1)

    def cut(self, tensor: Tensor, count: int) -> Sequence[Tensor]:
        """The pieces in which a file keeps one of our tensors."""
        shares = self.shares or (1,) * count
        rows = tensor.shape[self.dim]
        if rows % sum(shares):
            raise ValueError(f"{rows} rows cannot be split in proportion {list(shares)}")
        return tensor.split([rows * share // sum(shares) for share in shares], self.dim)


AS_IS = Conversion()
