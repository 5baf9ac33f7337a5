"""Pictures as files, .png or .svg, by matplotlib: where a translator looks."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from torch import Tensor

from ..errors import InputError
from .alignment import Alignment

FONTS = ("Noto Sans CJK SC", "Noto Serif CJK SC", "Source Han Sans SC", "Microsoft YaHei", "PingFang SC", "SimHei")


def draw_alignment(alignment: Alignment, path: str | PathLike[str]) -> Path:
    """Write the mean cross-attention of the last layer as a picture; the suffix, .png or .svg, tells the format."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=grid_size(alignment.mean))
    show(axes, alignment.mean, *alignment.labels("cross"))
    axes.set_title(alignment.written, fontsize=10)
    return save(plt, figure, path)


def draw_heads(alignment: Alignment, kind: str, path: str | PathLike[str]) -> Path:
    """Write the weights of one kind ("cross", "encoder", "decoder"): a row for each layer, a column for each head."""
    weights = alignment.weights(kind)
    if not len(weights):
        raise InputError(f"the {kind} of this model has no self-attention to draw")
    plt, (layers, heads, *_) = pyplot(), weights.shape
    width, height = grid_size(weights[0, 0])
    figure, axes = plt.subplots(layers, heads, figsize=(width * heads * 0.8, height * layers * 0.8), squeeze=False)
    rows, columns = alignment.labels(kind)
    for layer in range(layers):
        for head in range(heads):
            show(axes[layer][head], weights[layer, head], rows if head == 0 else [], columns)
            axes[layer][head].set_title(f"layer {layer}, head {head}", fontsize=9)
    return save(plt, figure, path)


def pyplot():
    """matplotlib, with letters for Chinese where the machine has them."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("pictures need matplotlib: pip install 'glassformer[plots]'") from None
    matplotlib.use("Agg")
    from matplotlib import font_manager
    from matplotlib import pyplot as plt

    there = {font.name for font in font_manager.fontManager.ttflist}
    plt.rcParams["font.family"] = ["DejaVu Sans", *(font for font in FONTS if font in there)]
    plt.rcParams["svg.fonttype"] = "path"
    return plt


def grid_size(weights: Tensor) -> tuple[float, float]:
    return 1.5 + 0.32 * weights.shape[1], 1.5 + 0.28 * weights.shape[0]


def show(axes, weights: Tensor, rows: Sequence[str], columns: Sequence[str]) -> None:
    axes.imshow(weights.numpy(), cmap="Blues", vmin=0.0, vmax=1.0, aspect="auto")
    axes.set_xticks(range(len(columns)), [plain(token) for token in columns], rotation=90, fontsize=8)
    axes.set_yticks(range(len(rows)), [plain(token) for token in rows], fontsize=8)


def plain(token: str) -> str:
    """A token as matplotlib writes it: a dollar sign would begin a formula."""
    return token.replace("$", r"\$")


def save(plt, figure, path: str | PathLike[str]) -> Path:
    path = checked_path(path)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
    return path


def checked_path(path: str | PathLike[str]) -> Path:
    """The file of a picture, if its suffix is one that can be written."""
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"a picture is written as .png or .svg, got {path.name!r}")
    return path
