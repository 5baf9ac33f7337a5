"""A task whose rows hold sound."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...audio.whisper_feature_extractor import WhisperFeatureExtractor
from ...data.class_folders import SOUNDS
from ...data.file_row import Row as FileRow
from ...errors import InputError
from ...text.base.text_inputs import describe
from ..inputs import Row
from ..processor import Processor
from ..task import Task

KEYS = {"array", "raw", "bytes", "path", "sampling_rate"}  # of a mapping that is a sound
# Other names of the column, as data sets have it.
SOUND_COLUMNS = ("file", "path", "audio_path", "file_name", "filename", "wav", "speech", "sound")


@dataclass(frozen=True)
class EncodedSound:
    """A recording at the rate that the model reads."""

    waveform: np.ndarray
    length: int  # vectors that the encoder makes of it
    truncated: bool = False

    def __len__(self) -> int:
        return self.length


class SoundInputs(Processor):
    """What a feature extractor makes of sound."""

    def __init__(self, feature_extractor: WhisperFeatureExtractor) -> None:
        self.feature_extractor = feature_extractor

    def encode(self, value: Any, stride: int) -> EncodedSound:
        extractor = self.feature_extractor
        waveform = extractor.waveform(value)
        windows = max(1, -(-len(waveform) // extractor.n_samples))
        return EncodedSound(waveform, windows * extractor.nb_max_frames // stride)

    def collate(self, encoded: Sequence[EncodedSound]) -> dict[str, Tensor]:
        """The first window of each recording."""
        extractor = self.feature_extractor
        return {
            "input_features": torch.stack([extractor.spectrogram(e.waveform, extractor.n_samples) for e in encoded])
        }

    def content(self, encoded: EncodedSound) -> str:
        return hashlib.blake2b(encoded.waveform.tobytes(), digest_size=16).hexdigest()

    def is_empty(self, encoded: EncodedSound) -> bool:
        return not len(encoded.waveform)

    def save_pretrained(self, folder: str | PathLike[str]) -> None:
        self.feature_extractor.save_pretrained(folder)


def is_sound(value: object) -> bool:
    """Whether a value is one recording: its samples, the bytes of a file, or a mapping that holds them."""
    if isinstance(value, Mapping):
        return bool(value) and {*value} <= KEYS
    return isinstance(value, bytes) or getattr(value, "ndim", 0) == 1


class SoundTask(Task):
    """What all tasks that read sound share: rows are files, arrays of samples, bytes, or mappings that hold them."""

    processor: SoundInputs

    @property
    def feature_extractor(self) -> WhisperFeatureExtractor:
        return self.processor.feature_extractor

    def parse_call(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        given, options = super().parse_call(inputs, named)
        if isinstance(given, Path) and given.suffix.lower() in SOUNDS:  # a recording, not a file of rows
            given = str(given)
        return given, options

    def is_single_row(self, given: Any) -> bool:
        return is_sound(given) or super().is_single_row(given)

    def read(self, given: Any) -> Row:
        if not isinstance(given, FileRow) and (is_sound(given) or isinstance(given, PathLike)):
            given = {"audio": given}
        return super().read(given)

    def rename_columns(self, row: FileRow) -> FileRow:
        """A file's row with its sound as `audio`, a relative path being that from the folder of the file."""
        row = self.from_published(row)
        if "audio" not in row:
            found = next((name for name in SOUND_COLUMNS if name in row), None)
            if found is None:
                return row
            self.warn_once("column names", "%s has no column audio: %s reads %r as it", row.file, self.name, found)
            row = row.but({"audio" if name == found else name: value for name, value in row.items()})
        value = row["audio"]
        if isinstance(value, str) and not os.path.isabs(value):
            there = os.path.join(os.path.dirname(row.file), value)
            row = row.but({**row, "audio": there if os.path.exists(there) else value})
        return row

    def check_column(self, name: str, value: Any) -> None:
        if value is not None and not isinstance(value, str | PathLike | list | tuple) and not is_sound(value):
            raise InputError(f"{name} must be a file of sound, its bytes or its samples, got {describe(value)}")
