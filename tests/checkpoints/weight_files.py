"""What the tests of weight files share: tensors to write, files of any header, the cost of a call."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch

from glassformer.checkpoints.weights import Weights


def some_tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    return {
        "embeddings.weight": torch.randn(7, 4),
        "layer.0.weight": torch.randn(4, 4).to(torch.bfloat16),
        "layer.0.bias": torch.randn(4),
        "position_ids": torch.arange(5) + seed,
        "scale": torch.tensor(1.5 + seed),
        "nothing": torch.empty(0, 4),
        "flags": torch.tensor([True, False, True]),
    }


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(opened: Weights, tensors: dict[str, torch.Tensor]) -> bool:
    return set(opened.names()) == set(tensors) and all(
        opened.info(name).dtype == opened.read(name).dtype == tensors[name].dtype
        and opened.info(name).shape == tuple(opened.read(name).shape) == tuple(tensors[name].shape)
        and bits(opened.read(name)) == bits(tensors[name])
        for name in tensors
    )


def raw_file(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    """A safetensors file from any header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(begin: int, end: int, shape: list, dtype: str = "F32") -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def memory_growth(call) -> int:
    """How many bytes of memory a call needed at its peak, as the system counts them."""

    def read(field: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
        return int(line.split()[1]) * 1024

    try:
        Path("/proc/self/clear_refs").write_text("5")  # forget the earlier peak
        before = read("VmRSS")
    except OSError:
        pytest.skip("this system does not report the peak of memory")
    call()
    return read("VmHWM") - before
