"""Pictures that are shown differently in each epoch: mirrored, and cut out at random."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

ASPECTS = (3 / 4, 4 / 3)  # of a cut, width to height
TRIES = 10


def mirrored(pixels: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """A picture (channels height width), or in half of the cases its mirror image."""
    return pixels[..., ::-1] if draw.random() < 0.5 else pixels


def cut_out(pixels: np.ndarray, least: float, draw: np.random.Generator) -> np.ndarray:
    """A rectangle at random, of `least` to all of the picture's area, its sides a little stretched (Szegedy et al.
    2014).

    >>> cut_out(np.zeros((3, 40, 60)), 1.0, np.random.default_rng(0)).shape
    (3, 40, 60)
    """
    height, width = pixels.shape[1:]
    if least >= 1:
        return pixels
    low, high = (math.log(each) for each in ASPECTS)
    for _ in range(TRIES):
        area = height * width * draw.uniform(least, 1)
        aspect = math.exp(draw.uniform(low, high))
        cut = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 0 < cut[0] <= height and 0 < cut[1] <= width:
            top, left = draw.integers(0, height - cut[0] + 1), draw.integers(0, width - cut[1] + 1)
            return pixels[:, top : top + cut[0], left : left + cut[1]]
    return pixels


def generator(seed: Sequence[int]) -> np.random.Generator:
    return np.random.default_rng(list(seed))
