"""Packing documents into blocks that fit a model, so that nothing is padded and nothing is lost.

Every block is a sequence of its own in the stream: no document attends to another one.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError


def pack(bounds: np.ndarray, context: int, overlap: int = 0) -> np.ndarray:
    """Pieces in which every token after the first of a document is predicted exactly once.

    A piece reads tokens `first` up to `last` and predicts the token after each. With `overlap`, it begins so many
    tokens earlier, which give context and are not predicted again. The columns are first, last, document, overlap.

    >>> pack(np.array([0, 6, 9]), context=4).tolist()
    [[0, 4, 0, 0], [4, 5, 0, 0], [6, 8, 1, 0]]
    >>> pack(np.array([0, 8]), context=4, overlap=2).tolist()
    [[0, 4, 0, 0], [2, 6, 0, 2], [4, 7, 0, 2]]
    """
    if context < 1 or not 0 <= overlap < context:
        raise InputError(f"context must be at least 1 and larger than overlap, got {context} and {overlap}")
    table = []
    for document, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        last = end - 1  # nothing follows the last token
        place = begin
        while place < last:
            first = place if place == begin else place - overlap
            stop = min(first + context, last)
            table.append((first, stop, document, place - first))
            place = stop
    return np.array(table, dtype=np.int64).reshape(-1, 4)


def split_into_blocks(bounds: np.ndarray, size: int) -> np.ndarray:
    """Pieces of at most `size` tokens, each token in exactly one. The columns are first, last, document, 0.

    >>> split_into_blocks(np.array([0, 5, 6]), 3).tolist()
    [[0, 3, 0, 0], [3, 5, 0, 0], [5, 6, 1, 0]]
    """
    if size < 1:
        raise InputError(f"a piece must hold at least one token, got {size}")
    table = [
        (first, min(first + size, end), document, 0)
        for document, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
        for first in range(begin, end, size)
    ]
    return np.array(table, dtype=np.int64).reshape(-1, 4)
