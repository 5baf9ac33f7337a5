"""Counting and freezing parameters, as the tutorials do it."""

from __future__ import annotations

from torch import nn

from ...errors import InputError, nearest


def count_parameters(model: nn.Module, trainable: bool = False) -> int:
    """The number of parameters of a model, each counted once; `trainable` counts only those that are not frozen.

    >>> count_parameters(nn.Linear(3, 2))
    8
    """
    return sum(p.numel() for p in model.parameters() if p.requires_grad or not trainable)


def freeze(model: nn.Module, *parts: str, frozen: bool = True) -> int:
    """Freeze parameters: all, or those under the named parts. Returns how many parameters changed.

    >>> layer = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    >>> freeze(layer, "0")
    8
    """
    names = [name for name, _ in model.named_parameters()]
    for part in parts:
        if not any(name == part or name.startswith(part + ".") for name in names):
            known = {name.rsplit(".", i)[0] for name in names for i in range(name.count(".") + 1)}
            raise InputError(f"the model has no part {part!r}{nearest(part, sorted(known))}")
    changed = 0
    for name, parameter in model.named_parameters():
        inside = not parts or any(name == part or name.startswith(part + ".") for part in parts)
        if inside and parameter.requires_grad == frozen:
            parameter.requires_grad_(not frozen)
            changed += parameter.numel()
    return changed
