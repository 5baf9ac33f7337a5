"""kill -9 at 100 random moments of one training run: does it always go on, and end with the same weights?

    python bench/kills.py [--kills 100] [--seed 0]

A tiny classifier is trained twice: once left alone, once killed again and again, in steps, in evaluations and in saves.
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
    draw = random.Random(1)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(2, 12))) for _ in range(count)]
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
    how = TrainSettings(
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
    return Trainer(task, rows(), rows(16), how)


def live(folder: Path) -> None:
    """A process of its own that trains until it is killed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    try:
        trainer(folder).train(resume=True)
    finally:
        os._exit(0)


def kill_one(folder: Path, after: float) -> None:
    child = os.fork()
    if child == 0:
        live(folder)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def read_everything(folder: Path) -> int:
    """Load every checkpoint as it would be loaded; the step of the newest."""
    found = checkpoint.checkpoints_in(folder)
    for path in found.values():
        checkpoint.read_checkpoint(path)
        glassformer.AutoModelForSequenceClassification.from_pretrained(path)
    return max(found, default=0)


def differing(one: Trainer, other: Trainer) -> list[str]:
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
    asked = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = trainer(folder / "whole")
        whole.train()
        steps, in_saves = [], 0
        for _ in range(asked.kills):
            kill_one(folder / "killed", draw.uniform(0.05, 1.0))
            in_saves += any("tmp" in path.name for path in (folder / "killed").glob(".*"))
            steps.append(read_everything(folder / "killed"))
        last = trainer(folder / "killed")
        last.train(resume=True)
        found = {
            "kills": asked.kills,
            "of them while a checkpoint was being written": in_saves,
            "checkpoints that could not be read": 0,  # one would have ended this script
            "steps that were done after each kill, first and last": [steps[0], steps[-1]],
            "never back by more than": max(a - b for a, b in zip([0, *steps], steps, strict=False)),
            "tensors compared": len(whole.model.state_dict()) + len(checkpoint.optimizer_tensors(whole.optimizer)),
            "tensors that differ": len(differing(whole, last)),
            "logged losses are equal": losses(folder / "whole") == losses(folder / "killed"),
            "leftovers": [path.name for path in (folder / "killed").glob(".*")],
        }
    print(json.dumps(found, indent=2))
    return int(bool(found["tensors that differ"] or found["leftovers"] or not found["logged losses are equal"]))


if __name__ == "__main__":
    sys.exit(main())
