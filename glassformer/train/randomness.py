"""The states of random number generators: seeded, saved and restored, so that a resumed run is identical."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError


def random_state() -> dict[str, Any]:
    """The states of all random number generators, as JSON values."""
    kind, keys, *rest = np.random.get_state()
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": [kind, [int(key) for key in keys], *rest],
        "torch": torch.get_rng_state().numpy().tobytes().hex(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state().numpy().tobytes().hex()
    return state


def load_random_state(state: dict[str, Any]) -> None:
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    kind, keys, *rest = state["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), *rest))
    torch.set_rng_state(hex_to_tensor(state["torch"]))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(hex_to_tensor(state["cuda"]))


def hex_to_tensor(text: str) -> Tensor:
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8)


def set_seed(seed: int) -> None:
    """Seed all random number generators: Python's, NumPy's and PyTorch's on every device.

    >>> set_seed(3); first = torch.rand(2)
    >>> set_seed(3); torch.equal(torch.rand(2), first)
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"seed must be an integer, got {seed!r}")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


@contextlib.contextmanager
def preserve_random_state() -> Iterator[None]:
    """Restore the states of all random number generators after a block."""
    state = random_state()
    try:
        yield
    finally:
        load_random_state(state)
