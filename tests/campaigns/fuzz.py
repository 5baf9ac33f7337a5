"""Coverage-guided fuzzing of our own parsers with atheris: each case is some seconds of one parser."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import resource
import subprocess
import sys
import unittest
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .case import Case
from .fuzz_targets import SEEDS

NAME = "fuzz"
FEW = 1  # cases in the test of all campaigns
SECONDS = int(os.environ.get("FUZZ_SECONDS", "20"))
LONGEST = 20  # seconds for one input
LIMITS = ("-max_len=800", f"-timeout={LONGEST}", "-rss_limit_mb=4000", "-print_final_stats=1")
ROOT = Path(__file__).resolve().parents[2]


def cases(rng: random.Random, folder: Path) -> Iterator[Case]:
    if importlib.util.find_spec("atheris") is None:
        raise unittest.SkipTest("fuzzing needs atheris: pip install atheris (Python 3.11 and before)")
    while True:
        for name in SEEDS:
            corpus = folder / name
            corpus.mkdir(exist_ok=True)
            seed = rng.randrange(1, 2**31)
            yield Case(f"{name}, {SECONDS} s with the seed {seed}", partial(fuzz, name, corpus, seed, SECONDS))


def fuzz(name: str, corpus: Path, seed: int, seconds: int) -> int:
    """Fuzz one parser; returns how many inputs were tried, and raises with the input that failed."""
    command = [sys.executable, "-m", "tests.campaigns.fuzz_targets", name, f"-max_total_time={seconds}", *LIMITS]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    failed = corpus.with_suffix(".failed")
    done = subprocess.run(
        [*command, f"-seed={seed}", f"-exact_artifact_path={failed}", str(corpus)],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    tried = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    if "libFuzzer: timeout" in done.stdout and is_quick(name, failed, environment):
        failed.unlink(missing_ok=True)
    elif done.returncode or tried is None:
        raw = failed.read_bytes() if failed.exists() else b""
        failed.unlink(missing_ok=True)
        reason = "\n".join(line for line in done.stdout.splitlines()[-40:] if "Error" in line)
        raise AssertionError(f"targets(folder)[{name!r}]({raw!r}): {reason or done.stdout[-300:]}")
    count = int(tried[1]) if tried else 0
    print(f"fuzz {name}: {count:,} inputs in {seconds} s", flush=True)
    return count


def is_quick(name: str, failed: Path, environment: dict[str, str]) -> bool:
    """Whether an input that took long takes little processor time: the machine was busy, or held the process."""
    if not failed.exists():
        return False
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    command = [sys.executable, "-m", "tests.campaigns.fuzz_targets", name, "-timeout=600", str(failed)]
    again = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    return not again.returncode and resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < LONGEST
