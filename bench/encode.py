"""How fast BERT and its family encode texts of natural length, beside transformers, onnxruntime and ctranslate2.

    python bench/encode.py [--models bert deberta-v2] [--shapes 6x384 12x768] [--rounds 3] [--batches 12] [--threads 2]
        [--engines "glassformer int8" "openvino static int8" ...] [--sorted] [--cpu] [--before CHECKOUT] [--json FILE]

All engines hold the same random weights and get the same batches of 32 in arrival order (log-normal lengths, mean about
36 tokens, at most 128), or sorted by length, which leaves hardly any padding. The differences of an engine are those
from our float32. Rounds alternate between engines, each in a process of its own with so many
threads; a result is the median over rounds, and a ratio is the median of the ratios inside each round, so that noise
affects all engines alike. Memory and the time to the first embedding are measured in fresh processes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import encoder_engines as engines
import numpy as np
from workers import BEFORE, Worker

# What the published models of an architecture set, where it changes how they compute.
DISENTANGLED = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
PUBLISHED = {
    "albert": {"embedding_size": 128},
    "deberta": DISENTANGLED,
    "deberta-v2": {**DISENTANGLED, "position_buckets": 256, "share_att_key": True, "norm_rel_ebd": "layer_norm"},
}


def natural_batches(
    count: int, size: int = 32, seed: int = 0, by_length: bool = False
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Padded ids and masks of texts whose lengths are log-normal, in arrival order or by length.

    A standard deviation of 0.6 is what real texts show: the sentences of wikitext-2 have it, and it is the mean over
    news, reviews, premises, plays and Chinese CVs (0.33 to 0.81). Twelve batches bring the padding near its mean.
    """
    random = np.random.default_rng(seed)
    batches = []
    drawn = np.clip(np.exp(random.normal(np.log(30), 0.6, (count, size))).round(), 4, 128).astype(int)
    for lengths in np.sort(drawn, axis=None).reshape(count, size) if by_length else drawn:
        mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)
        batches.append((random.integers(1000, 30000, mask.shape) * mask, mask))
    return batches


def write_model(folder: Path, model: str, layers: int, width: int) -> None:
    import torch

    from glassformer import AutoConfig, AutoModel

    torch.manual_seed(0)
    shape = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": 4 * width,
    }
    config = AutoConfig.for_model(model, vocab_size=30522, **shape, **PUBLISHED.get(model, {}))
    AutoModel.from_config(config).save_pretrained(folder)


def measure(
    folder: Path,
    names: list[str],
    batches: int,
    rounds: int,
    threads: int,
    before: Path | None,
    cpu: bool,
    by_length: bool = False,
) -> dict[str, dict[str, float]]:
    """Tokens per second of each engine, and how far its numbers are from ours."""
    test_batches = natural_batches(batches, by_length=by_length)
    real = sum(int(mask.sum()) for _, mask in test_batches)
    workers = {
        name: Worker(
            engines.load, name, folder, threads, threads=threads, checkout=before if name == BEFORE else None, cpu=cpu
        )
        for name in names
    }
    ids, mask = test_batches[0]
    real_positions = mask.astype(bool)
    ours = workers["glassformer"](ids, mask)[1][real_positions]
    apart = {name: np.abs(encode(ids, mask)[1][real_positions] - ours) for name, encode in workers.items()}

    speeds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(0.3)  # let the threads of the previous engine go to sleep
            workers[name](*test_batches[0])
            speeds[name].append(real / sum(workers[name](*batch)[0] for batch in test_batches))
    for worker in workers.values():
        worker.close()
    return {
        name: {
            "tokens_per_second": statistics.median(speeds[name]),
            **{
                f"against_{other}": statistics.median(a / b for a, b in zip(speeds[name], speeds[other], strict=True))
                for other in ("transformers", "glassformer", BEFORE)
                if other in speeds
            },
            "away_from_ours": float(apart[name].max()),
            "mean_away": float(apart[name].mean()),
        }
        for name in names
    }


