"""What long texts cost: Longformer, BigBird and Performer beside full attention and beside transformers.

    python bench/long.py [--lengths 1024 2048 4096 8192 16384] [--compared 4096] [--json FILE]

A body of 6 layers x 384 with 6 heads and random weights reads one text: forward without gradients, and a step of
training (forward, backward, Adam). Longformer has a window of 512, BigBird blocks of 64 and three random ones, the
Performer 266 features; there is no dropout. Times are processor time with one thread, the smallest of three calls; the
exponent is the slope of log(time) over log(length). Memory is the peak above what the process held with the model
loaded. Every engine has processes of its own, for memory one for each length. "full" computes every weight with the
fused kernel, which keeps none, "full, explicit" with the written-out formula, forward alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SHAPE = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6, "intermediate_size": 1536}
SHAPE |= {"vocab_size": 1000, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "pad_token_id": 0}
LONGEST = 16384
OURS = ("Longformer", "BigBird", "Performer", "full", "full, explicit")
THEIRS = ("Longformer", "BigBird", "full", "full, explicit")
LINEAR = ("Longformer", "BigBird", "Performer")
MODES = ("forward", "training step")


def fields_of(kind: str) -> dict:
    """The fields of a config beside the shape."""
    own = {
        "Longformer": {"attention_window": 512},
        "BigBird": {"block_size": 64, "num_random_blocks": 3},
        "Performer": {"attention": "performer", "feature_redraw_interval": None},
    }
    return {**SHAPE, "max_position_embeddings": LONGEST + 2, **own.get(kind, {})}


def load(library: str, kind: str):
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    if library == "glassformer":
        import glassformer as package
    else:
        import transformers as package
    name = kind if kind in ("Longformer", "BigBird") else "Bert"
    config = getattr(package, f"{name}Config")(**fields_of(kind))
    if library == "transformers":
        kernel = "eager" if kind not in ("full",) else "sdpa"
        if name == "Bert":
            config._attn_implementation = kernel
    return getattr(package, f"{name}Model")(config)


def call(library: str, kind: str, mode: str) -> Callable[[int], None]:
    """One call on a text of so many tokens."""
    import torch

    model = load(library, kind)
    weights = {"output_attentions": True} if (library, kind) == ("glassformer", "full, explicit") else {}

    def read(length: int):
        ids = torch.randint(1, SHAPE["vocab_size"], (1, length), generator=torch.Generator().manual_seed(0))
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), **weights).last_hidden_state

    if mode == "forward":
        model.eval()

        def forward(length: int) -> None:
            with torch.no_grad():
                read(length)

        return forward
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def step(length: int) -> None:
        read(length).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def status(name: str) -> float:
    """A field of this process's memory, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def seconds(library: str, kind: str, mode: str, lengths: list[int], rounds: int) -> dict[int, float]:
    run = call(library, kind, mode)
    run(min(lengths))
    times: dict[int, float] = {}
    for length in lengths:
        for _ in range(rounds):
            start = time.process_time()
            run(length)
            times[length] = min(times.get(length, math.inf), time.process_time() - start)
    return times


def mebibytes(library: str, kind: str, mode: str, length: int) -> float:
    run = call(library, kind, mode)
    run(64 if kind.startswith("full") or kind == "Performer" else 1024)  # the optimizer has its state then
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = status("VmRSS")
    run(length)
    return status("VmHWM") - before


def in_a_process(*task) -> dict:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, __file__, "--one", json.dumps(task)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        return {"failed": run.stderr.strip().splitlines()[-1][:200]}
    return json.loads(run.stdout.splitlines()[-1])


def slope(times: dict[str, float]) -> float:
    """The exponent of the cost: least squares over the logarithms."""
    points = [(math.log(int(length)), math.log(each)) for length, each in times.items()]
    x, y = (sum(values) / len(points) for values in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 2048, 4096, 8192, 16384])
    parser.add_argument("--compared", type=int, default=4096, help="the length at which all engines are compared")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", nargs="+", default=list(MODES), choices=MODES)
    parser.add_argument("--only", choices=("growth", "comparison"))
    parser.add_argument("--json", type=Path, default=Path("bench/results/long.json"))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        what, *rest = json.loads(arguments.one)
        print(json.dumps({"seconds": seconds, "mebibytes": mebibytes}[what](*rest)))
        return
    results: dict = {}
    if arguments.only != "comparison":
        results["growth"] = growth(arguments)
    if arguments.only != "growth":
        results["comparison"] = comparison(arguments)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {arguments.json}")


def growth(arguments: argparse.Namespace) -> dict:
    """Seconds of our long models at every length."""
    found: dict = {}
    for mode in arguments.modes:
        shown = "".join(f"{length:>9,}" for length in arguments.lengths)
        print(f"\n{mode + ', seconds':30}{shown}  exponent")
        for kind in LINEAR:
            times = in_a_process("seconds", "glassformer", kind, mode, arguments.lengths, arguments.rounds)
            found[f"{mode}: {kind}"] = times
            if "failed" in times:
                print(f"{kind:30}{times['failed']}")
                continue
            row = "".join(f"{times[str(length)]:9.3f}" for length in arguments.lengths)
            print(f"{kind:30}{row}{slope(times):10.2f}", flush=True)
    return found


def comparison(arguments: argparse.Namespace) -> dict:
    """Seconds and memory of every engine at one length."""
    found: dict = {}
    length = arguments.compared
    for mode in arguments.modes:
        print(f"\n{mode}, {length:,} tokens{'seconds':>24}{'MiB':>9}")
        for library, kinds in (("glassformer", OURS), ("transformers", THEIRS)):
            for kind in kinds:
                if (kind, mode) == ("full, explicit", "training step"):
                    continue  # more memory than many machines have
                times = in_a_process("seconds", library, kind, mode, [length], arguments.rounds)
                memory = in_a_process("mebibytes", library, kind, mode, length)
                row = {"seconds": times.get(str(length), times), "mib": memory}
                found[f"{mode}: {library} {kind}"] = row
                name = f"{library} {kind}"
                if isinstance(memory, dict) or isinstance(row["seconds"], dict):
                    print(f"{name:36}{row}")
                else:
                    print(f"{name:36}{row['seconds']:12.3f}{memory:9.0f}", flush=True)
    return found


if __name__ == "__main__":
    main()
