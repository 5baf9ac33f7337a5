"""What a recurrent, convolutional and attention layer costs as texts get longer, and how far it sees.

The table of the tutorials, measured: one layer reads one text, forward and backward.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from ...checkpoints.files import write_atomically
from ...models.transformer_layers import EncoderLayer
from ...train.reporting.run_report import curves, legend_entry, page
from ..pages.image_files import checked_path, pyplot, save

WIDTH, HEADS, KERNEL = 256, 4, 3
LAYERS = ("recurrent", "convolutional", "attention")
SUFFIXES = (".html", ".png", ".svg")  # the first needs no matplotlib
TITLE, UNIT = f"One layer of width {WIDTH}", "milliseconds, forward and backward"


@dataclass(frozen=True)
class Cost:
    """One layer and one text."""

    layer: str
    words: int
    seconds: float
    steps: int  # sequential products; follows from the layer's definition
    layers_to_meet: int  # until both ends of a text can influence each other; likewise
    sees: float  # how much the last output changes with the first word, beside how much with the last word


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(1, 2)).relu().transpose(1, 2)


def measure_lengths(lengths: Sequence[int], rounds: int = 3) -> Iterator[Cost]:
    """Every layer, with untrained weights, on texts of every length."""
    torch.manual_seed(0)
    layers = (Recurrent(), Convolutional(), EncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.0))
    for name, layer in zip(LAYERS, layers, strict=True):
        for length in lengths:
            x = torch.randn(1, length, WIDTH)
            yield Cost(name, length, median_seconds(layer, x, rounds), *sequential_steps(name, length), reach(layer, x))


def sequential_steps(name: str, length: int) -> tuple[int, int]:
    """(sequential products in one layer, layers until both ends of a text can influence each other)

    >>> sequential_steps("convolutional", 9)
    (1, 8)
    """
    if name == "convolutional":
        return 1, -(-(length - 1) // (KERNEL // 2))
    return (length if name == "recurrent" else 1), 1


def median_seconds(layer: nn.Module, x: Tensor, rounds: int) -> float:
    """The median time of several rounds, after one warm-up."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        layer(x).sum().backward()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def reach(layer: nn.Module, x: Tensor) -> float:
    """How much the first word counts for the last output, beside the last word."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[0, -1].square().sum(), x)
    return float(gradient[0, 0].norm() / gradient[0, -1].norm())


def draw_lengths(costs: Sequence[Cost], path: str | PathLike[str]) -> Path:
    """Write time against length as a page or a picture; the suffix, .html, .png or .svg, decides."""
    path = checked_path(path, SUFFIXES)
    if path.suffix == ".html":
        write_atomically(path, lengths_page(costs))
        return path
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name in LAYERS:
        points = [cost for cost in costs if cost.layer == name]
        axes.loglog([cost.words for cost in points], [cost.seconds * 1e3 for cost in points], marker="o", label=name)
    words = sorted({cost.words for cost in costs})
    axes.set_xticks(words, [str(count) for count in words])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("words in the text")
    axes.set_ylabel(UNIT)
    axes.set_title(TITLE)
    axes.legend()
    axes.grid(alpha=0.3)
    return save(plt, figure, path)


def lengths_page(costs: Sequence[Cost]) -> str:
    """The plot as a standalone page."""
    words = sorted({cost.words for cost in costs})
    series = [
        (colour, [(words.index(cost.words), cost.seconds * 1e3) for cost in costs if cost.layer == name])
        for colour, name in enumerate(LAYERS)
    ]
    names = " ".join(legend_entry(colour, name) for colour, name in enumerate(LAYERS))
    places = {place: f"{count:,} words" for place, count in enumerate(words)}
    return page(TITLE, [f"<p>{names}</p>", f"<h2>{UNIT}</h2>", curves(f"{UNIT}, by words", series, places)])
