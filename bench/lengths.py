"""What a layer costs as texts get longer, and how far it sees: recurrent, convolutional, attention.

    python bench/lengths.py [--lengths 64 128 256 512 1024 2048] [--rounds 3] [--plot lengths.png] [--json FILE]

The table that tutorials assert: one layer of width 256 reads one text, forward and backward, on two threads. Time is
measured, and so is what it "sees": how much the last output changes with the first input (the norm of its gradient),
beside how much it changes with the last. A layer whose weights are drawn and not trained forgets at once if it is
recurrent, sees its window if it is a convolution, and everything if it is attention. "steps" are the products that must
wait for each other, and "layers to meet" those after which the ends of a text can know of each other; these two follow
from the layers' definitions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer import EncoderLayer

WIDTH, HEADS, KERNEL = 256, 4, 3
LAYERS = ("recurrent", "convolutional", "attention")


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(1, 2)).relu().transpose(1, 2)


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    if name == "attention":
        return EncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0)
    return Recurrent() if name == "recurrent" else Convolutional()


def steps_of(name: str, length: int) -> tuple[int, int]:
    """(products that wait for each other in one layer, layers until the ends of a text meet)"""
    return {
        "recurrent": (length, 1),
        "convolutional": (1, -(-(length - 1) // (KERNEL // 2))),
        "attention": (1, 1),
    }[name]


def seconds(layer: nn.Module, x: Tensor, rounds: int) -> float:
    taken = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        layer(x).sum().backward()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def reach(layer: nn.Module, x: Tensor) -> float:
    """How much the first word counts for the last output, beside the last word."""
    x = x.clone().requires_grad_()
    layer(x)[0, -1].square().sum().backward()
    return float(x.grad[0, 0].norm() / x.grad[0, -1].norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(2)
    rows = []
    print(f"{'layer':15}{'words':>7}{'ms':>10}{'µs/word':>10}{'steps':>7}{'layers to meet':>16}{'sees':>12}")
    for name in LAYERS:
        layer = make(name)
        for length in options.lengths:
            x = torch.randn(1, length, WIDTH)
            taken, (steps, path) = seconds(layer, x, options.rounds), steps_of(name, length)
            row = {
                "layer": name,
                "words": length,
                "seconds": taken,
                "steps": steps,
                "path": path,
                "sees": reach(layer, x),
            }
            rows.append(row)
            cost = f"{taken * 1e3:>10.2f}{taken / length * 1e6:>10.1f}"
            print(f"{name:15}{length:>7}{cost}{steps:>7}{path:>16}{row['sees']:>12.2e}", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(rows, indent=2) + "\n")
    if options.plot:
        plot(rows, options.plot)


def plot(rows: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name in LAYERS:
        mine = [row for row in rows if row["layer"] == name]
        axes.loglog([row["words"] for row in mine], [row["seconds"] * 1e3 for row in mine], marker="o", label=name)
    axes.set_xlabel("words in the text")
    axes.set_ylabel("milliseconds, forward and backward")
    axes.set_title(f"one layer of width {WIDTH}")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
