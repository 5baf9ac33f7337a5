"""The speed of generation with GPT-2 and T5, compared with transformers and, for GPT-2, ctranslate2.

    python bench/generate.py [--rounds 3] [--engines ...] [--cases ...] [--before CHECKOUT] [--json FILE]

A GPT-2 of the smallest published size (124M) with random weights, greedy unless beams are named, 2 threads. A prompt
has 32 tokens and gets 64 new ones; "ragged" are eight prompts of 8 to 256 tokens in one batch; "64 new" to "1024 new"
show how the cost grows. The cases "T5 ..." have a T5 of the smallest published size (60M), which writes 64 tokens for
sources of 64, or of the lengths that are named. Rounds alternate between engines, each in a process of its own; a
figure is the median over rounds and a ratio the median of the ratios inside each round. The time to the first token and
the memory of a sequence are measured in fresh processes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import generation_engines
import numpy as np
from encoder_engines import processor_features
from workers import BEFORE, Worker

THREADS = 2
VOCABULARIES = {"gpt2": 50257, "t5": 32128}


class Workload(NamedTuple):
    """What one case generates."""

    lengths: list[int]  # of the prompts
    new: int
    beams: int = 1
    model: str = "gpt2"


CASES = {
    "batch 1": Workload([32], 64),
    "batch 8": Workload([32] * 8, 64),
    "beam 4": Workload([32], 64, beams=4),
    "ragged": Workload([8, 16, 32, 48, 64, 96, 160, 256], 64),
}
T5_CASES = {
    "T5 batch 1": Workload([64], 64, model="t5"),
    "T5 batch 8": Workload([64] * 8, 64, model="t5"),
    "T5 beam 4": Workload([64], 64, beams=4, model="t5"),
    "T5 ragged": Workload([8, 16, 32, 48, 64, 96, 160, 256], 64, model="t5"),
    "T5 source of 512": Workload([512], 64, model="t5"),
}
GROWTH = {
    "64 new": Workload([32], 64),
    "256 new": Workload([32], 256),
    "1024 new": Workload([1], 1023),
}  # the context ends at 1024


def random_prompts(work: Workload, seed: int = 0) -> list[list[int]]:
    random = np.random.default_rng(seed)
    words = VOCABULARIES[work.model]
    return [random.integers(1, words - 1, length).tolist() for length in work.lengths]


def save_models(folder: Path) -> None:
    import torch

    from glassformer import GPT2Config, GPT2LMHeadModel, T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    gpt2 = GPT2Config(bos_token_id=VOCABULARIES["gpt2"] - 1, eos_token_id=None)
    GPT2LMHeadModel(gpt2).save_pretrained(folder / "gpt2")
    T5ForConditionalGeneration(T5Config(eos_token_id=None)).save_pretrained(folder / "t5")


def measure(workers: dict[str, Worker], work: Workload, rounds: int) -> dict[str, dict[str, float]]:
    """Tokens per second of each engine, and the share of its tokens that equal ours."""
    prompts, names = random_prompts(work), list(workers)
    speeds: dict[str, list[float]] = {name: [] for name in names}
    texts = {}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(0.3)  # until the threads of the previous engine are idle
            seconds, texts[name] = workers[name](prompts, work.new, work.beams)
            speeds[name].append(sum(map(len, texts[name])) / seconds)
            assert [len(text) for text in texts[name]] == [work.new] * len(prompts), f"{name} generated too few tokens"
    ours = np.array(texts["glassformer"])
    return {
        name: {
            "tokens_per_second": statistics.median(speeds[name]),
            **{
                f"against_{other}": statistics.median(a / b for a, b in zip(speeds[name], speeds[other], strict=True))
                for other in (
                    BEFORE,
                    "transformers",
                    "ctranslate2",
                    "ctranslate2 int8",
                    "llama.cpp Q8_0",
                    "llama.cpp Q4_0",
                )
                if other in speeds
            },
            "same_tokens": float((np.array(texts[name]) == ours).mean()),
        }
        for name in names
    }


def measure_model(
    names: list[str], folder: Path, cases: dict[str, Workload], rounds: int, before: Path | None
) -> dict[str, dict[str, dict[str, float]]]:
    """The figures of each case of one model, whose engines are loaded for all of them."""
    results = {}
    workers = {
        name: Worker(
            generation_engines.load,
            name,
            folder,
            THREADS,
            threads=THREADS,
            checkout=before if name == BEFORE else None,
        )
        for name in names
    }
    for worker in workers.values():
        worker(random_prompts(next(iter(cases.values()))), 8, 1)
    for case, work in cases.items():
        able = {name: each for name, each in workers.items() if work.beams == 1 or "llama.cpp" not in name}
        results[case] = measure(able, work, 1 if work.new > 64 else rounds)
        show(case, results[case])
    for worker in workers.values():
        worker.close()
    return results


def probe(name: str, folder: Path, before: Path | None) -> dict[str, float]:
    """Seconds from the call, and from the start of the process, to the first token; memory that a sequence adds."""
    command = [sys.executable, __file__, "--probe", name, "--folder", str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS), "HF_HUB_OFFLINE": "1"}
    if name == BEFORE:
        environment["PYTHONPATH"] = str(before)
    start = time.time()
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    report = json.loads(run.stdout.splitlines()[-1])
    return {**report, "process_to_first_token": report.pop("at") - start}


def memory_mib(entry: str) -> float:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(entry)) / 1024


def run_probe(name: str, folder: Path) -> None:
    generate = generation_engines.load(name, folder, THREADS)
    generate(random_prompts(Workload([32], 1)), 1, 1)
    at = time.time()
    times = []
    for seed in range(5):
        start = time.perf_counter()
        generate(random_prompts(Workload([32], 1), seed), 1, 1)
        times.append(time.perf_counter() - start)
    generate(random_prompts(Workload([192] * 2, 64)), 64, 1)
    before = memory_mib("VmHWM")
    generate(random_prompts(Workload([192] * 18, 64)), 64, 1)
    print(
        json.dumps(
            {
                "at": at,
                "first_token": statistics.median(times),
                "mib_per_sequence": (memory_mib("VmHWM") - before) / 16,
                "peak_mib": memory_mib("VmHWM"),
            }
        )
    )


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    columns = {
        "tokens_per_second": "tokens/s",
        "against_before": "x before",
        "against_transformers": "x transformers",
        "against_ctranslate2": "x ctranslate2",
        "against_ctranslate2 int8": "x ctranslate2 int8",
        "against_llama.cpp Q8_0": "x Q8_0",
        "against_llama.cpp Q4_0": "x Q4_0",
        "same_tokens": "same tokens",
        "first_token": "first token, s",
        "process_to_first_token": "from start, s",
        "mib_per_sequence": "MiB/sequence of 256",
        "peak_mib": "peak, MiB",
    }
    used = [key for key in columns if any(key in row for row in rows.values())]
    print(f"\n{title}\n" + f"{'engine':18}" + "".join(f"{columns[key]:>{len(columns[key]) + 2}}" for key in used))
    for name, row in rows.items():
        cells = (f"{row[key]:.2f}" if key in row else "-" for key in used)
        widths = (len(columns[key]) + 2 for key in used)
        print(f"{name:18}" + "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--engines",
        nargs="+",
        default=list(generation_engines.NAMES),
        choices=(*generation_engines.NAMES, *generation_engines.FEWER_BITS),
    )
    parser.add_argument("--folder-of-models", type=Path, help="where to keep the models and what engines make of them")
    parser.add_argument(
        "--cases", nargs="+", default=[*CASES, *T5_CASES, *GROWTH], choices=[*CASES, *T5_CASES, *GROWTH, "none"]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit, measured as one more engine")
    parser.add_argument("--no-probe", action="store_true", help="leave out first token and memory")
    parser.add_argument("--json", type=Path, default=Path("bench/results/generate.json"))
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe:
        run_probe(arguments.probe, arguments.folder)
        return

    os.environ["HF_HUB_OFFLINE"] = "1"
    known = (*generation_engines.NAMES, *generation_engines.FEWER_BITS)
    names = [name for name in known if name in {*arguments.engines, "glassformer"}]
    print(f"{THREADS} threads, {processor_features()}")
    if arguments.before:
        names.insert(1, BEFORE)
    results: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder_of_models or Path(name)
        if not (folder / "gpt2/config.json").exists() or not (folder / "t5/config.json").exists():
            save_models(folder)
        if any(name.startswith("ctranslate2") for name in names) and not (folder / "gpt2/ctranslate2").exists():
            generation_engines.convert_to_ctranslate2(folder / "gpt2", folder / "gpt2/ctranslate2")
        for model, cases in {"gpt2": {**CASES, **GROWTH}, "t5": T5_CASES}.items():
            chosen = {case: work for case, work in cases.items() if case in arguments.cases}
            engines = [name for name in names if model == "gpt2" or name.split()[0] in generation_engines.READ_T5]
            if chosen:
                results |= measure_model(engines, folder / model, chosen, arguments.rounds, arguments.before)
        if not arguments.no_probe:
            results["first token and memory"] = {name: probe(name, folder / "gpt2", arguments.before) for name in names}
            show("first token and memory", results["first token and memory"])
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
