"""Values as PNG pictures, one pixel each; written without a library."""

from __future__ import annotations

import struct
import zlib

import torch
from torch import Tensor

# From nothing to the highest value: dark blue, violet, orange, light yellow.
STOPS = ((0, 5, 8, 30), (0.35, 80, 20, 110), (0.7, 230, 95, 60), (1, 252, 250, 190))


def grey_png(weights: Tensor) -> bytes:
    """Weights from 0 to 1 in grey, the darker the higher."""
    points = (255 - weights.clamp(0, 1) * 255).round().to(torch.uint8)
    return png(points, colour=False)


def colour_png(values: Tensor) -> bytes:
    """Values from 0 to 1 on a scale of colours, the lighter the higher."""
    table = torch.tensor(STOPS)
    place = torch.searchsorted(table[:, 0].contiguous(), values.clamp(0, 1)).clamp(1, len(STOPS) - 1)
    low, high = table[place - 1], table[place]
    share = (values.clamp(0, 1) - low[..., 0]) / (high[..., 0] - low[..., 0])
    mixed = low[..., 1:] + share[..., None] * (high[..., 1:] - low[..., 1:])
    return png(mixed.round().to(torch.uint8), colour=True)


def png(points: Tensor, colour: bool) -> bytes:
    """Bytes (height width, and three for each point with `colour`) as a file."""
    height, width = points.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in points.contiguous().numpy())

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if colour else 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
