"""Scores that are NaN are no answers: they raise, with the module in which they began.

The check reads the final scores only. Where it fails, the computation is repeated with hooks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import GlassformerError, NotFiniteError
from .scoped_hooks import HookScope


def has_nan(scores: Tensor) -> bool:
    """Whether scores are NaN, or infinitely high, which a softmax makes NaN; a word of probability 0 has -inf.

    >>> has_nan(torch.tensor([0.0, -torch.inf])), has_nan(torch.tensor([0.0, torch.inf]))
    (False, True)
    """
    if not scores.is_floating_point() or bool(scores.sum().isfinite()):  # one quick pass
        return False
    return bool((scores.isnan() | (scores == torch.inf)).any())


def tensors_in(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from tensors_in(each)


def check_scores(scores: Any, model: nn.Module, repeat: Callable[[], Any]) -> None:
    """Raise if scores (tensors, or tuples of them) are NaN; `repeat` computes them again, with `model` observed."""
    if not any(map(has_nan, tensors_in(scores))):
        return
    where = first_not_finite(model, repeat)
    raise NotFiniteError(f"the scores of {type(model).__name__} are NaN or infinite{where}")


def first_not_finite(model: nn.Module, run: Callable[[], Any]) -> str:
    """Where values stop being finite, as the end of a sentence."""
    found: list[str] = []

    def look(name: str, module: nn.Module, inputs: tuple, out: Any) -> None:
        if found or all(map(is_finite, tensors_in(out))):
            return
        wrong = [each for each, value in module.named_parameters() if not is_finite(value)]
        reason = f", whose {wrong[0]} is not finite" if wrong else ""
        if not wrong and any(not is_finite(each) for each in tensors_in(inputs)):
            reason = ", whose inputs are not finite"
        found.append(f": they begin in {name}{reason}")

    with HookScope() as scope, contextlib.suppress(GlassformerError, RuntimeError):
        for name, module in model.named_modules():
            if name:
                scope.after(module, lambda *values, name=name: look(name, *values))
        run()
    return found[0] if found else ""


def is_finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(value.isfinite().all())
