"""What the memory techniques of the tutorials cost and save: gradient checkpointing, accumulation, chunks, bfloat16.

    python bench/memory.py [--rounds 2] [--steps 4] [--tokens 2048] [--json FILE]

A BERT of 6 layers x 256 with a new classifier and no dropout, texts of 128 tokens, batches of so many tokens; every
technique starts from the same weights and reads as many tokens in an update; with accumulation they are those of other
rows, so that its first loss is another one. "train": updates by the
Trainer, the first of which does not count for the time. "read": the same tokens without gradients, four times. Every
figure is that of a process of its own, with one thread; rounds alternate. Times are ratios to the plain run of the same
round (the median over rounds); memory is the peak above what the process held with the model loaded (the smallest of
the rounds), in "train" with gradients and the state of the optimizer.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LENGTH = 128
WORDS = [f"w{i}" for i in range(2000)]
CASES = {  # how each differs: settings of training, fields of the model
    "plain": ({}, {}),
    "gradient checkpointing": ({"gradient_checkpointing": True}, {}),
    "accumulation of 4": ({"gradient_accumulation_steps": 4}, {}),
    "feed-forward in chunks of 32": ({}, {"chunk_size_feed_forward": 32}),
    "bfloat16": ({"precision": "bf16"}, {}),
    "checkpointing and accumulation": ({"gradient_checkpointing": True, "gradient_accumulation_steps": 4}, {}),
}
READ = ("plain", "feed-forward in chunks of 32", "bfloat16")


def status(name: str) -> float:
    """A field of this process's memory, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def make_task(fields: dict):
    import torch

    from glassformer import BertConfig, BertForSequenceClassification, BertTokenizer, TextClassification

    vocab = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    torch.manual_seed(0)
    shape = {"hidden_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 1024}
    shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = BertForSequenceClassification(BertConfig(vocab_size=len(vocab), **shape, **fields))
    return TextClassification(model, BertTokenizer(vocab=vocab, model_max_length=512))


def make_rows(count: int) -> list[dict]:
    rng = random.Random(0)
    return [{"text": " ".join(rng.choices(WORDS, k=LENGTH - 2)), "label": rng.randrange(2)} for _ in range(count)]


def train(case: str, steps: int, tokens: int) -> dict[str, float]:
    from glassformer import Trainer, TrainSettings

    settings, fields = CASES[case]
    parts = settings.get("gradient_accumulation_steps", 1)

    class Timed(Trainer):
        def record_step(self, result):
            ends.append(time.perf_counter())
            losses.append(result.loss)
            super().record_step(result)

    ends, losses = [], []
    task, rows = make_task(fields), make_rows(steps * tokens // LENGTH)
    before = status("VmRSS")
    with tempfile.TemporaryDirectory() as output:
        chosen = TrainSettings(
            output_dir=output,
            max_steps=steps,
            tokens_per_batch=tokens // parts,
            save_steps=10**6,
            report=False,
            **settings,
        )
        Timed(task, rows, None, chosen).train()
    return {"seconds": ends[-1] - ends[0], "mib": status("VmHWM") - before, "loss": float(losses[0])}


def read(case: str, tokens: int) -> dict[str, float]:
    import torch

    task = make_task(CASES[case][1])
    model = task.model.eval().to(torch.bfloat16 if case == "bfloat16" else torch.float32)
    ids = torch.randint(5, len(WORDS), (tokens // LENGTH, LENGTH), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model(ids[:1])
        before, start = status("VmRSS"), time.perf_counter()
        for _ in range(4):
            model(ids)
    return {"seconds": time.perf_counter() - start, "mib": status("VmHWM") - before}


def measure(mode: str, case: str, steps: int, tokens: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--one", mode, case, "--steps", str(steps), "--tokens", str(tokens)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise SystemExit(f"{mode}, {case} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.splitlines()[-1])


def compare(mode: str, cases: tuple[str, ...], rounds: int, steps: int, tokens: int) -> dict[str, dict[str, float]]:
    runs: dict[str, list[dict[str, float]]] = {case: [] for case in cases}
    for turn in range(rounds):
        for case in cases if turn % 2 == 0 else cases[::-1]:
            runs[case].append(measure(mode, case, steps, tokens))
    return {
        case: {
            "time": statistics.median(
                one["seconds"] / plain["seconds"] for one, plain in zip(found, runs["plain"], strict=True)
            ),
            "mib": min(one["mib"] for one in found),
            "loss": found[0].get("loss"),
        }
        for case, found in runs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--json", type=Path, default=Path("bench/results/memory.json"))
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        mode, case = arguments.one
        steps, tokens = arguments.steps, arguments.tokens
        print(json.dumps(train(case, steps, tokens) if mode == "train" else read(case, tokens)))
        return
    results = {}
    for mode, cases in (("train", tuple(CASES)), ("read", READ)):
        results[mode] = compare(mode, cases, arguments.rounds, arguments.steps, arguments.tokens)
        print(f"\n{mode:32}{'time, x plain':>14}{'MiB':>8}{'first loss':>12}")
        for case, row in results[mode].items():
            loss = "" if row["loss"] is None else f"{row['loss']:.4f}"
            print(f"{case:32}{row['time']:14.2f}{row['mib']:8.0f}{loss:>12}")
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
