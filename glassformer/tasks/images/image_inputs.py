"""Pictures as inputs of a task: read and resized once, and made into `pixel_values` when a batch is collated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...images.image_processor import ViTImageProcessor
from ...images.picture_files import is_picture, read_picture, upright
from ...images.pixel_arrays import KINDS, as_pixels
from ...text.base.text_inputs import describe
from ..processor import Processor

KEPT = 65_536  # bytes of a picture that stay in memory during training; larger ones are read again from their files


@dataclass(frozen=True)
class EncodedImage:
    """A picture in the size that the model reads, its pixels not rescaled yet."""

    length: int  # tokens that the model makes of it
    pixels: np.ndarray | None  # channels height width; None where it is read again when it is needed
    source: Any = None  # what the picture can be read from again, in its full size
    truncated = False

    def __len__(self) -> int:
        return self.length


def is_image(value: object) -> bool:
    """Whether a value is a picture, and not the name of one, nor several."""
    return is_picture(value) or isinstance(value, bytes) or getattr(value, "ndim", 0) in (2, 3)


def source_of(value: Any) -> Any:
    """The picture in a row's value: itself, or the bytes or the path in a mapping, as data sets of the hub have it."""
    if isinstance(value, Mapping):
        data, path = value.get("bytes"), value.get("path")
        if data is None and path is None:
            raise InputError(f"a picture in a mapping has its bytes or its path, got {describe(value)}")
        return path if data is None else bytes(data)
    return value


def check_image(name: str, value: Any) -> None:
    """Raise unless a value can be a picture."""
    if value is not None and not isinstance(value, str | PathLike | Mapping) and not is_image(value):
        raise InputError(f"{name} must be {KINDS}, got {describe(value)}")


class ImageInputs(Processor):
    """What a task's image processor makes of pictures."""

    def __init__(self, image_processor: ViTImageProcessor, channels: int) -> None:
        self.image_processor, self.channels = image_processor, channels

    def encode(self, value: Any, length_of: Callable[[int, int], int]) -> EncodedImage:
        """A picture that the model sees as `length_of(height, width)` tokens."""
        source = source_of(value)
        pixels = self.image_processor.resize(self.read(source))
        if len(pixels) != self.channels:
            raise InputError(f"the model reads pictures of {self.channels} channels, got {len(pixels)}")
        return EncodedImage(length_of(*pixels.shape[1:]), pixels, source)

    def read(self, source: Any) -> np.ndarray:
        """A picture in its full size: channels height width. Greys become colours, and colours greys, as the model
        reads them."""
        mode = "L" if self.channels == 1 else "RGB"
        if isinstance(source, str | PathLike | bytes):
            source = read_picture(source, mode)
        elif is_picture(source):
            source = upright(source, mode)
        return as_pixels(source, convert_rgb=self.channels == 3)

    def pixels_of(self, encoded: EncodedImage) -> np.ndarray:
        """The resized pixels."""
        if encoded.pixels is not None:
            return encoded.pixels
        return self.image_processor.resize(self.read(encoded.source))

    def collate(self, encoded: Sequence[EncodedImage]) -> dict[str, Tensor]:
        pixels = [self.image_processor.finish(self.pixels_of(each)) for each in encoded]
        sizes = sorted({tuple(each.shape) for each in pixels})
        if len(sizes) > 1:
            raise InputError(
                f"pictures of {' and '.join(str(list(each)) for each in sizes)} make no batch: resize them"
            )
        return {"pixel_values": torch.stack(pixels).float()}

    def compact(self, encoded: EncodedImage) -> EncodedImage:
        """Without the pixels of a large picture that its file still has."""
        is_file = isinstance(encoded.source, str | PathLike | bytes)
        if is_file and encoded.pixels is not None and encoded.pixels.nbytes > KEPT:
            return replace(encoded, pixels=None)
        return encoded

    def content(self, encoded: EncodedImage) -> str:
        pixels = np.ascontiguousarray(self.pixels_of(encoded))
        return hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        self.image_processor.save_pretrained(folder)
