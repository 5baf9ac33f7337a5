"""A small ViT beside a small convolutional network on scikit-learn's digits: accuracy, parameters, speed.

python scripts/write_digits.py runs/digits-data
python bench/digits.py runs/digits-data --seeds 0 1 2

Both see the same batches, with the same cuts of each picture, for as many steps, at a learning rate of their own. The
ViT is that of recipes/digits.toml; its speed stands beside that of transformers with the same weights.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.readers import read_rows
from glassformer.tasks.batch import Batch
from glassformer.train.recipes.build_trainer import build_trainer
from glassformer.train.recipes.recipe import make_recipe
from glassformer.train.recipes.recipe_text import read_recipe
from glassformer.train.trainer import Trainer

RECIPE = Path(__file__).parents[1] / "recipes/digits.toml"
CNN_RATE = 4e-3
REPEATS = 30


def small_cnn() -> nn.Module:
    """Two convolutions and a hidden layer, of about half as many parameters as the ViT."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 16, 48),
        nn.ReLU(),
        nn.Linear(48, 10),
    )


def trainer_of(data: Path, seed: int, run: str, epochs: int | None) -> Trainer:
    values = read_recipe(RECIPE)
    values["data"] = {"train": str(data / "train"), "eval": str(data / "test")}
    values["train"] |= {"output_dir": run, "seed": seed, "device": "cpu", "eval_steps": 10**6, "save_total_limit": 1}
    if epochs is not None:
        values["train"]["num_train_epochs"] = epochs
    return build_trainer(make_recipe(values, RECIPE.name))


def train_cnn(model: nn.Module, trainer: Trainer) -> float:
    """Train on the batches that the ViT would see; the processor seconds."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=CNN_RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, CNN_RATE, total_steps=trainer.total, pct_start=0.1)
    started = time.process_time()
    for _, step in zip(range(trainer.total), trainer.batches, strict=False):
        for rows in step:
            batch = trainer.batches.collate(rows)
            optimizer.zero_grad()
            F.cross_entropy(model(batch.inputs["pixel_values"]), batch.labels["labels"]).backward()
            optimizer.step()
            schedule.step()
    return time.process_time() - started


def speed(model, pixels: Tensor) -> float:
    """Pictures in a second of one core, in batches of all."""
    times = []
    with torch.inference_mode():
        for _ in range(REPEATS):
            started = time.process_time()
            model(pixels)
            times.append(time.process_time() - started)
    return len(pixels) / statistics.median(times)


def share_right(logits: Tensor, batch: Batch) -> float:
    return float((logits.argmax(-1) == batch.labels["labels"]).float().mean())


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[tuple[float, float]]] = {"ViT": [], "CNN": []}
    for seed in chosen.seeds:
        with tempfile.TemporaryDirectory() as run:
            trainer = trainer_of(chosen.data, seed, run, chosen.epochs)
            task = trainer.task
            rows = [example for row in read_rows(chosen.data / "test") for example in task.encode(task.read(row))]
            test = task.collate(rows)
            started = time.process_time()
            trainer.train()
            seconds = time.process_time() - started
            vit = task.model.eval()
            with torch.inference_mode():
                found["ViT"].append((share_right(vit(**test.inputs).logits, test), seconds))
            torch.manual_seed(seed)
            cnn = small_cnn()
            seconds = train_cnn(cnn, trainer_of(chosen.data, seed, run + "-cnn", chosen.epochs))
            with torch.inference_mode():
                found["CNN"].append((share_right(cnn.eval()(test.inputs["pixel_values"]), test), seconds))
    pixels = test.inputs["pixel_values"]
    speeds = {"ViT": speed(vit, pixels), "CNN": speed(cnn, pixels)}
    for name, model in (("ViT", vit), ("CNN", cnn)):
        accuracy, seconds = zip(*found[name], strict=True)
        spread = f" (from {min(accuracy):.4f} to {max(accuracy):.4f})" if len(accuracy) > 1 else ""
        print(
            f"{name}: {count(model):,} parameters, accuracy {statistics.mean(accuracy):.4f}{spread} on {len(pixels)} "
            f"pictures, trained in {statistics.mean(seconds):.0f} s, {speeds[name]:,.0f} pictures/s"
        )
    compare_with_transformers(vit, pixels)


def compare_with_transformers(vit: nn.Module, pixels: Tensor) -> None:
    try:
        from transformers import ViTForImageClassification
    except ImportError:
        print("transformers is not installed, and its speed not measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        vit.save_pretrained(folder)
        theirs = ViTForImageClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        difference = (vit(pixels).logits - theirs(pixels).logits).abs().max()
    rates = [(speed(vit, pixels), speed(theirs, pixels)) for _ in range(5)]  # in turn
    ours, others = (statistics.median(each) for each in zip(*rates, strict=True))
    print(
        f"the same ViT in transformers: {others:,.0f} pictures/s, here {ours:,.0f}: {ours / others:.2f} times as fast; "
        f"logits differ by at most {difference:.1e}"
    )


if __name__ == "__main__":
    main()
