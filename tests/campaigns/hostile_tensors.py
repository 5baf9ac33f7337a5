"""What may come in place of a tensor: other types, dtypes, ranks, sizes, layouts, devices and values."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

DTYPES = (
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.float64, torch.float32),
    *(torch.float16, torch.bfloat16, torch.complex64, torch.float8_e4m3fn, torch.uint16, torch.uint64),
)
NO_TENSORS: tuple[Any, ...] = (
    *("text", "", 3, -1, 2**70, 0.5, float("nan"), True, b"bytes", object(), [], [[]], [1, 2], [[1, 2], [3]], {}),
    *({"input_ids": [1]}, (), (None,), lambda: None, torch.float32, range(3)),
)
FLAGS: tuple[Any, ...] = (True, False, None, 0, 1, 2, "yes", "", 0.5, [], [1], torch.tensor(True), torch.ones(2))


def ways(original: Tensor) -> dict[str, Callable[[], Any]]:
    """What may come in place of a tensor, by what it is."""
    t = original
    numbers = t.float() if not t.is_floating_point() else t
    return {
        "a list": t.tolist,
        "an array": lambda: t.numpy(),
        "sparse": lambda: t.to_sparse(),
        "rows packed": lambda: (t if t.dim() == 2 else t.reshape(1, -1)).to_sparse_csr(),
        "on another device": lambda: t.to("meta"),
        "nested": lambda: torch.nested.nested_tensor([numbers.reshape(-1)]),
        "quantized": lambda: torch.quantize_per_tensor(numbers.float(), 0.1, 0, torch.quint8),
        "without the first dimension": lambda: t[0] if t.dim() else t,
        "with one more dimension in front": lambda: t[None],
        "with one more dimension behind": lambda: t[..., None],
        "without elements": lambda: t.new_empty(0),
        "without sequences": lambda: t[:0] if t.dim() else t,
        "without positions": lambda: t[..., :0] if t.dim() else t,
        "one number": lambda: t.reshape(-1)[0].clone(),
        "fewer sequences": lambda: t[:1] if t.dim() else t,
        "more sequences": lambda: torch.cat((t, t)) if t.dim() else t,
        "shorter": lambda: t[..., :-1] if t.dim() else t,
        "longer": lambda: torch.cat((t, t), -1) if t.dim() else t,
        "very long": lambda: t.repeat(*[1] * (t.dim() - 1), 60) if t.dim() else t,
        "transposed": lambda: t.transpose(0, -1) if t.dim() else t,
        "flipped": lambda: t.flip(-1) if t.dim() else t,
        "a view": lambda: torch.stack((t, t), -1)[..., 0],
        "the same for all": lambda: t[:1].expand_as(t) if t.dim() else t,
        "negative": lambda: -(t.long() + 1),
        "-100": lambda: torch.full_like(t, -100) if t.dtype != torch.bool else t,
        "large": lambda: t.long() + 10**6,
        "the largest": lambda: torch.full_like(t.long(), 2**63 - 1),
        "the smallest": lambda: torch.full_like(t.long(), -(2**63)),
        "NaN": lambda: torch.full_like(numbers, float("nan")),
        "infinite": lambda: torch.full_like(numbers, float("-inf")),
        "fractions": lambda: numbers + 0.5,
        "zeros": lambda: torch.zeros_like(t),
        "a parameter": lambda: torch.nn.Parameter(t, requires_grad=t.is_floating_point()),
        "with a gradient": lambda: numbers.clone().requires_grad_(),
        "in inference mode": lambda: in_inference_mode(t),
    }


def in_inference_mode(tensor: Tensor) -> Tensor:
    with torch.inference_mode():
        return tensor.clone()


def hostile(rng: random.Random, original: Any) -> tuple[Any, str]:
    """A value in place of another, and what it is."""
    if isinstance(original, bool) or (original is None and rng.random() < 0.3):
        value = rng.choice(FLAGS)
        return value, f"{value!r:.40}"
    if not isinstance(original, Tensor):
        original = torch.randint(0, 2, (2, 6)) if rng.random() < 0.5 else torch.rand(2, 6, 48)
    kind = rng.random()
    if kind < 0.15:
        value = rng.choice(NO_TENSORS)
        return value, f"{value!r:.40}"
    if kind < 0.35:
        dtype = rng.choice(DTYPES)
        return original.to(dtype), str(dtype)
    name = rng.choice(sorted(ways(original)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of layouts that torch calls new
        return ways(original)[name](), name
