"""Pictures as files, .png or .svg, by matplotlib: the attention of a translator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from torch import Tensor

from ...checkpoints.files import open_atomically
from ...errors import InputError
from ..analysis.alignment import Alignment
from .html_page import printable

MOST_WORDS = 64  # labelled along one side; of longer texts every second word is, or every third, ...
LARGEST = 8000  # points along one side of a picture
FONTS = ("Noto Sans CJK SC", "Noto Serif CJK SC", "Source Han Sans SC", "Microsoft YaHei", "PingFang SC", "SimHei")


def draw_alignment(alignment: Alignment, path: str | PathLike[str]) -> Path:
    """Write the mean cross-attention of the last layer as a picture; the suffix, .png or .svg, decides the format."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=grid_size(alignment.mean))
    draw_grid(axes, alignment.mean, *alignment.labels("cross"), strongest=float(alignment.mean.max()))
    axes.set_title(escape_mathtext(alignment.written), fontsize=10, wrap=True)
    return save(plt, figure, path)


def draw_heads(alignment: Alignment, kind: str, path: str | PathLike[str]) -> Path:
    """Write the weights of one kind ("cross", "encoder", "decoder"): a row for each layer, a column for each head."""
    weights = alignment.weights(kind)
    if not len(weights):
        raise InputError(f"the {kind} of this model has no self-attention to draw")
    plt, (layers, heads, *_) = pyplot(), weights.shape
    width, height = grid_size(weights[0, 0])
    figure, axes = plt.subplots(layers, heads, figsize=(width * heads * 0.8, height * layers * 0.8), squeeze=False)
    (rows, columns), strongest = alignment.labels(kind), float(weights.max())
    for layer in range(layers):
        for head in range(heads):
            draw_grid(axes[layer][head], weights[layer, head], rows if head == 0 else [], columns, strongest)
            axes[layer][head].set_title(f"layer {layer}, head {head}", fontsize=9)
    return save(plt, figure, path)


def pyplot():
    """matplotlib, with fonts for Chinese where they are installed."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("pictures need matplotlib: pip install 'glassformer[plots]'") from None
    matplotlib.use("Agg")
    from matplotlib import font_manager
    from matplotlib import pyplot as plt

    installed = {font.name for font in font_manager.fontManager.ttflist}
    plt.rcParams["font.family"] = ["DejaVu Sans", *(font for font in FONTS if font in installed)]
    plt.rcParams["svg.fonttype"] = "path"
    return plt


def grid_size(weights: Tensor) -> tuple[float, float]:
    rows, columns = (min(size, MOST_WORDS) for size in weights.shape)
    return 1.5 + 0.32 * columns, 1.5 + 0.28 * rows


def draw_grid(axes, weights: Tensor, rows: Sequence[str], columns: Sequence[str], strongest: float) -> None:
    """One grid of weights; the strongest of the whole picture has the deepest colour."""
    axes.imshow(weights.numpy(), cmap="Blues", vmin=0.0, vmax=strongest, aspect="auto")
    upright = all(len(word) == 1 for word in columns)  # Chinese is
    for set_ticks, words, rotation in ((axes.set_xticks, columns, 0 if upright else 90), (axes.set_yticks, rows, 0)):
        places = range(0, len(words), -(-len(words) // MOST_WORDS) or 1)
        set_ticks(places, [escape_mathtext(words[place]) for place in places], rotation=rotation, fontsize=8)


def escape_mathtext(text: str) -> str:
    """A text as matplotlib writes it: a dollar sign would start a formula."""
    return printable(text).replace("$", r"\$")


def save(plt, figure, path: str | PathLike[str]) -> Path:
    path = checked_path(path)
    with open_atomically(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a character that no font has is drawn as a box
        figure.tight_layout()
        figure.savefig(file, format=path.suffix[1:], dpi=min(100.0, LARGEST / max(figure.get_size_inches())))
    plt.close(figure)
    return path


def checked_path(path: str | PathLike[str], suffixes: Sequence[str] = (".png", ".svg")) -> Path:
    """The file of a picture, if its suffix is supported and its folder exists."""
    path = Path(path)
    if path.suffix not in suffixes:
        raise InputError(f"a picture is written as {' or '.join(suffixes)}, got {path.name!r}")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} to write {path.name} to")
    return path
