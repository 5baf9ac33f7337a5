"""Whisper's feature extractor: sound to log-mel spectrograms of windows of 30 seconds."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, InputError, refuse_unknown, shown, suggests
from ..json_fields import JsonFields, is_boolean, is_integer, is_number, is_string, is_table, json_text
from ..text.encoding import BatchEncoding
from .mel import log_mel
from .sound_file import as_waveform

FILE, PROCESSOR_FILE = "preprocessor_config.json", "processor_config.json"
PADDING = {True: "longest", False: "do_not_pad", None: "do_not_pad"}
HUB = ("cache_dir", "revision", "token", "local_files_only", "endpoint")
FIELDS = {
    "feature_size": is_integer(1, 1024),
    "sampling_rate": is_integer(1, 768_000),
    "hop_length": is_integer(1, 100_000),
    "chunk_length": is_integer(1, 36_000),
    "n_fft": is_integer(2, 100_000),
    "padding_value": is_number(),
    "dither": is_number(0),
    "return_attention_mask": is_boolean,
}


class WhisperFeatureExtractor:
    """Sound to `input_features`.

    >>> extractor = WhisperFeatureExtractor()
    >>> extractor(np.zeros(16000), sampling_rate=16000, return_tensors="pt")["input_features"].shape
    torch.Size([1, 80, 3000])

    Each sound is an array of one channel, a file, or a mapping with its `array` and `sampling_rate`. Sound of another
    rate than the extractor's is resampled: see resampling.py.
    """

    model_input_names = ["input_features"]

    @suggests
    def __init__(
        self,
        feature_size: int = 80,  # bands of the spectrogram
        sampling_rate: int = 16000,
        hop_length: int = 160,  # samples between two columns
        chunk_length: int = 30,  # seconds of a window
        n_fft: int = 400,  # samples of one Fourier transform
        padding_value: float = 0.0,
        dither: float = 0.0,  # the deviation of noise that is added to the samples
        return_attention_mask: bool = False,
        *,
        kept_settings: Mapping[str, Any] | None = None,
    ) -> None:
        given = {
            "feature_size": feature_size,
            "sampling_rate": sampling_rate,
            "hop_length": hop_length,
            "chunk_length": chunk_length,
            "n_fft": n_fft,
            "padding_value": padding_value,
            "dither": dither,
            "return_attention_mask": return_attention_mask,
        }
        self.__dict__.update({name: FIELDS[name](name, value) for name, value in given.items()})
        self.kept_settings = dict(kept_settings or {})  # of files: what nobody here reads

    @property
    def n_samples(self) -> int:
        """Samples of a window."""
        return self.chunk_length * self.sampling_rate

    @property
    def nb_max_frames(self) -> int:
        """Columns of a window."""
        return self.n_samples // self.hop_length

    # --- sound to features -------------------------------------------------------------------------------------

    def waveform(self, sound: Any, sampling_rate: int | None = None) -> np.ndarray:
        """One sound as samples at the extractor's rate; `sampling_rate` is that of an array."""
        is_array = not isinstance(sound, str | bytes | PathLike | Mapping)
        if sampling_rate is not None and is_array:
            sound = {"array": sound, "sampling_rate": sampling_rate}
        return as_waveform(sound, self.sampling_rate)

    def spectrogram(self, waveform: np.ndarray, length: int) -> Tensor:
        """The features of a waveform that is cut to, or padded to, `length` samples: feature_size, length // hop"""
        if self.padding_value:
            missing = max(0, length - len(waveform))
            waveform = np.pad(waveform, (0, missing), constant_values=self.padding_value)
        if self.dither:
            waveform = np.pad(waveform, (0, max(0, length - len(waveform))))
            waveform = waveform + self.dither * torch.randn(len(waveform)).numpy()
        return log_mel(waveform, length, self.feature_size, self.n_fft, self.hop_length, self.sampling_rate)

    @suggests
    def __call__(
        self,
        raw_speech: Any,
        truncation: bool = True,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
        return_attention_mask: bool | None = None,
        padding: str | bool = "max_length",
        max_length: int | None = None,
        sampling_rate: int | None = None,
        do_normalize: bool | None = None,
        device: str | None = None,
    ) -> BatchEncoding:
        """The features of one sound or a list of them: B, feature_size, columns.

        Sounds are padded with silence to `max_length` samples (30 seconds), or to the longest of them, and cut there.
        """
        if return_tensors not in (None, "pt", "np"):
            raise InputError(f"return_tensors must be 'pt', 'np' or None, got {shown(return_tensors)}")
        waveforms = [self.waveform(sound, sampling_rate) for sound in as_sounds(raw_speech)]
        lengths = self.padded_lengths(list(map(len, waveforms)), padding, truncation, max_length, pad_to_multiple_of)
        waveforms = [waveform[:length] for waveform, length in zip(waveforms, lengths, strict=True)]
        if do_normalize:
            waveforms = [normalised(waveform) for waveform in waveforms]
        features = [self.spectrogram(*pair) for pair in zip(waveforms, lengths, strict=True)]
        if len(set(lengths)) > 1:
            if return_tensors:
                raise InputError(f"sounds of {sorted(set(lengths))} samples make no tensor: pass padding='longest'")
            return BatchEncoding({"input_features": [each.numpy() for each in features]})
        batch = torch.stack(features).to(device or "cpu")
        columns: dict[str, Any] = {"input_features": batch}
        if self.return_attention_mask if return_attention_mask is None else return_attention_mask:
            seen = torch.arange(0, lengths[0], self.hop_length)[: batch.shape[-1]]
            real = torch.tensor([len(waveform) for waveform in waveforms])
            columns["attention_mask"] = (seen < real[:, None]).to(torch.int32).to(batch.device)
        if return_tensors != "pt":
            columns = {name: value.cpu().numpy() for name, value in columns.items()}
        return BatchEncoding(columns)

    def padded_lengths(
        self, lengths: Sequence[int], padding: Any, truncation: bool, max_length: int | None, multiple: int | None
    ) -> list[int]:
        """How many samples each sound has after padding and truncation."""
        way = PADDING.get(padding, padding) if isinstance(padding, bool | None) else padding
        if way not in ("max_length", "longest", "do_not_pad"):
            raise InputError(f"padding must be 'max_length', 'longest' or 'do_not_pad', got {shown(padding)}")
        for name, value in (("max_length", max_length), ("pad_to_multiple_of", multiple)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{name} must be a positive integer, got {shown(value)}")
        limit = self.n_samples if max_length is None else max_length
        if multiple:
            limit = -(-limit // multiple) * multiple
        cut = [min(length, limit) if truncation else length for length in lengths]
        if way == "do_not_pad":
            return cut
        target = limit if way == "max_length" else max(cut)
        if multiple:
            target = -(-target // multiple) * multiple
        return [max(length, target) for length in cut]

    # --- files -------------------------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(cls, name_or_path: str | PathLike[str], **settings: Any) -> WhisperFeatureExtractor:
        """Read the preprocessor_config.json of a folder or a hub name; settings given here win."""
        from ..checkpoints.hub import find_folder

        hub = {name: settings.pop(name) for name in HUB if name in settings}
        refuse_unknown(settings, FIELDS, f"{cls.__name__}.from_pretrained")
        folder = find_folder(name_or_path, files=(FILE, PROCESSOR_FILE), **hub)
        fields = read_preprocessor(folder, "feature_extractor")
        kind = fields.read("feature_extractor_type", is_string, cls.__name__)
        if kind != cls.__name__:
            raise ConfigError(f"{folder} names a {kind}, and is read as a {cls.__name__}")
        read = {name: fields.read(name, check) for name, check in FIELDS.items()}
        computed = ("n_samples", "nb_max_frames", "mel_filters", "feature_extractor_type")
        kept = {key: value for key, value in fields.values.items() if key not in (*FIELDS, *computed)}
        read = {name: value for name, value in read.items() if value is not None}
        return cls(**{**read, **settings}, kept_settings=kept)

    def to_dict(self) -> dict[str, Any]:
        """What preprocessor_config.json will say."""
        own = {name: getattr(self, name) for name in FIELDS}
        computed = {"n_samples": self.n_samples, "nb_max_frames": self.nb_max_frames}
        named = {"feature_extractor_type": type(self).__name__, "padding_side": "right"}
        return dict(sorted({**self.kept_settings, **named, **computed, **own}.items()))

    def save_pretrained(self, save_directory: str | PathLike[str]) -> None:
        """Write preprocessor_config.json into a folder, made if it is not there."""
        from ..checkpoints.files import make_folder, write_atomically

        write_atomically(make_folder(save_directory) / FILE, json_text(self.to_dict()))

    def __repr__(self) -> str:
        usual = inspect.signature(type(self).__init__).parameters
        own = {name: getattr(self, name) for name in FIELDS if getattr(self, name) != usual[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"


def read_preprocessor(folder: Path, section: str) -> JsonFields:
    """The settings of a feature extractor: of preprocessor_config.json, or of its section in processor_config.json."""
    from ..checkpoints.files import read_json

    if (folder / FILE).is_file():
        return JsonFields(read_json(folder / FILE), folder / FILE, ConfigError)
    if (folder / PROCESSOR_FILE).is_file():
        fields = JsonFields(read_json(folder / PROCESSOR_FILE), folder / PROCESSOR_FILE, ConfigError)
        if fields.read(section, is_table) is not None:
            return fields.section(section)
    raise ConfigError(f"{folder} holds no {FILE}, which says how sound becomes features")


def as_sounds(given: Any) -> list[Any]:
    """A batch of sounds: a list of them, rows of a matrix, or one alone."""
    if isinstance(given, str | bytes | PathLike | Mapping):
        return [given]
    if isinstance(given, list | tuple):
        is_one = bool(given) and isinstance(given[0], int | float | np.number) and not isinstance(given[0], bool)
        sounds = [given] if is_one else list(given)
    elif getattr(given, "ndim", 1) == 2:
        sounds = list(given)
    else:
        sounds = [given]
    if not sounds:
        raise InputError("the batch is empty: give one sound or more")
    return sounds


def normalised(waveform: np.ndarray) -> np.ndarray:
    """With the mean 0 and the variance 1."""
    return (waveform - waveform.mean()) / np.sqrt(waveform.var() + 1e-7)
