"""A task whose rows hold pictures, which an image processor turns into pixels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from ...data.class_folders import IMAGES
from ...data.file_row import Row as FileRow
from ...errors import InputError
from ...images.auto_image_processor import AutoImageProcessor
from ...images.image_processor import ViTImageProcessor
from ...models.auto import AUTO_CLASSES
from ...models.base.pretrained_model import PreTrainedModel
from ..batch import Example
from ..inputs import Row
from ..task import Task, takes
from ..task_options import Options, check_bool
from .augmentation import cut_out, generator, mirrored
from .image_inputs import EncodedImage, ImageInputs, check_image, is_image

SomeTask = TypeVar("SomeTask", bound="ImageTask")

# Other names of the column, as data sets have it.
IMAGE_COLUMNS = ("img", "picture", "image_path", "img_path", "file_name", "filename", "path", "file")


@dataclass(frozen=True, kw_only=True)
class ImageOptions(Options):
    """The options of every task that reads pictures.

    Attributes:
        interpolate_pos_encoding: Stretch the model's positions to pictures of another size than it was trained on.
        random_flip: In training, show every second picture as in a mirror, another half of them in each epoch.
        random_crop: In training, show a rectangle of each picture that is cut out at random: the least share of its
            area, such as 0.5; 1 is the whole picture.
    """

    interpolate_pos_encoding: bool = False
    random_flip: bool = False
    random_crop: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("interpolate_pos_encoding", self.interpolate_pos_encoding)
        check_bool("random_flip", self.random_flip)
        share = self.random_crop
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise InputError(f"random_crop must be a share of a picture's area, above 0 and up to 1, got {share!r:.40}")


class ImageTask(Task):
    """What all tasks that read pictures share."""

    Options = ImageOptions
    processor: ImageInputs
    reads_files = True  # pictures may be named by their paths; a service lets nobody name its files

    def __init__(self, model: PreTrainedModel, image_processor: ViTImageProcessor, **options: Any) -> None:
        if "pixel_values" not in getattr(model.base_model, "feature_inputs", ()):
            raise InputError(f"{self.name} takes a model that reads pictures, and a {type(model).__name__} does not")
        channels, means = model.config.num_channels, len(image_processor.image_mean)
        super().__init__(model, ImageInputs(image_processor, channels), **options)
        if means not in (1, channels):
            raise InputError(
                f"the model reads pictures of {channels} channels, and the image processor has {means} means"
            )

    @property
    def image_processor(self) -> ViTImageProcessor:
        return self.processor.image_processor

    preprocessor = image_processor

    @classmethod
    def from_pretrained(
        cls: type[SomeTask],
        name_or_path: str | PathLike[str],
        image_processor: ViTImageProcessor | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SomeTask:
        """Load the task's model and image processor from a folder or by a hub name; `hub` holds the arguments for
        finding files, `model_arguments` further ones for the model's own `from_pretrained`."""
        where = dict(hub or {})
        model = AUTO_CLASSES[cls.head].from_pretrained(name_or_path, **where, **(model_arguments or {}))
        if not isinstance(image_processor, ViTImageProcessor):
            source = name_or_path if image_processor is None else image_processor
            image_processor = AutoImageProcessor.from_pretrained(source, **where)
        return cls(model, image_processor, **options)

    # --- rows --------------------------------------------------------------------------------------------------

    def parse_call(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        named = {"image" if name == "images" else name: value for name, value in named.items()}
        given, options = super().parse_call(inputs, named)
        if isinstance(given, Path) and given.suffix.lower() in IMAGES:  # a picture, not a file of rows
            given = str(given)
        return (list(given) if getattr(given, "ndim", 0) == 4 else given), options

    def is_single_row(self, given: Any) -> bool:
        return is_image(given) or super().is_single_row(given)

    def read(self, given: Any) -> Row:
        of_hub = isinstance(given, Mapping) and {*given} <= {"bytes", "path"} and not isinstance(given, FileRow)
        if of_hub or is_image(given) or isinstance(given, PathLike):
            given = {"image": given}
        return super().read(given)

    def rename_columns(self, row: FileRow) -> FileRow:
        """A file's row with its picture as `image`, a relative path being that from the folder of the file."""
        row = self.from_published(row)
        if "image" not in row:
            found = next((name for name in IMAGE_COLUMNS if name in row), None)
            if found is None:
                return row
            self.warn_once("column names", "%s has no column image: %s reads %r as it", row.file, self.name, found)
            row = row.but({"image" if name == found else name: value for name, value in row.items()})
        return row.but({**row, "image": beside(row["image"], row.file)})

    def check_column(self, name: str, value: Any) -> None:
        check_image(name, value)
        if not self.reads_files and not (isinstance(value, str) and value.startswith("data:")):
            raise InputError(f"{name} must be the picture itself: data:image/png;base64,...")

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode_image(self, value: Any) -> EncodedImage:
        return self.processor.encode(value, self.count_tokens)

    def count_tokens(self, height: int, width: int) -> int:
        """How many tokens the model makes of a picture."""
        rows, columns = self.model.base_model.embeddings.patch_embeddings.grid_of((height, width))
        return 1 + rows * columns

    def call(self, model: nn.Module, inputs: Mapping[str, Any]) -> Any:
        if self.options.interpolate_pos_encoding and takes(model, "interpolate_pos_encoding"):
            inputs = {**inputs, "interpolate_pos_encoding": True}
        pixels = inputs["pixel_values"].to(self.model.dtype)
        return super().call(model, {**inputs, "pixel_values": pixels})

    # --- training ----------------------------------------------------------------------------------------------

    @property
    def varies_examples(self) -> bool:
        return self.options.random_flip or self.options.random_crop < 1

    def vary(self, example: Example, seed: Sequence[int]) -> Example:
        """The picture as it is shown in one epoch."""
        encoded, draw = example.encoded, generator(seed)
        if self.options.random_crop < 1:
            whole = self.processor.read(encoded.source)
            pixels = self.image_processor.resize(cut_out(whole, self.options.random_crop, draw))
        else:
            pixels = self.processor.pixels_of(encoded)
        if self.options.random_flip:
            pixels = mirrored(pixels, draw)
        return replace(example, encoded=replace(encoded, pixels=pixels))


def beside(value: Any, file: str) -> Any:
    """The path of a picture that a file names: as it is, or from the folder of the file."""
    if isinstance(value, Mapping) and value.get("bytes") is None and value.get("path") is not None:
        return beside(value["path"], file)
    if not isinstance(value, str) or "://" in value or value.startswith("data:") or os.path.isabs(value):
        return value
    there = os.path.join(os.path.dirname(file), value)
    return there if os.path.exists(there) or not os.path.exists(value) else value
