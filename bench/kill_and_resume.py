"""kill -9 at 100 random moments of one training run: does it always resume, and end with the same weights?

    python bench/kill_and_resume.py [--kills 100] [--seed 0]

A tiny classifier is trained twice: once without interruption, once killed repeatedly, in steps,
evaluations and saves.
After every kill each checkpoint that is there is read in full. At the end the weights, the optimizer's averages and the
log of both runs are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

import glassformer
from glassformer import BertConfig, BertForSequenceClassification, BertTokenizer, TextClassification, TrainSettings
from glassformer.train import checkpoint
from glassformer.train.reporting.run_log import LOG, read_log
from glassformer.train.trainer import Trainer

WORDS = "the a cat dog film park music city good bad fine dull saw liked left found was is in of".split()
STEPS = 400


def rows(count: int = 64) -> list[dict]:
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(2, 12))) for _ in range(count)]
    return [{"text": text, "label": int("good" in text or "fine" in text)} for text in texts]


def trainer(folder: Path) -> Trainer:
    """A run with dropout, accumulation, evaluation and a save after every second step."""
    torch.manual_seed(0)
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=32, **shape)
    task = TextClassification(
        BertForSequenceClassification(config), BertTokenizer(vocab=vocabulary, model_max_length=32)
    )
    settings = TrainSettings(
        output_dir=str(folder),
        max_steps=STEPS,
        tokens_per_batch=64,
        gradient_accumulation_steps=2,
        learning_rate=1e-3,
        save_steps=2,
        eval_steps=20,
        logging_steps=5,
        report=False,
    )
    return Trainer(task, rows(), rows(16), settings)


def train_until_killed(folder: Path) -> None:
    """Train in a child process."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        trainer(folder).train(resume=True)
    finally:
        os._exit(0)


def train_and_kill(folder: Path, after: float) -> None:
    child = os.fork()
    if child == 0:
        train_until_killed(folder)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def read_checkpoints(folder: Path) -> int:
    """Load every checkpoint; returns the step of the newest."""
    checkpoints = checkpoint.checkpoints_in(folder)
    for path in checkpoints.values():
        checkpoint.read_checkpoint(path)
        glassformer.AutoModelForSequenceClassification.from_pretrained(path)
    return max(checkpoints, default=0)


def differing_tensors(one: Trainer, other: Trainer) -> list[str]:
    mine, theirs = checkpoint.optimizer_tensors(one.optimizer), checkpoint.optimizer_tensors(other.optimizer)
    return checkpoint.differing_weights(one.model, other.model) + [
        name for name in mine if not torch.equal(mine[name], theirs[name])
    ]


def losses(folder: Path) -> list[tuple[int, float]]:
    return [(line["step"], line["loss"]) for line in read_log(folder / LOG) if "loss" in line]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rng = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        uninterrupted = trainer(folder / "uninterrupted")
        uninterrupted.train()
        steps, in_saves = [], 0
        for _ in range(arguments.kills):
            train_and_kill(folder / "killed", rng.uniform(0.05, 1.0))
            in_saves += any("tmp" in path.name for path in (folder / "killed").glob(".*"))
            steps.append(read_checkpoints(folder / "killed"))
        last = trainer(folder / "killed")
        last.train(resume=True)
        found = {
            "kills": arguments.kills,
            "of them during a save": in_saves,
            "checkpoints that could not be read": 0,  # it would raise
            "steps after each kill, first and last": [steps[0], steps[-1]],
            "largest number of steps lost": max(a - b for a, b in zip([0, *steps], steps, strict=False)),
            "tensors compared": len(uninterrupted.model.state_dict())
            + len(checkpoint.optimizer_tensors(uninterrupted.optimizer)),
            "tensors that differ": len(differing_tensors(uninterrupted, last)),
            "logged losses are equal": losses(folder / "uninterrupted") == losses(folder / "killed"),
            "leftovers": [path.name for path in (folder / "killed").glob(".*")],
        }
    print(json.dumps(found, indent=2))
    return int(bool(found["tensors that differ"] or found["leftovers"] or not found["logged losses are equal"]))


if __name__ == "__main__":
    sys.exit(main())
