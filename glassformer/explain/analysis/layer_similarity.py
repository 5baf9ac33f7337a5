"""How similar layers and models are."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ...errors import InputError


def cka(x: Tensor, y: Tensor) -> float:
    """Linear CKA (Kornblith et al. 2019) of two representations of the same rows: N P and N Q -> 0 to 1.

    It does not change if either is rotated or scaled.

    >>> import torch
    >>> x = torch.randn(20, 5, dtype=torch.float64)
    >>> round(cka(x, -3 * x), 6)
    1.0
    """
    return cka_table([x], [y])[0][0]


def gram(x: Tensor) -> Tensor:
    """Products of all pairs of rows, centred: N N."""
    x = x - x.mean(0)
    return x @ x.T


def cka_table(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[list[float]]:
    """Every layer of one model against every layer of another, for the same tokens: layers of N C."""
    lefts, rights = ([gram(states.double()) for states in layers] for layers in (first, second))
    if lefts and rights and len(lefts[0]) != len(rights[0]):
        raise InputError(f"CKA compares the same tokens, got {len(lefts[0])} and {len(rights[0])}")

    def similarity(a: Tensor, b: Tensor) -> float:
        norms = a.norm() * b.norm()
        return ((a * b).sum() / norms).item() if norms > 0 else 0.0

    return [[similarity(left, right) for right in rights] for left in lefts]
