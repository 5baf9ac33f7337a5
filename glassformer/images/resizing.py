"""Resizing by the rules of Pillow, and by those of torch: both average over all pixels that a new one covers."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from .picture_files import pillow

log = logging.getLogger("glassformer")

RESAMPLING = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}  # Pillow's numbers
IN_TORCH = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}
MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}  # of Pillow, by channels


def target_size(size: Mapping[str, int], height: int, width: int) -> tuple[int, int]:
    """Height and width of a picture after resizing.

    >>> target_size({"shortest_edge": 224}, 427, 640), target_size({"height": 8, "width": 9}, 427, 640)
    ((224, 335), (8, 9))
    """
    if "height" in size:
        return size["height"], size["width"]
    short, long = sorted((height, width))
    edge = size["shortest_edge"]
    other = int(edge * long / short)
    return (other, edge) if width <= height else (edge, other)


def resize_with_pillow(pixels: np.ndarray, size: tuple[int, int], resample: int) -> np.ndarray:
    """channels height width -> the same, resized. Pillow knows whole numbers up to 255: others are brought there and
    back."""
    if len(pixels) not in MODES:
        raise InputError(f"a picture of 1, 3 or 4 channels can be resized, got {len(pixels)}")
    scaled = is_between_0_and_1(pixels)
    if scaled:
        pixels = (pixels.astype(np.float64) * 255).astype(np.float32)
    array = np.moveaxis(pixels.astype(np.uint8), 0, -1)
    picture = pillow().fromarray(np.ascontiguousarray(array[..., 0] if array.shape[-1] == 1 else array))
    resized = np.array(picture.resize(size[::-1], resample=resample))
    resized = resized[None] if resized.ndim == 2 else np.moveaxis(resized, -1, 0)
    return (resized.astype(np.float64) * (1 / 255)).astype(np.float32) if scaled else resized


def is_between_0_and_1(pixels: np.ndarray) -> bool:
    """Whether pixels are fractions of the brightest value; else they are numbers from 0 to 255, or are refused."""
    if pixels.dtype == np.uint8:
        return False
    low, high = pixels.min(), pixels.max()
    is_whole = np.allclose(pixels, pixels.astype(int))
    limit = 255 if is_whole else 1
    if low < 0 or high > limit:
        raise InputError(
            f"pixels are whole numbers from 0 to 255, or numbers from 0 to 1, to be resized; these are from {low:g} to "
            f"{high:g}"
        )
    return not is_whole


def resize_with_torch(pixels: Tensor, size: tuple[int, int], resample: int) -> Tensor:
    """channels height width -> the same, resized by torch's kernel, in the type that the pixels have."""
    mode = IN_TORCH.get(resample)
    if mode is None:
        names = ", ".join(f"{number} ({name})" for number, name in IN_TORCH.items())
        raise InputError(f"the fast processor resamples by {names}, got {resample}; the one by Pillow knows more")
    if tuple(pixels.shape[1:]) == size:
        return pixels
    smooth = {"antialias": True, "align_corners": False} if mode != "nearest-exact" else {}
    kind = pixels.dtype
    if kind not in (torch.uint8, torch.float32, torch.float64):
        pixels = pixels.float()
    resized = F.interpolate(pixels[None], size=size, mode=mode, **smooth)[0]
    return resized if resized.dtype == kind else resized.round().to(kind)
