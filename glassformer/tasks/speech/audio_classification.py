"""audio-classification: one label, several labels or a number for a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from torch import Tensor, nn

from ...audio.whisper_feature_extractor import WhisperFeatureExtractor
from ...errors import InputError
from ...models.auto import AUTO_CLASSES
from ...models.base.pretrained_model import PreTrainedModel
from ...models.whisper_layers import STRIDE
from ..batch import Example, truncation_note
from ..classification import Classification, LabelOptions
from ..inputs import Columns, Row
from .loading import extractor_for
from .sound_task import SoundInputs, SoundTask


@dataclass(frozen=True, kw_only=True)
class AudioClassificationOptions(LabelOptions):
    """Options for the labels in an answer."""

    top_k: int | str | None = 5


class AudioClassification(Classification, SoundTask):
    """Say what kind of sound a recording is, by its first window.

    >>> pipe = pipeline("audio-classification", model="./whisper-tiny-commands/")    # doctest: +SKIP
    >>> pipe("yes.wav", top_k=1)                                                      # doctest: +SKIP
    [{'label': 'yes', 'score': 0.981}]
    """

    name = "audio-classification"
    head = "audio-classification"
    columns = Columns(("audio",), (), ("label",))
    Options = AudioClassificationOptions

    def __init__(
        self, model: PreTrainedModel, feature_extractor: WhisperFeatureExtractor | None = None, **options: Any
    ) -> None:
        if not hasattr(model.config, "num_mel_bins"):
            raise InputError(f"{self.name} takes a model that reads sound, and a {type(model).__name__} does not")
        extractor = extractor_for(model.config, model.config.name_or_path or None, feature_extractor, {})
        if (extractor.feature_size, extractor.nb_max_frames) != (model.config.num_mel_bins, model.config.columns):
            raise InputError(
                f"the model reads spectrograms of {model.config.num_mel_bins} x {model.config.columns}, and the "
                f"feature extractor makes them of {extractor.feature_size} x {extractor.nb_max_frames}"
            )
        super().__init__(model, SoundInputs(extractor), **options)

    @property
    def preprocessor(self) -> WhisperFeatureExtractor:
        return self.feature_extractor

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        feature_extractor: WhisperFeatureExtractor | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> AudioClassification:
        """Load the model and its feature extractor from a folder or by a hub name."""
        where = dict(hub or {})
        model = AUTO_CLASSES[cls.head].from_pretrained(name_or_path, **where, **(model_arguments or {}))
        return cls(model, extractor_for(model.config, name_or_path, feature_extractor, where), **options)

    def encode(self, row: Row) -> list[Example]:
        labels = {} if row.get("label") is None else {"labels": self.target(row["label"])}
        sound, extractor = self.processor.encode(row["audio"], STRIDE), self.feature_extractor
        too_long = len(sound.waveform) > extractor.n_samples
        one = replace(
            sound,
            waveform=sound.waveform[: extractor.n_samples],
            length=extractor.nb_max_frames // STRIDE,
            truncated=too_long,
        )
        return [Example(one, labels)]

    def call(self, model: nn.Module, inputs: Mapping[str, Any]) -> Any:
        return super().call(model, {name: value.to(self.model.dtype) for name, value in inputs.items()})

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> Any:
        return self.labelled(outputs, **truncation_note(examples))
