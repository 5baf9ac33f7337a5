"""Evaluation mode for a block, also where several threads use one model."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from torch import nn

_lock = threading.Lock()
# Models in such a block -> how many blocks, and the modules that were in training mode before the first.
_evaluated: WeakKeyDictionary[nn.Module, tuple[int, list[nn.Module]]] = WeakKeyDictionary()


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Without dropout; what was in training mode returns to it when the last thread leaves.

    >>> layer = nn.Dropout()
    >>> with evaluation_mode(layer):
    ...     layer.training
    False
    >>> layer.training
    True
    """
    if not model.training and model not in _evaluated:
        yield
        return
    with _lock:
        count, modules = _evaluated.get(model) or (0, [each for each in model.modules() if each.training])
        for each in modules:
            each.training = False
        _evaluated[model] = (count + 1, modules)
    try:
        yield
    finally:
        with _lock:
            count, modules = _evaluated.pop(model)
            if count > 1:
                _evaluated[model] = (count - 1, modules)
            else:
                for each in modules:
                    each.training = True
