"""Sound as one channel of float samples: from files (flac, wav, mp3, ...), bytes, or arrays.

Files are read by soundfile, an extra. Without it, wav files of whole numbers are read by the standard library.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataError, InputError, shown
from .resampling import resample

HIGHEST_RATE = 768_000
SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aif", ".aiff", ".au")  # that are taken for sound in folders


class Sound(NamedTuple):
    """A recording."""

    samples: np.ndarray  # float32, from -1 to 1; one channel
    rate: int  # samples per second

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate


def read_sound(file: str | PathLike[str] | bytes) -> Sound:
    """The sound in a file, or in the bytes of one; several channels are averaged."""
    name = "the sound" if isinstance(file, bytes) else fspath(file)
    if not isinstance(file, bytes):
        path = Path(file).expanduser()
        if not path.is_file():
            raise DataError(f"{name}: {'a folder, not a file of sound' if path.is_dir() else 'there is no such file'}")
        file = path.read_bytes()
    if not file:
        raise DataError(f"{name}: the file is empty")
    samples, rate = decode(file, name)
    if not 1 <= rate <= HIGHEST_RATE:
        raise DataError(f"{name}: the sampling rate must be from 1 to {HIGHEST_RATE}, got {rate}")
    return Sound(mono(samples, name), rate)


def decode(data: bytes, name: str) -> tuple[np.ndarray, int]:
    """The samples (frames, or frames x channels) and the rate in the bytes of a file."""
    try:
        import soundfile
    except (ImportError, OSError):  # the second where the library that it calls is missing
        if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
            return decode_wav(data, name)
        raise InputError(
            f"{name}: sound other than wav needs soundfile; install the extra: pip install 'glassformer[audio]'"
        ) from None
    try:
        return soundfile.read(io.BytesIO(data), dtype="float32")
    except (soundfile.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).rpartition(": ")[2].strip(" .")
        raise DataError(f"{name}: damaged, or no file of sound ({reason})") from None


def decode_wav(data: bytes, name: str) -> tuple[np.ndarray, int]:
    """`decode` for wav files of whole numbers, by the standard library."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels, rate = file.getsampwidth(), file.getnchannels(), file.getframerate()
            raw = file.readframes(file.getnframes())
    except (wave.Error, EOFError, ValueError) as error:
        raise DataError(
            f"{name}: damaged, or a wav file that only soundfile reads ({error}): pip install 'glassformer[audio]'"
        ) from None
    raw = raw[: len(raw) // (width * channels) * width * channels]
    if width == 1:
        samples = (np.frombuffer(raw, np.uint8).astype(np.float32) - 128) / 128
    elif width == 3:
        high = np.zeros((len(raw) // 3, 4), np.uint8)
        high[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        samples = (high.view("<i4")[:, 0] / 2.0**31).astype(np.float32)
    else:
        samples = (np.frombuffer(raw, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)
    return samples.reshape(-1, channels), rate


def mono(samples: np.ndarray, name: str) -> np.ndarray:
    """One channel of float32: the average of those that there are (frames x channels)."""
    samples = samples.mean(1) if samples.ndim == 2 else samples
    if not np.isfinite(samples).all():
        raise DataError(f"{name}: sample {int((~np.isfinite(samples)).argmax())} is not a finite number")
    return np.ascontiguousarray(samples, dtype=np.float32)


def as_waveform(sound: Any, rate: int, name: str = "audio") -> np.ndarray:
    """Whatever holds a sound, as one channel of float32 at this rate.

    A path, the bytes of a file, an array that has the rate already, or a mapping with an `array` (or `raw`) and its
    `sampling_rate`, or with a `path` or `bytes`, as data sets of sound have them.
    """
    if isinstance(sound, Mapping):
        values = {key: value for key, value in sound.items() if value is not None}
        given = next((values[key] for key in ("array", "raw", "bytes", "path") if key in values), None)
        if given is None:
            raise InputError(f"{name} must have an array, raw, bytes or path, got {shown(sorted(map(str, sound)))}")
        if "sampling_rate" in values and not isinstance(given, str | bytes | PathLike):
            return as_waveform(Sound(given, values["sampling_rate"]), rate, name)
        return as_waveform(given, rate, name)
    if isinstance(sound, str | bytes | PathLike):
        sound = read_sound(sound)
    if isinstance(sound, Sound):
        if isinstance(sound.rate, bool) or not isinstance(sound.rate, int) or not 1 <= sound.rate <= HIGHEST_RATE:
            raise InputError(f"sampling_rate must be an integer from 1 to {HIGHEST_RATE}, got {shown(sound.rate)}")
        return resample(as_samples(sound.samples, name), sound.rate, rate)
    return as_samples(sound, name)


def as_samples(values: Any, name: str) -> np.ndarray:
    """An array, tensor or list of numbers as one channel of float32."""
    if not hasattr(values, "__array__") and not isinstance(values, list | tuple):
        raise InputError(f"{name} must be a file of sound, or an array of samples, got {shown(values)}")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, RuntimeError):  # lists of different lengths, a tensor with gradients
        raise InputError(f"{name} must be one waveform, a list of numbers, got {shown(values)}") from None
    if array.ndim != 1 or array.dtype.kind not in "fiu":
        what = f"an array of {array.dtype} with the shape {list(array.shape)}"
        raise InputError(f"{name} must be one channel of numbers (average several: array.mean(channel)), got {what}")
    if array.dtype.kind in "iu" and array.dtype.itemsize <= 4 and array.size:
        scale = 2.0 ** (8 * array.dtype.itemsize - 1)
        array = array / scale - (1.0 if array.dtype.kind == "u" else 0.0)
    return mono(array, name)
