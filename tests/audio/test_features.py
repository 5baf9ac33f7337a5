"""Sound to log-mel features: equal to transformers' and OpenAI's, from whichever file it comes."""

from __future__ import annotations

import io
import json
import sys
import wave

import numpy as np
import pytest
import torch

from glassformer import (
    AutoFeatureExtractor,
    AutoProcessor,
    DataError,
    InputError,
    WhisperFeatureExtractor,
    WhisperProcessor,
    WhisperTokenizer,
)
from glassformer.audio.resampling import resample
from glassformer.audio.sound_file import read_sound

soundfile = pytest.importorskip("soundfile")
transformers = pytest.importorskip("transformers")

RATE = 16000


def chirp(seconds: float, rate: int = RATE, top: float = 3000.0) -> np.ndarray:
    """A tone that rises to `top` Hz."""
    t = np.arange(int(seconds * rate)) / rate
    return (0.4 * np.sin(np.pi * top / seconds * t**2)).astype(np.float32)


def wav_bytes(samples: np.ndarray, width: int, rate: int = RATE) -> bytes:
    """16 bit and so on, from whole numbers (frames, or frames x channels)."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1 if samples.ndim == 1 else samples.shape[1])
        file.setsampwidth(width)
        file.setframerate(rate)
        raw = samples.astype("<i4").view(np.uint8).reshape(*samples.shape, 4)[..., :width]
        file.writeframes(raw.tobytes() if width > 1 else (samples + 128).astype(np.uint8).tobytes())
    return buffer.getvalue()


@pytest.mark.parametrize("seconds", [0.003, 0.5, 7.3, 30, 31.2])
@pytest.mark.parametrize("options", [{}, {"padding": "longest"}, {"max_length": 40000, "do_not_pad": 1}])
def test_features_equal_transformers(seconds, options):
    options = {"max_length": 40000, "padding": "do_not_pad"} if "do_not_pad" in options else options
    noise = np.random.default_rng(0).normal(0, 0.01, int(seconds * RATE)).astype(np.float32)
    sound = chirp(seconds) + noise
    if options and len(sound) <= 200:
        pytest.skip("transformers cannot mirror a sound that is shorter than half a window")
    for bands in (80, 128):
        ours, theirs = (
            kind(feature_size=bands)(
                sound, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True, **options
            )
            for kind in (WhisperFeatureExtractor, transformers.WhisperFeatureExtractor)
        )
        assert ours["input_features"].dtype == torch.float32
        torch.testing.assert_close(ours["input_features"], theirs["input_features"], atol=1e-5, rtol=0)
        assert torch.equal(ours["attention_mask"], theirs["attention_mask"])


def test_batches_silence_and_normalisation_equal_transformers():
    sounds = [chirp(1.0), np.zeros(8000, np.float32), chirp(2.0)]
    for options in ({}, {"padding": "longest", "pad_to_multiple_of": 4800}, {"do_normalize": True}):
        ours = WhisperFeatureExtractor()(sounds, sampling_rate=RATE, return_tensors="np", **options)
        theirs = transformers.WhisperFeatureExtractor()(sounds, sampling_rate=RATE, return_tensors="np", **options)
        np.testing.assert_allclose(ours.input_features, theirs.input_features, atol=1e-4 if len(options) == 1 else 1e-5)


def test_settings_are_read_and_written_as_transformers_does(tmp_path):
    theirs = transformers.WhisperFeatureExtractor(feature_size=128, chunk_length=20, return_attention_mask=True)
    theirs.save_pretrained(tmp_path)
    ours = WhisperFeatureExtractor.from_pretrained(tmp_path)
    assert (ours.feature_size, ours.n_samples, ours.nb_max_frames) == (128, 320000, 2000)
    ours.save_pretrained(tmp_path / "again")
    again = transformers.WhisperFeatureExtractor.from_pretrained(tmp_path / "again")
    written = {name: value for name, value in again.to_dict().items() if name != "mel_filters"}
    assert written == {name: value for name, value in theirs.to_dict().items() if name != "mel_filters"}
    assert repr(ours) == "WhisperFeatureExtractor(feature_size=128, chunk_length=20, return_attention_mask=True)"
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"hop_length": "160"}))
    with pytest.raises(ValueError, match=r"preprocessor_config\.json: hop_length must be an integer"):
        WhisperFeatureExtractor.from_pretrained(tmp_path)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_wav_is_read_without_soundfile_as_with_it(width, tmp_path, monkeypatch):
    numbers = (np.random.default_rng(1).uniform(-1, 1, (999, 2)) * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    path = tmp_path / "sound.wav"
    path.write_bytes(wav_bytes(numbers, width, 22050))
    sound = read_sound(path)
    assert sound.rate == 22050 and len(sound.samples) == 999
    monkeypatch.setitem(sys.modules, "soundfile", None)
    np.testing.assert_allclose(read_sound(path).samples, sound.samples, atol=1e-7)
    flac = io.BytesIO()
    soundfile.write(flac, sound.samples, 22050, format="FLAC")
    with pytest.raises(InputError, match=r"pip install 'glassformer\[audio\]'"):
        read_sound(flac.getvalue())


@pytest.mark.parametrize("kind", ["FLAC", "WAV", "MP3"])
def test_files_of_any_kind_channels_and_rate_give_one_waveform(kind, tmp_path):
    tone = chirp(1.0, 44100)
    path = tmp_path / f"sound.{kind.lower()}"
    soundfile.write(path, np.stack((tone, 0.5 * tone), 1), 44100, format=kind)
    waveform = WhisperFeatureExtractor().waveform(path)
    assert waveform.dtype == np.float32 and abs(len(waveform) - RATE) < 1000
    exact, middle = 0.75 * chirp(1.0), slice(1000, 15000)
    if kind != "MP3":  # which changes the sound
        assert np.abs(waveform - exact)[middle].max() < 1e-4


@pytest.mark.parametrize(("rate", "new_rate"), [(8000, 16000), (44100, 16000), (48000, 16000), (22051, 16000)])
def test_resampling_keeps_tones_and_their_time(rate, new_rate):
    tone = resample(chirp(1.0, rate), rate, new_rate)
    assert len(tone) == new_rate
    assert np.abs(tone - chirp(1.0, new_rate))[400:-400].max() < 2e-5


def test_resampling_removes_what_the_new_rate_cannot_hold():
    high = (np.sin(2 * np.pi * 9000 * np.arange(44100) / 44100)).astype(np.float32)
    assert np.abs(resample(high, 44100, 16000))[400:-400].max() < 1e-5


def test_inputs_that_are_no_sound_are_refused(tmp_path):
    extractor = WhisperFeatureExtractor()
    (tmp_path / "text.flac").write_text("not a sound")
    (tmp_path / "empty.wav").write_bytes(b"")
    for sound, message in [
        (tmp_path / "text.flac", "text.flac: damaged, or no file of sound"),
        (tmp_path / "empty.wav", "empty.wav: the file is empty"),
        (tmp_path / "none.wav", "none.wav: there is no such file"),
        (np.zeros((2, 3, 4)), "one channel of numbers"),
        ({"sampling_rate": 16000}, "must have an array"),
        ({"array": np.zeros(10), "sampling_rate": 0}, "sampling_rate must be an integer"),
        (np.array([0.0, np.nan]), "sample 1 is not a finite number"),
        ([], "the batch is empty"),
        (3, "must be a file of sound, or an array"),
    ]:
        with pytest.raises((InputError, DataError), match=message):
            extractor(sound)
    with pytest.raises(TypeError, match="did you mean 'sampling_rate'"):
        extractor(np.zeros(10), sampling_rat=1)


def test_a_processor_joins_both_parts_as_transformers_does(tmp_path):
    from glassformer.text.bpe.bpe import SYMBOLS

    tokenizer = WhisperTokenizer(vocab={symbol: number for number, symbol in enumerate(SYMBOLS)}, merges=[])
    ours = WhisperProcessor(WhisperFeatureExtractor(), tokenizer)
    ours.save_pretrained(tmp_path)
    theirs = transformers.WhisperProcessor.from_pretrained(tmp_path)
    for given in ({"audio": chirp(1.0), "sampling_rate": RATE}, {"text": "hi"}):
        a, b = ours(**given, return_tensors="np"), theirs(**given, return_tensors="np")
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_allclose(a[name], b[name], atol=1e-5)
    both = {"audio": chirp(1.0), "text": "hi", "sampling_rate": RATE}
    assert list(ours(**both)) == list(theirs(**both)) == ["input_features", "labels"]
    assert ours(**both)["labels"] == theirs(**both)["labels"]
    theirs.save_pretrained(tmp_path / "theirs")
    again = AutoProcessor.from_pretrained(tmp_path / "theirs", language="en")
    assert again.tokenizer.get_vocab() == tokenizer.get_vocab() and again.tokenizer.language == "en"
    assert repr(AutoFeatureExtractor.from_pretrained(tmp_path)) == repr(ours.feature_extractor)
    with pytest.raises(InputError, match="give audio, text, or both"):
        ours()
