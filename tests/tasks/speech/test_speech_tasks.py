"""Speech recognition and the classification of sound, from pipelines to training; and the page of a transcription."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from glassformer import InputError, WhisperFeatureExtractor, pipeline
from glassformer.cli.main import main
from glassformer.explain.pages.speech_page import speech_page
from glassformer.tasks.speech.loading import load_transcriber
from glassformer.tasks.speech.segment_times import SegmentTimes
from glassformer.tasks.speech.transcription import TranscriptionSettings
from glassformer.tasks.speech.window_decoding import DecodedWindow
from glassformer.tasks.speech.word_times import WordTiming, join_punctuation, time_warping

from ...audio.test_features import RATE, wav_bytes
from .tiny_whisper import save_tiny_whisper


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_tiny_whisper(tmp_path_factory.mktemp("whisper"))


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.2, int(RATE * seconds)).clip(-1, 1).astype(np.float32)


def test_a_pipeline_takes_sound_in_every_form(folder, tmp_path):
    pipe = pipeline("automatic-speech-recognition", model=folder, language="en")
    samples = np.round(noise(1.0) * 32767) / 32768
    path = tmp_path / "sound.wav"
    path.write_bytes(wav_bytes((samples * 32768).astype(np.int64), 2))
    said = pipe(samples.astype(np.float32))
    assert list(said) == ["text"]
    forms = [str(path), path.read_bytes(), {"array": samples, "sampling_rate": RATE}, {"path": str(path)}]
    assert pipe(forms) == [said] * 4
    assert pipe(path) == pipe({"raw": samples, "sampling_rate": RATE}) == pipe(audio=str(path)) == said
    assert pipe.feature_extractor.chunk_length == 2 and pipe.tokenizer.language is None


def test_times_languages_and_long_recordings(folder):
    pipe = pipeline(model=folder, temperature=0.0, no_speech_threshold=None, logprob_threshold=None)
    assert pipe.task == "automatic-speech-recognition"
    timed = pipe(noise(5.0), return_timestamps=True)
    assert timed["language"] in ("en", "de") and timed["text"].startswith(timed["chunks"][0]["text"])
    ends = [end for chunk in timed["chunks"] for end in chunk["timestamp"]]
    assert ends == sorted(ends) and ends[-1] > 2  # beyond the first window
    assert len(pipe(noise(5.0), return_timestamps="word")["chunks"]) >= len(timed["chunks"])
    german = pipe(noise(5.0), language="de", translate=True, return_timestamps=True)
    told = {"language": "german", "task": "translate"}
    assert german == pipe(noise(5.0), generate_kwargs=told, return_timestamps=True) != timed
    assert "language" not in german
    for options, message in (
        ({"return_timestamps": "words"}, "return_timestamps must be"),
        ({"generate_kwargs": {"task": "write"}}, "task must be"),
        ({"temperature": -1}, "temperature must be one number from 0 to 10"),
        ({"language": "klingon"}, "knows no language"),
    ):
        with pytest.raises(InputError, match=message):
            pipe(noise(0.5), **options)
    with pytest.raises(TypeError, match="did you mean 'return_timestamps'"):
        pipe(noise(0.5), return_timestamp=True)


def test_what_is_written_before_stands_before_the_next_window(folder):
    transcriber = load_transcriber(folder)
    limits = {"no_speech_threshold": None, "logprob_threshold": None, "temperature": 0.0, "language": "en"}
    prompts = {}
    for conditioned in (True, False):
        recording = transcriber.open(noise(6.0), condition_on_previous_text=conditioned, initial_prompt="ab", **limits)
        prompts[conditioned] = []
        while recording.seek < recording.columns:
            prompts[conditioned].append(recording.prompt())
            recording.next_window()
    start = transcriber.tokenizer.convert_tokens_to_ids(["<|startofprev|>", "<|startoftranscript|>", "<|en|>"])
    assert prompts[True][0][:1] == start[:1] and start[1] in prompts[True][0]
    assert len(prompts[True][1]) > len(prompts[True][0])
    assert prompts[False][0] == prompts[True][0] and prompts[False][1][:2] == start[1:]


def window(avg_logprob: float, no_speech_prob: float = 0.0, text: str = "a few words") -> DecodedWindow:
    return DecodedWindow([1], text, 0.0, avg_logprob, no_speech_prob)


def test_thresholds_say_what_is_written_again_and_what_is_silence(folder):
    recording = load_transcriber(folder).open(noise(1.0), TranscriptionSettings(language="en"))
    for result, fails, silent in (
        (window(-0.5), False, False),
        (window(-1.5), True, False),
        (window(-1.5, 0.7), False, True),
        (window(-0.5, 0.7), False, False),
        (window(-0.5, text="la " * 40), True, False),
    ):
        assert (recording.fails(result), recording.is_silent(result)) == (fails, silent)


def test_segments_follow_from_times():
    """Times are ids from 100 on, in steps of 0.02 s; columns are 0.01 s."""
    times = SegmentTimes(0.02, 100)
    assert times.split([100, 1, 150, 150, 2, 200], 3000, 100) == (
        [(0.0, 1.0, [100, 1, 150]), (1.0, 2.0, [150, 2, 200])],
        3000,
        True,
    )
    pieces, moved, ends = times.split([100, 1, 150, 150, 2, 3], 3000, 100)
    assert (pieces, moved, ends) == ([(0.0, 1.0, [100, 1, 150])], 100, False)
    assert times.split([100, 1, 2], 1234, 100) == ([(0.0, 12.34, [100, 1, 2])], 1234, False)
    assert times.split([100, 1, 2, 150], 1234, 100)[0] == [(0.0, 1.0, [100, 1, 2, 150])]


def test_time_warping_is_the_cheapest_way():
    draw = np.random.default_rng(0)
    for shape in ((1, 1), (1, 5), (4, 1), (6, 9), (9, 6)):
        costs = draw.normal(size=shape)
        rows, columns = time_warping(costs)
        best = np.full((shape[0] + 1, shape[1] + 1), np.inf)
        best[0, 0] = 0
        for i in range(shape[0]):
            for j in range(shape[1]):
                best[i + 1, j + 1] = costs[i, j] + min(best[i, j], best[i, j + 1], best[i + 1, j])
        assert costs[rows, columns].sum() == pytest.approx(best[-1, -1], abs=1e-5)
        steps = set(zip(np.diff(rows).tolist(), np.diff(columns).tolist(), strict=True))
        assert steps <= {(0, 1), (1, 0), (1, 1)} and (rows[0], columns[0]) == (0, 0)


def test_signs_join_the_words_that_they_open_or_close():
    words = [
        WordTiming(word, [number], 0, 1, 1.0) for number, word in enumerate([" He", ",", " (", "she", ")", " ran", "."])
    ]
    join_punctuation(words)
    assert [word.word for word in words if word.word] == [" He,", " (she)", " ran."]
    assert [word.tokens for word in words if word.word] == [[0, 1], [2, 3, 4], [5, 6]]


def test_the_page_shows_each_window_and_runs_nothing(folder):
    transcriber = load_transcriber(folder)
    options = {"no_speech_threshold": None, "logprob_threshold": None, "temperature": 0.0, "word_timestamps": True}
    recording = transcriber.open(noise(4.0), language="en", **options)
    for _ in recording:
        pass
    page = speech_page(transcriber, recording, "<script>alert(1)</script>.wav")
    assert "default-src 'none'" in page and "script-src" not in page and "<script" not in page
    windows = {segment.seek for segment in recording.segments if segment.tokens}
    assert page.count("<section>") == len(windows) >= 2
    words = [word for segment in recording.segments for word in segment.words]
    assert page.count('<g class="word">') == len(words) > 0
    assert not re.search(r"(src|href)=\"(?!data:image/png)", page)


@pytest.fixture
def tones(tmp_path) -> Path:
    """A folder for each of two kinds of sound."""
    draw = np.random.default_rng(0)
    for name, frequency in (("high", 3000), ("low", 300)):
        (tmp_path / "tones" / name).mkdir(parents=True)
        for number in range(8):
            tone = 0.4 * np.sin(2 * np.pi * frequency * (1 + 0.1 * draw.random()) * np.arange(RATE // 2) / RATE)
            samples = (32000 * (tone + 0.02 * draw.normal(size=len(tone))).clip(-1, 1)).astype(np.int64)
            (tmp_path / "tones" / name / f"{number}.wav").write_bytes(wav_bytes(samples, 2))
    return tmp_path / "tones"


def test_sounds_are_classified_after_training_on_a_folder_per_class(tones, tmp_path, capsys):
    shape = ["hidden-size=16", "num-hidden-layers=1", "num-attention-heads=2", "max-source-positions=50"]
    shape += ["num-mel-bins=16", "intermediate-size=24", "classifier-proj-size=8"]
    recipe = ["--model=new:whisper", f"--data={tones}", "--learning-rate=1e-2", "--max-steps=30", "--seed=1"]
    recipe += [f"--config.{field}" for field in shape] + [f"--output-dir={tmp_path / 'run'}"]
    assert main(["train", "audio-classification", *recipe]) == 0
    assert main(["evaluate", "audio-classification", str(tmp_path / "run"), "--data", str(tones), "--json"]) == 0
    assert '"accuracy": 1.0' in capsys.readouterr().out
    pipe = pipeline(model=tmp_path / "run", top_k=1)
    assert pipe(str(tones / "low" / "0.wav"))[0]["label"] == "low"
    tone = 0.4 * np.sin(2 * np.pi * 3100 * np.arange(2 * RATE) / RATE)
    assert pipe({"array": tone, "sampling_rate": RATE})[0] == pytest.approx(
        {"label": "high", "score": 1, "truncated": True}, abs=0.5
    )
    with pytest.raises(InputError, match="audio-classification takes a feature_extractor, and no tokenizer"):
        pipeline(model=tmp_path / "run", tokenizer=str(tmp_path / "run"))
    with pytest.raises(InputError, match="spectrograms of 16 x 100, and the feature extractor makes them of 80 x 3000"):
        pipeline(model=tmp_path / "run", feature_extractor=WhisperFeatureExtractor())
