"""From a recipe to a task that reads sound: its model and its feature extractor are loaded or created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...audio.whisper_feature_extractor import WhisperFeatureExtractor
from ...errors import ConfigError
from ...models import auto
from ...models.base.pretrained_io import loading_for
from ...tasks.speech.loading import extractor_for
from ...tasks.speech.sound_task import SoundTask
from .model_sizes import fields_for
from .recipe import NEW, Recipe, is_new


def sound_task(kind: type[SoundTask], recipe: Recipe, config: Mapping[str, Any]) -> SoundTask:
    """The task of a recipe, with its model and feature extractor."""
    if not hasattr(kind, "loss_of"):
        raise ConfigError(f"{kind.name} is not trained here; a trained model does it")
    if not (recipe.from_scratch or is_new(recipe.model)):
        with loading_for("training"):
            return kind.from_pretrained(recipe.model, model_arguments=dict(config), **recipe.options)
    if is_new(recipe.model):
        architecture = recipe.model.removeprefix(NEW)
        fields = fields_for(architecture, recipe.size, recipe.config)
        shape = auto.AutoConfig.for_model(architecture, **{**fields, **config})
        extractor = extractor_of(shape)
    else:
        shape = auto.AutoConfig.from_pretrained(recipe.model, **config)
        extractor = extractor_for(shape, recipe.model, None, {})
    return kind(auto.AUTO_CLASSES[kind.head].from_config(shape), extractor, **recipe.options)


def extractor_of(config: Any) -> WhisperFeatureExtractor:
    """The feature extractor of a new model: columns of 10 ms, as many as the model reads."""
    seconds, rest = divmod(config.columns, 100)
    if rest:
        raise ConfigError(
            f"max_source_positions must be a multiple of 50, a second of sound, got {config.max_source_positions}"
        )
    return WhisperFeatureExtractor(feature_size=config.num_mel_bins, chunk_length=seconds)
