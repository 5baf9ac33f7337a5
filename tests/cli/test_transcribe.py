"""`glass transcribe`: texts and subtitles from files of sound, by a model that is not trained."""

from __future__ import annotations

import json

import numpy as np
import pytest

from glassformer.cli.main import main

from ..audio.test_features import wav_bytes
from ..tasks.speech.tiny_whisper import save_tiny_whisper


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_tiny_whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture
def sounds(tmp_path):
    """Two files: three seconds and one."""
    draw, paths = np.random.default_rng(0), []
    for name, seconds in (("long", 3), ("short", 1)):
        noise = (draw.normal(size=16000 * seconds) * 8000).clip(-32000, 32000).astype(np.int64)
        paths.append(tmp_path / f"{name}.wav")
        paths[-1].write_bytes(wav_bytes(noise, 2))
    return paths


OPTIONS = ["--temperature", "0", "--no-speech-threshold", "None", "--logprob-threshold", "None"]


def run(capsys, *arguments) -> tuple[int, str, str]:
    code = main(["transcribe", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_formats_say_the_same(folder, sounds, capsys, tmp_path):
    said = {}
    for kind in ("txt", "srt", "vtt", "json"):
        code, said[kind], _ = run(capsys, folder, sounds[0], "--format", kind, *OPTIONS)
        assert code == 0
    known = json.loads(said["json"])
    assert known["duration"] == 3 and known["language"] in ("en", "de") and 0 < known["language_probability"] <= 1
    spoken = [each for each in known["segments"] if each["text"]]
    assert spoken and known["segments"][-1]["seek"] > 0  # the second window
    assert [each["id"] for each in known["segments"]] == list(range(len(known["segments"])))
    assert said["txt"].splitlines()[0].strip() == spoken[0]["text"].strip().splitlines()[0].strip()
    assert said["srt"].count("-->") == said["vtt"].count("-->") == len(spoken)
    assert said["vtt"].startswith("WEBVTT\n\n00:0") and said["srt"].startswith("1\n00:00:0")
    code, out, _ = run(capsys, folder, *sounds, "--format", "srt", "-o", tmp_path / "out", *OPTIONS)
    assert code == 0 and not out
    assert (tmp_path / "out" / "long.srt").read_text() == said["srt"]
    assert (tmp_path / "out" / "short.srt").is_file()


def test_options_reach_the_model(folder, sounds, capsys):
    settings = [folder, sounds[1], "--format", "json", *OPTIONS]
    german = json.loads(run(capsys, *settings, "--language", "german", "--task", "translate")[1])
    assert german["language"] == "de" and "language_probability" not in german
    timed = json.loads(run(capsys, *settings, "--words", "--beam-size", "2", "--initial-prompt", "abc", "--int8")[1])
    words = [word for segment in timed["segments"] for word in segment["words"]]
    assert all(0 <= word["start"] <= word["end"] for word in words)
    assert all({*word} == {"word", "start", "end", "probability"} for word in words)


def test_errors_name_the_file_and_come_before_the_model(folder, sounds, capsys, tmp_path):
    (tmp_path / "text.wav").write_text("no sound")
    for arguments, message in (
        (["none", tmp_path / "none.wav"], "none.wav: there is no such file"),
        (["none", tmp_path], "a folder, not a file of sound"),
        (["none", sounds[0], tmp_path / "a" / "long.wav"], "there is no such file"),
        ([folder, tmp_path / "text.wav"], "text.wav: damaged, or no file of sound"),
        ([folder, sounds[0], "--language", "klingon"], "Whisper knows no language 'klingon'"),
        ([folder, sounds[0], "--patience", "2"], "patience"),
    ):
        code, out, error = run(capsys, *arguments)
        assert code and not out and message in error, error
        assert len(error.strip().splitlines()) == 1
    code, out, error = run(capsys, folder, tmp_path / "text.wav", sounds[1], *OPTIONS)
    assert code == 1 and "text.wav: damaged" in error and f"==> {sounds[1]} <==" in out
