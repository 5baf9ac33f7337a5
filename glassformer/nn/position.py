"""Positions: sinusoidal encodings (Vaswani et al. 2017), and scores that belong to distances."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..errors import InputError
from .dropout import Dropout


def sinusoidal_table(length: int, size: int) -> Tensor:
    """sin(t / 10000^(2i / C)) and cos of the same, column by column: T C.

    >>> sinusoidal_table(2, 4).tolist()[0]
    [0.0, 1.0, 0.0, 1.0]
    """
    places = torch.arange(length, dtype=torch.float32)[:, None]
    angles = places * torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(10000.0) / size))
    table = torch.empty(length, size)
    table[:, 0::2] = torch.sin(angles)
    table[:, 1::2] = torch.cos(angles[:, : size // 2])
    return table


class PositionalEncoding(nn.Module):
    """Adds to every vector the sinusoidal encoding of its position.

    >>> PositionalEncoding(8, max_len=50)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    pe: Tensor  # 1 max_len C

    def __init__(self, d_model: int, max_len: int = 5000, dropout: float = 0.1):
        super().__init__()
        self.dropout = Dropout(dropout)
        self.register_buffer("pe", sinusoidal_table(max_len, d_model)[None], persistent=False)

    def fill(self) -> None:
        """Compute the table again, for a module that was built on the meta device."""
        self.pe = sinusoidal_table(*self.pe.shape[1:])[None]

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        """B T C, or rows N C with the position of each."""
        if positions is None:
            if x.shape[1] > self.pe.shape[1]:
                raise InputError(f"{x.shape[1]} positions are more than max_len {self.pe.shape[1]}")
            return self.dropout(x + self.pe[:, : x.shape[1]].to(x.dtype))
        return self.dropout(x + self.pe[0, positions].to(x.dtype))


def fixed_positions(length: int, size: int, device: torch.device | None = None) -> Tensor:
    """The sines of all columns, then their cosines: T C.

    >>> fixed_positions(2, 4).tolist()[0]
    [0.0, 0.0, 1.0, 1.0]
    """
    frequencies = 1.0 / 10000 ** (torch.arange(0, size, 2, device=device).float() / size)
    angles = torch.arange(length, dtype=torch.float32, device=device)[:, None] * frequencies
    return torch.cat((angles.sin(), angles.cos()), -1)


def rotate_pairs(x: Tensor, table: Tensor) -> Tensor:
    """Turn neighbouring columns (0 and 1, 2 and 3, ...) by the angles whose sines and cosines a table has: N H D."""
    sin, cos = (part.repeat_interleave(2, -1)[:, None] for part in table.chunk(2, -1))  # N 1 D
    other = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return x * cos + other * sin


def rotate_halves(x: Tensor, angles: Tensor) -> Tensor:
    """Turn each column of the first half with that of the second by an angle (N D/2): N H D."""
    sin, cos = (torch.cat((part, part), -1)[:, None].to(x.dtype) for part in (angles.sin(), angles.cos()))
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def scores_by_distance(scores: Tensor, keys: int) -> Tensor:
    """Scores of every query and distance, laid out by keys: ... T (T + S) -> ... T S, without a copy.

    The queries are the last of the keys. Column 0 belongs to the distance S - 1, which is that of the last query from
    the first key; each further one is nearer by one. The last column fills up and is not read. Where no query sees a
    later key, S + 1 columns are enough: what stands at later keys then belongs to others.

    >>> scores_by_distance(torch.tensor([[1, 0, -1, 9], [1, 0, -1, 9]]), keys=2).tolist()
    [[0, -1], [1, 0]]
    """
    queries, columns = scores.shape[-2:]
    shifted = scores.flatten(-2)[..., queries - 1 : queries - 1 + queries * (columns - 1)]
    return shifted.unflatten(-1, (queries, columns - 1))[..., :keys]