def probe(name: str, folder: Path, threads: int, before: Path | None) -> dict[str, float]:
    """Peak memory and seconds from process start to the first embedding, in a fresh process."""
    command = [sys.executable, __file__, "--probe", name, "--folder", str(folder), "--threads", str(threads)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    if name == BEFORE:
        environment["PYTHONPATH"] = str(before)
    results = []
    for _ in range(3):
        start = time.time()
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        report = json.loads(run.stdout.splitlines()[-1])
        results.append({"seconds_to_first": report["done"] - start, "peak_mib": report["peak_mib"]})
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def run_probe(name: str, folder: Path, threads: int) -> None:
    encode = engines.load(name, folder, threads)
    ids = np.array([[101, 7592, 2088, 102]])
    encode(ids, np.ones_like(ids))
    done = time.time()
    for batch in natural_batches(3):
        encode(*batch)
    status = Path("/proc/self/status").read_text()  # ru_maxrss would include the parent's peak
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"done": done, "peak_mib": peak / 1024}))


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}")
    print(
        f"{'engine':22}{'tokens/s':>10}{'x before':>10}{'x transformers':>16}{'x onnxruntime':>15}"
        f"{'first, s':>10}{'peak, MiB':>11}{'largest':>10}{'mean away':>11}"
    )
    onnx = rows.get("onnxruntime", {}).get("tokens_per_second")
    for name, row in rows.items():
        against = f"{row['tokens_per_second'] / onnx:.2f}" if onnx else "-"
        before = f"{row['against_before']:.2f}" if "against_before" in row else "-"
        print(
            f"{name:22}{row['tokens_per_second']:10.0f}{before:>10}{row['against_transformers']:16.2f}{against:>15}"
            f"{row.get('seconds_to_first', 0):10.2f}{row.get('peak_mib', 0):11.0f}"
            f"{row['away_from_ours']:10.1e}{row['mean_away']:11.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--models", nargs="+", default=["bert"], help="architectures; the engines for BERT alone are left out of others"
    )
    parser.add_argument("--shapes", nargs="+", default=["6x384", "12x768"], help="layers x width")
    parser.add_argument(
        "--engines", nargs="+", default=list(engines.NAMES), choices=(*engines.NAMES, *engines.FEWER_BITS)
    )
    parser.add_argument("--sorted", action="store_true", help="batches by length, with hardly any padding")
    parser.add_argument("--without-probes", action="store_true", help="leave out memory and the time to the first text")
    parser.add_argument("--folder-of-models", type=Path, help="where to keep the models and what engines make of them")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu", action="store_true", help="count the processor's time, not the clock's: for a busy machine"
    )
    parser.add_argument("--before", type=Path, help="a checkout of an earlier commit, measured as one more engine")
    parser.add_argument("--json", type=Path, default=Path("bench/results/encode.json"))
    parser.add_argument("--probe", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe:
        run_probe(arguments.probe, arguments.folder, arguments.threads)
        return

    os.environ["HF_HUB_OFFLINE"] = "1"
    padding = [mask for _, mask in natural_batches(arguments.batches, by_length=arguments.sorted)]
    tokens, positions = sum(int(m.sum()) for m in padding), sum(m.size for m in padding)
    order = "by length" if arguments.sorted else "in arrival order"
    print(f"{arguments.batches} batches of 32 {order}, {arguments.threads} threads, {engines.processor_features()}")
    print(f"{tokens} tokens in {positions} positions: {positions / tokens:.2f} times as many with padding")
    results = {}
    for model, shape in itertools.product(arguments.models, arguments.shapes):
        layers, width = map(int, shape.split("x"))
        names = ["glassformer", *([BEFORE] if arguments.before else []), "transformers"]
        if model == "bert":
            names += [name for name in arguments.engines if name not in names]
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary if arguments.folder_of_models is None else arguments.folder_of_models) / shape
            if not folder.exists():
                write_model(folder, model, layers, width)
            given = (arguments.batches, arguments.rounds, arguments.threads, arguments.before, arguments.cpu)
            rows = measure(folder, names, *given, by_length=arguments.sorted)
            for name in () if arguments.without_probes else names:
                rows[name] |= probe(name, folder, arguments.threads, arguments.before)
        show(f"{model}, {layers} layers x {width}", rows)
        results[f"{model} {shape}"] = rows
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
