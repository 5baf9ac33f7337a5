"""The speed of transcription with Whisper, compared with transformers, faster-whisper and openai-whisper.

    python bench/transcribe.py tiny.en.pt VOCABULARY FILE... [--rounds 3] [--engines ...] [--beams 1 5] [--json FILE]

The model is one of OpenAI's files, VOCABULARY GPT-2's folder or a .tiktoken file. Every engine gets the same samples,
writes times too, and does not try again at a higher temperature; 2 threads. Rounds alternate between engines, each in
a process of its own. A figure is the median over rounds of seconds of sound per second of work, a ratio the median of
the ratios inside each round; texts are compared word by word with ours of the same search.

faster-whisper and openai-whisper are not in the extra `bench`, because they pin other packages; without them their
rows are left out: pip install --no-deps faster-whisper openai-whisper tiktoken numba llvmlite more-itertools av
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import speech_engines
from speech_engines import FASTER, HUGGING_FACE, INT8, NAMES, ORIGINAL, OURS, RATE
from workers import Worker

THREADS = 2
MODULES = {FASTER: "faster_whisper", ORIGINAL: "whisper", HUGGING_FACE: "transformers"}


def words(text: str) -> list[str]:
    return "".join(char.lower() if char.isalnum() else " " for char in text).split()


def equality(text: str, ours: str) -> float:
    """The share of words that two texts have in common, in order."""
    return difflib.SequenceMatcher(None, words(text), words(ours), autojunk=False).ratio()


def measure(workers: dict[str, Worker], samples: list[np.ndarray], beams: int, rounds: int) -> dict[str, dict]:
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    texts: dict[str, list[str]] = {}
    sound = sum(map(len, samples)) / RATE
    for turn in range(rounds):
        names = list(workers)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(0.3)  # until the threads of the previous engine are idle
            taken, texts[name] = workers[name](samples, beams)
            seconds[name].append(taken)
    rows = {}
    for name, times in seconds.items():
        ours = OURS + INT8 if name.endswith(INT8) and OURS + INT8 in texts else OURS
        rows[name] = {
            "real_time_factor": sound / statistics.median(times),
            **{
                f"against_{other}": statistics.median(b / a for a, b in zip(times, seconds[other], strict=True))
                for other in (HUGGING_FACE, FASTER, FASTER + INT8)
                if other in seconds
            },
            "same_words": equality(" ".join(texts[name]), " ".join(texts[ours])),
        }
    return rows


def worker(name: str, checkpoint: str, folder: str):
    """In a process of its own: an engine, warmed up."""
    transcribe = speech_engines.load(name, Path(checkpoint), Path(folder), THREADS)
    transcribe(np.zeros(RATE, np.float32), 1)

    return lambda samples, beams: [transcribe(each, beams) for each in samples]


def show(title: str, rows: dict[str, dict]) -> None:
    print(f"\n{title}")
    columns = list(dict.fromkeys(key for row in rows.values() for key in row))
    print(f"{'':20}" + "".join(f"{key.replace('against_', 'x '):>24}" for key in columns))
    for name, row in rows.items():
        print(f"{name:20}" + "".join(f"{row.get(key, float('nan')):24.2f}" for key in columns), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("vocabulary", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    from glassformer import WhisperFeatureExtractor

    extractor = WhisperFeatureExtractor()
    samples = [extractor.waveform(file) for file in arguments.files]
    known = [name for name in arguments.engines if is_installed(name)]
    os.environ.update({"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"})
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        speech_engines.convert(arguments.checkpoint, arguments.vocabulary, folder)
        workers = {
            name: Worker(worker, name, str(arguments.checkpoint), str(folder), threads=THREADS) for name in known
        }
        report = {}
        for beams in arguments.beams:
            title = f"{sum(map(len, samples)) / RATE:.1f} s of sound, " + ("greedy" if beams == 1 else f"{beams} beams")
            report[title] = measure(workers, samples, beams, arguments.rounds)
            show(title, report[title])
        for each in workers.values():
            each.close()
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2))


def is_installed(name: str) -> bool:
    module = MODULES.get(name.removesuffix(INT8))
    return module is None or importlib.util.find_spec(module) is not None


if __name__ == "__main__":
    main()
