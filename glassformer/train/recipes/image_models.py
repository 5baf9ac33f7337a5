"""From a recipe to a task that reads pictures: its model and its image processor are loaded or created."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ...checkpoints.pretrained_config import PretrainedConfig
from ...errors import ConfigError
from ...images.auto_image_processor import AutoImageProcessor
from ...images.image_processor import ViTImageProcessor
from ...models import auto
from ...models.base.pretrained_io import loading_for
from ...models.vit import as_pair
from ...tasks.images.image_inputs import source_of
from ...tasks.images.image_task import IMAGE_COLUMNS, ImageTask, beside
from .model_sizes import fields_for, gives_shape, size_for
from .recipe import NEW, Recipe, is_new


def image_task(kind: type[ImageTask], recipe: Recipe, rows: Iterable[Any], config: Mapping[str, Any]) -> ImageTask:
    """The task of a recipe, with its model and image processor."""
    if not (recipe.from_scratch or is_new(recipe.model)):
        with loading_for("training"):
            return kind.from_pretrained(recipe.model, model_arguments=dict(config), **recipe.options)
    if is_new(recipe.model):
        architecture = recipe.model.removeprefix(NEW)
        shape = auto.AutoConfig.for_model(architecture, **{**shape_for(architecture, recipe, rows), **config})
        processor = processor_of(shape)
    else:
        shape = auto.AutoConfig.from_pretrained(recipe.model, **config)
        processor = AutoImageProcessor.from_pretrained(recipe.model)
    return kind(auto.AUTO_CLASSES[kind.head].from_config(shape), processor, **recipe.options)


def shape_for(architecture: str, recipe: Recipe, rows: Iterable[Any]) -> dict[str, int]:
    """The shape of a new model: that of its size, or of the size that fits the files of the rows."""
    size = recipe.size
    if size is None and not gives_shape(architecture, recipe.config):
        if recipe.data.streaming:
            raise ConfigError(
                f"how many pictures are streamed is not known before their end: give {recipe.model} a size"
            )
        size = size_for(sum(map(bytes_of, rows)))
    return fields_for(architecture, size, recipe.config)


def bytes_of(row: Mapping[str, Any]) -> int:
    """The size of the picture of a row, as it is stored."""
    value = next((row[name] for name in ("image", *IMAGE_COLUMNS) if name in row), None)
    value = source_of(value) if isinstance(value, Mapping) else value
    if isinstance(value, str):
        path = beside(value, getattr(row, "file", ""))
        return os.path.getsize(path) if os.path.isfile(path) else 0
    return len(value) if isinstance(value, bytes) else getattr(value, "nbytes", 0)


def processor_of(config: PretrainedConfig) -> ViTImageProcessor:
    """The image processor of a new model: pictures in its size, with pixels from -1 to 1."""
    height, width = as_pair(config.image_size)
    half = [0.5] * config.num_channels
    return ViTImageProcessor(size={"height": height, "width": width}, image_mean=half, image_std=half)
