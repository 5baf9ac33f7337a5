"""What a layer costs as texts get longer, and how far it sees: the tutorials' table of complexities, measured.

One layer reads one text, forward and backward: recurrent, convolutional, or attention to all words or to some.
"""

from __future__ import annotations

import ctypes
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn

from ...checkpoints.files import write_atomically
from ...errors import InputError, nearest
from ...train.reporting.run_report import curves, legend_entry, page
from ..pages.image_files import checked_path, pyplot, save
from .length_layers import KINDS
from .length_paths import longest_path

WIDTH = 256
WARM_UP = 16  # words of a first text, which is not measured
ENOUGH_SECONDS = 3.0  # of one layer and text: no further rounds
SUFFIXES = (".html", ".png", ".svg")  # the first needs no matplotlib
TITLE = f"One layer of width {WIDTH}, forward and backward"
UNITS = {"milliseconds": "milliseconds", "mebibytes": "MiB"}


@dataclass(frozen=True)
class Cost:
    """One layer and one text."""

    layer: str
    words: int
    seconds: float
    mebibytes: float | None  # at the peak, above what was there before; None where the system does not tell
    longest_path: int  # steps until every word knows of every other one
    sees: float  # how much the last output changes with the first word, beside how much with the last word

    @property
    def milliseconds(self) -> float:
        return self.seconds * 1e3


@dataclass(frozen=True)
class Complexity:
    """A kind of layer over all lengths: what is said of it, and what was measured."""

    layer: str
    cost: str
    time_exponent: float | None  # None of a single length
    memory_exponent: float | None
    sequential: str
    path: str
    measured_path: int  # of the longest text


def measure_lengths(lengths: Sequence[int], rounds: int = 3, layers: Sequence[str] = tuple(KINDS)) -> Iterator[Cost]:
    """Layers with untrained weights on texts of every length."""
    unknown = [name for name in layers if name not in KINDS]
    if unknown:
        raise InputError(f"layers are {', '.join(KINDS)}, got {unknown[0]!r}{nearest(unknown[0], KINDS)}")
    for name in layers:
        torch.manual_seed(0)
        layer = KINDS[name].make(WIDTH)
        layer(torch.randn(1, WARM_UP, WIDTH)).sum().backward()  # allocates gradients and what a library needs once
        for length in lengths:
            x = torch.randn(1, length, WIDTH)
            peak = peak_mebibytes(lambda layer=layer, x=x: layer(x).sum().backward())
            seconds = median_seconds(layer, x, rounds)
            yield Cost(name, length, seconds, peak, longest_path(name, length), reach(layer, x))


def median_seconds(layer: nn.Module, x: Tensor, rounds: int) -> float:
    """The median time of several rounds, of fewer if they are long."""
    times: list[float] = []
    while len(times) < rounds and sum(times) < ENOUGH_SECONDS:
        start = time.perf_counter()
        layer(x).sum().backward()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_mebibytes(run: Callable[[], object]) -> float | None:
    """How much more memory than before a call takes at its peak, in Linux."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    try:
        ctypes.CDLL(None).malloc_trim(0)  # else memory that is kept for later is not counted
        clear.write_text("5")
        before = kibibytes(status, "VmRSS")
        run()
        return max(0.0, kibibytes(status, "VmHWM") - before) / 1024
    except (OSError, AttributeError, StopIteration):
        run()
        return None


def kibibytes(status: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(name))


def reach(layer: nn.Module, x: Tensor) -> float:
    """How much the first word counts for the last output, beside the last word."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[0, -1].square().sum(), x)
    return float(gradient[0, 0].norm() / gradient[0, -1].norm())


def complexities(costs: Sequence[Cost]) -> list[Complexity]:
    """What is said of each kind of layer beside what was measured."""
    found = []
    for name in dict.fromkeys(cost.layer for cost in costs):
        own, kind = [cost for cost in costs if cost.layer == name], KINDS[name]
        times = exponent([(cost.words, cost.seconds) for cost in own])
        memory = exponent([(cost.words, cost.mebibytes) for cost in own if cost.mebibytes])
        longest = max(own, key=lambda cost: cost.words)
        found.append(Complexity(name, kind.cost, times, memory, kind.sequential, kind.path, longest.longest_path))
    return found


def exponent(points: Sequence[tuple[int, float]]) -> float | None:
    """The power of the length that a cost grows with, fitted over the longer half of the texts.

    >>> exponent([(10, 5.0), (100, 2.0), (1000, 200.0), (10_000, 20_000.0)])
    2.0
    """
    points = sorted(points)[(len(points) - 1) // 2 :]
    logs = [(math.log(words), math.log(cost)) for words, cost in points if cost > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    x_mean, y_mean = (statistics.mean(values) for values in zip(*logs, strict=True))
    slope = sum((x - x_mean) * (y - y_mean) for x, y in logs) / sum((x - x_mean) ** 2 for x, _ in logs)
    return round(slope, 6)


def draw_lengths(costs: Sequence[Cost], path: str | PathLike[str]) -> Path:
    """Write time and memory against length as a page or a picture; the suffix, .html, .png or .svg, decides."""
    path = checked_path(path, SUFFIXES)
    if path.suffix == ".html":
        write_atomically(path, lengths_page(costs))
        return path
    plt = pyplot()
    units = plottable_units(costs)
    figure, panels = plt.subplots(1, len(units), figsize=(6.5 * len(units), 4.8), squeeze=False)
    words = sorted({cost.words for cost in costs})
    for axes, (field, unit) in zip(panels[0], units.items(), strict=True):
        for name in dict.fromkeys(cost.layer for cost in costs):
            points = [(cost.words, getattr(cost, field)) for cost in costs if cost.layer == name]
            axes.loglog(*zip(*points, strict=True), marker="o", label=name)
        axes.set_xticks(words, [f"{count:,}" for count in words])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("words in the text")
        axes.set_ylabel(unit)
        axes.grid(alpha=0.3)
    panels[0][0].legend()
    figure.suptitle(TITLE)
    return save(plt, figure, path)


def plottable_units(costs: Sequence[Cost]) -> dict[str, str]:
    """What can be plotted: memory where every figure is known."""
    return {field: unit for field, unit in UNITS.items() if all(getattr(cost, field) for cost in costs)}


def lengths_page(costs: Sequence[Cost]) -> str:
    """The plots as a standalone page; each unit up is ten times as much."""
    words, layers = sorted({cost.words for cost in costs}), list(dict.fromkeys(cost.layer for cost in costs))
    places = {place: f"{count:,} words" for place, count in enumerate(words)}
    parts = [f"<p>{' '.join(legend_entry(colour, name) for colour, name in enumerate(layers))}</p>"]
    for field, unit in plottable_units(costs).items():
        series = [
            (colour, [(words.index(c.words), math.log10(getattr(c, field))) for c in costs if c.layer == name])
            for colour, name in enumerate(layers)
        ]
        parts += [f"<h2>{unit}, as powers of ten</h2>", curves(f"{unit}, by words", series, places)]
    return page(TITLE, parts)
