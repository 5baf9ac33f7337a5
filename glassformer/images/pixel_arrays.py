"""Pictures in any form as arrays of pixels: channels, height, width."""

from __future__ import annotations

import logging
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, shown
from .picture_files import is_picture, pillow, read_picture

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger("glassformer")

FIRST, LAST = "channels_first", "channels_last"
CHANNELS = (1, 3, 4)
KINDS = "a picture of Pillow's, an array, a tensor, a path or the bytes of a file"


def as_list(images: Any) -> list[Any]:
    """A batch of pictures as a list: one alone, lists (perhaps of lists), or an array or tensor with one dimension
    more."""
    if isinstance(images, list | tuple):
        if not images:
            raise InputError("the batch is empty: give one picture or more")
        nested = [as_list(each) if isinstance(each, list | tuple) else [each] for each in images]
        flat = [picture for part in nested for picture in part]
        return [picture for each in flat for picture in (list(each) if getattr(each, "ndim", 0) == 4 else [each])]
    if getattr(images, "ndim", 0) == 4:
        if not len(images):
            raise InputError("the batch is empty: give one picture or more")
        return list(images)
    return [images]


def as_pixels(image: Any, convert_rgb: bool | None = None, input_format: str | None = None) -> np.ndarray:
    """One picture as an array of channels, height, width, in the type that it has.

    Files are read as red, green and blue; other pictures are converted only with `convert_rgb`, which puts transparent
    ones on white. `input_format` says where an array has its channels.
    """
    if isinstance(image, str | bytes | PathLike):
        image = read_picture(image)
    if is_picture(image):
        if image.mode == "P" and not convert_rgb:  # its numbers are those of a palette
            image = image.convert("RGB")
        array = np.array(on_white(image) if convert_rgb else image)
        if array.dtype == bool:  # black and white
            array = array.astype(np.uint8) * 255
        return array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)
    array = as_array(image)
    if array.ndim == 2:
        array, input_format = array[None], FIRST
    if array.ndim != 3 or 0 in array.shape:
        raise InputError(f"a picture has two or three dimensions with pixels in them, got {list(array.shape)}")
    if (input_format or find_channels(array.shape)) == LAST:
        array = np.moveaxis(array, -1, 0)
    return rgb_of(array) if convert_rgb else array


def as_array(image: Any) -> np.ndarray:
    """The values of an array or a tensor."""
    if hasattr(image, "detach"):
        image = image.detach().cpu()
        image = (image.float() if str(image.dtype) == "torch.bfloat16" else image).numpy()
    if not isinstance(image, np.ndarray):
        raise InputError(f"a picture is {KINDS}; got {type(image).__name__} {shown(image, 40)}")
    if image.dtype.kind not in "buif":
        raise InputError(f"the pixels of a picture are numbers, got {image.dtype}")
    if image.dtype.kind == "f" and not np.isfinite(image).all():
        raise InputError("the pixels of a picture must be finite, and some are NaN or infinite")
    return image


def find_channels(shape: tuple[int, ...]) -> str:
    """Where an array of three dimensions has its channels."""
    first, last = shape[0] in CHANNELS, shape[-1] in CHANNELS
    if first and last:
        log.warning("an array %s is read as channels, height, width; input_data_format says otherwise", list(shape))
    if not first and not last:
        raise InputError(
            f"a picture has 1, 3 or 4 channels in its first or last dimension, got {list(shape)}; where others are, "
            f"input_data_format='{FIRST}' or '{LAST}' says"
        )
    return FIRST if first else LAST


def on_white(image: Image) -> Image:
    """A picture in red, green and blue, transparent parts on white."""
    if "A" not in image.getbands() and image.info.get("transparency") is None:
        return image.convert("RGB")
    clear = image.convert("RGBA")
    white = pillow().new("RGBA", clear.size, (255, 255, 255, 255))
    return pillow().alpha_composite(white, clear).convert("RGB")


def rgb_of(array: np.ndarray) -> np.ndarray:
    """The same for an array of channels, height, width."""
    if len(array) == 1:
        return np.repeat(array, 3, axis=0)
    if len(array) != 4:
        return array
    white = 255 if array.dtype.kind in "ui" else 1.0
    opaque = array[3:] / white
    mixed = opaque * array[:3] + (1 - opaque) * white
    return (np.round(mixed) if white == 255 else mixed).astype(array.dtype)
