"""ViT's image processor: pictures to `pixel_values`.

Resized, rescaled to numbers from 0 to 1, normalised by a mean and a deviation for each channel: step by step as
transformers does it, so that a checkpoint sees the numbers it was trained on.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, InputError, refuse_unknown, shown, suggests
from ..json_fields import JsonFields, is_boolean, is_integer, is_list, is_number, is_string, is_table, json_text
from ..text.encoding import BatchEncoding
from .pixel_arrays import FIRST, LAST, as_list, as_pixels
from .resizing import RESAMPLING, resize_with_pillow, resize_with_torch, target_size

log = logging.getLogger("glassformer")

FILE, PROCESSOR_FILE = "preprocessor_config.json", "processor_config.json"
HUB = ("cache_dir", "revision", "token", "local_files_only", "endpoint")
HALF = (0.5, 0.5, 0.5)
SIZES = ({"height", "width"}, {"shortest_edge"})
# What other processors do and this one does not: a file that asks for it would be computed wrongly.
NOT_DONE = ("do_center_crop", "do_pad", "do_reduce_labels", "do_flip_channel_order", "do_thumbnail")

Processor = TypeVar("Processor", bound="ViTImageProcessor")


def check_size(name: str, value: Any) -> dict[str, int]:
    """A side, height and width in a list, or an object that names them."""
    side = is_integer(1, 2**15)
    if isinstance(value, list | tuple) and len(value) == 2:
        value = {"height": value[0], "width": value[1]}
    elif not isinstance(value, Mapping):
        value = {"height": value, "width": value}
    known = {key: each for key, each in value.items() if each is not None}
    if known.keys() not in SIZES:
        ways = " or ".join("{" + ", ".join(sorted(keys)) + "}" for keys in SIZES)
        raise ConfigError(f"{name} must be a number of pixels, [height, width] or {ways}, got {shown(value)}")
    return {key: side(f"{name}.{key}", each) for key, each in known.items()}


def check_resample(name: str, value: Any) -> int:
    value = int(value) if hasattr(value, "value") else value  # Pillow's own names are numbers too
    if isinstance(value, bool) or not isinstance(value, int) or value not in RESAMPLING:
        names = ", ".join(f"{number} ({way})" for number, way in RESAMPLING.items())
        raise ConfigError(f"{name} must be one of {names}, got {shown(value)}")
    return value


def check_channels(low: float) -> Callable[[str, Any], list[float]]:
    """A number for each channel, or one for all."""

    def check(name: str, value: Any) -> list[float]:
        number = is_number(low, 1e6)
        if not isinstance(value, list | tuple):
            return [number(name, value)]
        values = [number(f"{name}[{place}]", each) for place, each in enumerate(is_list(name, value))]
        if not values:
            raise ConfigError(f"{name} must hold a number for each channel, got none")
        return values

    return check


FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "do_resize": is_boolean,
    "size": check_size,
    "resample": check_resample,
    "do_rescale": is_boolean,
    "rescale_factor": is_number(-1e6, 1e6),
    "do_normalize": is_boolean,
    "image_mean": check_channels(-1e6),
    "image_std": check_channels(1e-12),
    "do_convert_rgb": is_boolean,
}


class ViTImageProcessor:
    """Pictures to `pixel_values`.

    >>> processor = ViTImageProcessor(size=8)
    >>> processor(np.zeros((20, 30, 3), np.uint8), return_tensors="pt")["pixel_values"].shape
    torch.Size([1, 3, 8, 8])

    A picture is one of Pillow's, an array or a tensor (channels first or last; whole numbers up to 255, or numbers from
    0 to 1), a path or the bytes of a file. Pictures are resized by Pillow, as those of the published checkpoints were.
    """

    model_input_names = ["pixel_values"]
    is_fast = False

    @suggests
    def __init__(
        self,
        do_resize: bool = True,
        size: int | Sequence[int] | Mapping[str, int] | None = None,  # None: 224 x 224
        resample: int = 2,  # a number of Pillow's: 0 nearest, 2 bilinear, 3 bicubic
        do_rescale: bool = True,
        rescale_factor: float = 1 / 255,
        do_normalize: bool = True,
        image_mean: float | Sequence[float] | None = None,  # None: 0.5
        image_std: float | Sequence[float] | None = None,
        do_convert_rgb: bool | None = None,  # of what is not read from a file, which always is
        *,
        kept_settings: Mapping[str, Any] | None = None,
    ) -> None:
        given = {
            "do_resize": do_resize,
            "size": 224 if size is None else size,
            "resample": resample,
            "do_rescale": do_rescale,
            "rescale_factor": rescale_factor,
            "do_normalize": do_normalize,
            "image_mean": HALF if image_mean is None else image_mean,
            "image_std": HALF if image_std is None else image_std,
            "do_convert_rgb": bool(do_convert_rgb) if do_convert_rgb is None else do_convert_rgb,
        }
        self.__dict__.update({name: FIELDS[name](name, value) for name, value in given.items()})
        self.kept_settings = dict(kept_settings or {})  # of files: what nobody here reads
        self.has_reported_scale = False

    # --- pictures to numbers -----------------------------------------------------------------------------------

    @suggests
    def __call__(
        self,
        images: Any,
        return_tensors: str | None = None,
        *,
        do_resize: bool | None = None,
        size: int | Sequence[int] | Mapping[str, int] | None = None,
        resample: int | None = None,
        do_rescale: bool | None = None,
        rescale_factor: float | None = None,
        do_normalize: bool | None = None,
        image_mean: float | Sequence[float] | None = None,
        image_std: float | Sequence[float] | None = None,
        do_convert_rgb: bool | None = None,
        data_format: str = FIRST,
        input_data_format: str | None = None,
    ) -> BatchEncoding:
        """The pixels of one picture or a list of them: `pixel_values`, B channels height width.

        Other arguments replace the processor's own settings in this call.
        """
        if return_tensors not in (None, "pt", "np"):
            raise InputError(f"return_tensors must be 'pt', 'np' or None, got {shown(return_tensors)}")
        for name, value in (("data_format", data_format), ("input_data_format", input_data_format)):
            value = getattr(value, "value", value)
            if value not in (FIRST, LAST) and not (value is None and name == "input_data_format"):
                raise InputError(f"{name} must be {FIRST!r} or {LAST!r}, got {shown(value)}")
        given = {
            "do_resize": do_resize,
            "size": size,
            "resample": resample,
            "do_rescale": do_rescale,
            "rescale_factor": rescale_factor,
            "do_normalize": do_normalize,
            "image_mean": image_mean,
            "image_std": image_std,
            "do_convert_rgb": do_convert_rgb,
        }
        worker = self.with_settings(**{name: value for name, value in given.items() if value is not None})
        input_format = getattr(input_data_format, "value", input_data_format)
        pictures = [worker.finish(worker.resized(image, input_format)) for image in as_list(images)]
        if getattr(data_format, "value", data_format) == LAST:
            pictures = [picture.permute(1, 2, 0) for picture in pictures]
        if return_tensors is None:
            return BatchEncoding({"pixel_values": [picture.numpy() for picture in pictures]})
        sizes = sorted({tuple(picture.shape) for picture in pictures})
        if len(sizes) > 1:
            raise InputError(
                f"pictures of {' and '.join(str(list(each)) for each in sizes)} make no tensor: resize them"
            )
        batch = torch.stack(pictures)
        return BatchEncoding({"pixel_values": batch if return_tensors == "pt" else batch.numpy()})

    preprocess = __call__

    def with_settings(self: Processor, **settings: Any) -> Processor:
        """A copy with other settings; the processor itself if there are none."""
        if not settings:
            return self
        return type(self)(**{**{name: getattr(self, name) for name in FIELDS}, **settings})

    def resized(self, image: Any, input_format: str | None = None) -> np.ndarray:
        """A picture in the size that the model reads, its pixels not rescaled yet: channels height width."""
        return self.resize(as_pixels(image, self.do_convert_rgb, input_format))

    def resize(self, pixels: np.ndarray) -> np.ndarray:
        """An array of channels, height, width in the size that the model reads."""
        if not self.do_resize:
            return pixels
        return resize_with_pillow(pixels, target_size(self.size, *pixels.shape[1:]), self.resample)

    def finish(self, pixels: np.ndarray) -> Tensor:
        """Resized pixels, rescaled and normalised."""
        if pixels.dtype != np.uint8:
            self.report_scale(pixels)
            return torch.from_numpy(np.ascontiguousarray(self.normalised(pixels)))
        levels = np.broadcast_to(np.arange(256, dtype=np.uint8), (len(pixels), 1, 256))
        tables = self.normalised(levels)[:, 0]  # 256 numbers are computed, and looked up for every pixel
        return torch.from_numpy(np.stack([table.take(channel) for table, channel in zip(tables, pixels, strict=True)]))

    def normalised(self, pixels: np.ndarray) -> np.ndarray:
        if self.do_rescale:
            pixels = (pixels.astype(np.float64) * self.rescale_factor).astype(np.float32)
        if not self.do_normalize:
            return pixels
        if pixels.dtype.kind != "f":
            pixels = pixels.astype(np.float32)
        mean, std = (np.array(each, dtype=pixels.dtype) for each in self.of_channels(len(pixels)))
        return (pixels - mean[:, None, None]) / std[:, None, None]

    def of_channels(self, channels: int) -> tuple[list[float], list[float]]:
        """The mean and the deviation of each channel."""
        means, deviations = (each * channels if len(each) == 1 else each for each in (self.image_mean, self.image_std))
        if len(means) != channels or len(deviations) != channels:
            hint = "; do_convert_rgb=True makes it red, green and blue" if len(means) == 3 else ""
            raise InputError(
                f"a picture has {channels} channels, and image_mean and image_std are for {len(means)} and "
                f"{len(deviations)}{hint}"
            )
        return means, deviations

    def report_scale(self, pixels: np.ndarray) -> None:
        """Warn once of pixels that are from 0 to 1 already, and are divided by 255 once more."""
        if not self.do_rescale or self.has_reported_scale or pixels.dtype.kind != "f":
            return
        if pixels.min() >= 0 and 0 < pixels.max() <= 1:
            self.has_reported_scale = True
            message = "pixels from 0 to 1 are multiplied by %.5g once more: do_rescale=False leaves them as they are"
            log.warning(message, self.rescale_factor)

    # --- files -------------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls: type[Processor], name_or_path: str | PathLike[str], **settings: Any) -> Processor:
        """Read the preprocessor_config.json of a folder or a hub name; settings given here win."""
        from ..checkpoints.hub import find_folder
        from ..checkpoints.ignored_arguments import resolve_ignored_arguments

        owner = f"{cls.__name__}.from_pretrained"
        settings["token"] = resolve_ignored_arguments(settings, owner, settings.get("token"))
        hub = {name: settings.pop(name) for name in HUB if name in settings}
        refuse_unknown(settings, [*FIELDS, *HUB], owner)
        folder = find_folder(name_or_path, files=(FILE, PROCESSOR_FILE), **hub)
        return cls.from_fields(read_preprocessor(folder), **settings)

    @classmethod
    def from_fields(cls: type[Processor], fields: JsonFields, **settings: Any) -> Processor:
        """The processor that a file describes."""
        for name in NOT_DONE:
            if fields.read(name, is_boolean, False):
                raise ConfigError(f"{name} is true, which a {cls.__name__} does not do")
        read = {name: fields.read(name, check) for name, check in FIELDS.items()}
        read = {name: value for name, value in read.items() if value is not None}
        named = ("image_processor_type", "feature_extractor_type", "backend", "use_fast")
        kept = {key: value for key, value in fields.values.items() if key not in (*FIELDS, *named)}
        return cls(**{**read, **settings}, kept_settings=kept)

    def to_dict(self) -> dict[str, Any]:
        """What preprocessor_config.json will say."""
        own = {name: getattr(self, name) for name in FIELDS}
        own["do_convert_rgb"] = own["do_convert_rgb"] or None
        return dict(sorted({**self.kept_settings, "image_processor_type": type(self).__name__, **own}.items()))

    def save_pretrained(self, save_directory: str | PathLike[str]) -> None:
        """Write preprocessor_config.json into a folder, made if it is not there."""
        from ..checkpoints.files import make_folder, write_atomically

        write_atomically(make_folder(save_directory) / FILE, json_text(self.to_dict()))

    def __repr__(self) -> str:
        usual = {name: spec.default for name, spec in inspect.signature(type(self).__init__).parameters.items()}
        usual |= {"size": check_size("size", 224), "image_mean": [*HALF], "image_std": [*HALF], "do_convert_rgb": False}
        other = [f"{name}={getattr(self, name)!r}" for name in FIELDS if getattr(self, name) != usual[name]]
        return f"{type(self).__name__}({', '.join(other)})"


ViTFeatureExtractor = ViTImageProcessor  # its name until 2022


class ViTImageProcessorFast(ViTImageProcessor):
    """The same with torch's kernels, as transformers has it beside torchvision: a few pixels differ by one in 255."""

    is_fast = True

    def resize(self, pixels: np.ndarray) -> np.ndarray:
        if not self.do_resize:
            return pixels
        size = target_size(self.size, *pixels.shape[1:])
        return resize_with_torch(torch.from_numpy(np.ascontiguousarray(pixels)), size, self.resample).numpy()

    def finish(self, pixels: np.ndarray) -> Tensor:
        self.report_scale(pixels)
        tensor = torch.from_numpy(np.ascontiguousarray(pixels))
        if not self.do_normalize:
            return tensor * self.rescale_factor if self.do_rescale else tensor
        scale = 1.0 / self.rescale_factor if self.do_rescale else 1.0
        mean, std = (torch.tensor(each) * scale for each in self.of_channels(len(pixels)))
        return (tensor.float() - mean[:, None, None]) / std[:, None, None]


def read_preprocessor(folder: Path) -> JsonFields:
    """The settings of an image processor: of preprocessor_config.json, or of its section in processor_config.json."""
    from ..checkpoints.files import read_json

    if (folder / FILE).is_file():
        return JsonFields(read_json(folder / FILE), folder / FILE, ConfigError)
    if (folder / PROCESSOR_FILE).is_file():
        fields = JsonFields(read_json(folder / PROCESSOR_FILE), folder / PROCESSOR_FILE, ConfigError)
        if fields.read("image_processor", is_table) is not None:
            return fields.section("image_processor")
    raise ConfigError(f"{folder} holds no {FILE}, which says how pictures become numbers")


def processor_type(fields: JsonFields) -> str | None:
    """The class of image processor that a file names."""
    return fields.read("image_processor_type", is_string) or fields.read("feature_extractor_type", is_string)
