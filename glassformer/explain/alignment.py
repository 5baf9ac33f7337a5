"""Where a translator looks: the weights of all its attentions for one text, as pictures and as a page."""

from __future__ import annotations

import base64
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path

import torch
from torch import Tensor

from ..checkpoints.files import write_atomically
from ..errors import InputError, nearest
from ..models.seq2seq import Seq2SeqModel
from ..tasks.run import evaluating
from ..tasks.text_to_text import TextToText
from .pages import hash_of, printable
from .reading import spelt

KINDS = {
    "cross": "Cross-attention: from each word that is written to the source",
    "encoder": "Self-attention of the encoder: from source word to source word",
    "decoder": "Self-attention of the decoder: from each word that is written to those before it",
}
FONTS = ("Noto Sans CJK SC", "Noto Serif CJK SC", "Source Han Sans SC", "Microsoft YaHei", "PingFang SC", "SimHei")


@dataclass(frozen=True)
class Alignment:
    """A text, what was written for it, and the weights of every layer and head; rows sum to 1.

    A recurrent translator looks at the source alone, and has no layers of self-attention.
    """

    text: str
    written: str
    source: list[str]  # tokens that were read
    read_back: list[str]  # tokens that the decoder read: the beginning, then all that was written but the last
    target: list[str]  # tokens that were written, with their end
    cross: Tensor  # layers H T S
    encoder: Tensor  # layers H S S
    decoder: Tensor  # layers H T T

    @property
    def mean(self) -> Tensor:
        """Where the last layer looks at the source, its heads together: T S."""
        return self.cross[-1].mean(0)

    def labels(self, kind: str) -> tuple[list[str], list[str]]:
        """What the rows and the columns of one kind of weights are."""
        return {
            "cross": (self.target, self.source),
            "encoder": (self.source, self.source),
            "decoder": (self.target, self.read_back),
        }[checked(kind)]


def checked(kind: str) -> str:
    if kind not in KINDS:
        raise InputError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}{nearest(str(kind), KINDS)}")
    return kind


def align(task: TextToText, text: str) -> Alignment:
    """Let a task write for a text, and look at all its attentions on the way.

    >>> align(Translation.from_pretrained("./de-en/"), "Ein Hund.").mean.shape          # doctest: +SKIP
    torch.Size([4, 5])
    """
    model, (example,) = task.model, task.encode(task.read(text))
    batch = task.collate([example]).to(model.device)
    with evaluating(model), torch.inference_mode():
        tokens, _ = task.forward(batch)[0][0]
        begun = [model.start_token(), *tokens[:-1]]
        seen = Seq2SeqModel.forward(
            model,
            batch.inputs["input_ids"],
            batch.inputs["attention_mask"],
            torch.tensor([begun], device=model.device),
            output_attentions=True,
            return_dict=True,
        )
    if not seen.cross_attentions:
        raise InputError(f"this {type(model).__name__} never looks at the source: it has no attention")
    kinds = (seen.cross_attentions, seen.encoder_attentions, seen.decoder_attentions)
    return Alignment(
        text,
        task.spell(tokens),
        spelt(task.tokenizer, example.encoded.ids()),
        spelt(task.target_tokenizer, begun),
        spelt(task.target_tokenizer, tokens),
        *(torch.cat(layers).float().cpu() if layers else torch.empty(0, 0, 0, 0) for layers in kinds),
    )


# --- pictures ---------------------------------------------------------------------------------------------------------


def draw_alignment(alignment: Alignment, path: str | PathLike[str]) -> Path:
    """Write the mean cross-attention of the last layer as a picture; the suffix, .png or .svg, tells the format."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=grid_size(alignment.mean))
    show(axes, alignment.mean, *alignment.labels("cross"))
    axes.set_title(alignment.written, fontsize=10)
    return save(plt, figure, path)


def draw_heads(alignment: Alignment, kind: str, path: str | PathLike[str]) -> Path:
    """Write the weights of one kind ("cross", "encoder", "decoder"): a row for each layer, a column for each head."""
    weights = getattr(alignment, checked(kind))
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
    path = Path(path)
    if path.suffix not in (".png", ".svg"):
        raise InputError(f"a picture is written as .png or .svg, got {path.name!r}")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
    return path


# --- the page ---------------------------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5c636b; --paper: #fff; --card: #f5f6f8; --bar: 47 111 181; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a2a9b1; --paper: #15171a; --card: #1f2226; --bar: 110 168 232; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 75rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p, summary, figcaption { color: var(--soft); }
section { background: var(--card); border-radius: .5rem; padding: 1rem 1.25rem; margin: 1.25rem 0; }
.wide { overflow-x: auto; } table { border-collapse: separate; border-spacing: 2px; }
th { font-weight: 400; font-size: .85rem; white-space: pre; }
thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: .3rem 0; }
thead th.upright { writing-mode: horizontal-tb; transform: none; vertical-align: bottom; text-align: center; }
tbody th { text-align: right; padding-right: .5rem; }
td { width: 1.5rem; min-width: 1.5rem; height: 1.5rem; border-radius: 3px; text-align: center; font-size: .65rem; }
.heads { display: flex; flex-wrap: wrap; gap: .75rem; } figure { margin: 0; } figcaption { font-size: .75rem; }
img { width: 9rem; height: 9rem; image-rendering: pixelated; background: #fff; }
details { margin-top: .75rem; } summary { cursor: pointer; }
"""
SHADES = 21


def shades() -> str:
    """A class for each shade of a weight: a style in each cell would need a looser content policy."""
    return "".join(f".w{i} {{ background: rgb(var(--bar) / {i / (SHADES - 1):.2f}); }}\n" for i in range(SHADES))


def alignment_page(alignments: Iterable[Alignment], title: str = "Where the translator looks", note: str = "") -> str:
    """One page without a network or a script; texts in it can never run as code."""
    style = STYLE + shades()
    policy = f"default-src 'none'; style-src '{hash_of(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{shown(title)}</title><style>{style}</style></head><body>",
        f"<h1>{shown(title)}</h1>",
        f"<p>{shown(note)}</p>" if note else "",
        "<p>Each row is a word that was written; the darker a square, the more it looked at that word of the source "
        "(last layer, mean of its heads). Below each table are all layers and heads.</p>",
        *(section(alignment) for alignment in alignments),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def write_page(alignments: Iterable[Alignment], path: str | PathLike[str], **words: str) -> Path:
    """The page as a file."""
    write_atomically(Path(path), alignment_page(alignments, **words))
    return Path(path)


def section(alignment: Alignment) -> str:
    rows, columns = alignment.labels("cross")
    head = "".join(f"<th{' class=upright' if is_square(token) else ''}>{shown(token)}</th>" for token in columns)
    body = "".join(
        f"<tr><th>{shown(token)}</th>{''.join(map(cell, weights))}</tr>"
        for token, weights in zip(rows, alignment.mean.tolist(), strict=True)
    )
    views = "".join(
        f"<details><summary>{words}</summary>{heads_of(getattr(alignment, kind))}</details>"
        for kind, words in KINDS.items()
        if len(getattr(alignment, kind))
    )
    title = f"{shown(alignment.text)} &rarr; {shown(alignment.written)}"
    table = f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<section><h2>{title}</h2><div class="wide">{table}</div>{views}</section>'


def is_square(token: str) -> bool:
    """Whether a token is written in characters as wide as high, which are read upright.

    >>> is_square("汤姆"), is_square(" läuft")
    (True, False)
    """
    return any(unicodedata.east_asian_width(letter) in "WF" for letter in token)


def shown(text: str) -> str:
    """Text as a page may hold it: it is never read as code."""
    return escape(printable(text))


def cell(weight: float) -> str:
    shade = round(max(0.0, min(1.0, weight)) * (SHADES - 1))
    return f'<td class="w{shade}" title="{weight:.3f}"></td>'


def heads_of(weights: Tensor) -> str:
    figures = [
        f'<figure><img alt="layer {layer}, head {head}" src="data:image/png;base64,'
        f'{base64.b64encode(grey_png(weights[layer, head])).decode()}">'
        f"<figcaption>layer {layer}, head {head}</figcaption></figure>"
        for layer in range(weights.shape[0])
        for head in range(weights.shape[1])
    ]
    return f'<div class="heads">{"".join(figures)}</div>'


def grey_png(weights: Tensor) -> bytes:
    """Weights as a picture of one grey point each, the darker the higher; written by hand, it needs no library."""
    points = (255 - weights.clamp(0, 1) * 255).round().to(torch.uint8)
    rows = b"".join(b"\0" + bytes(row) for row in points.tolist())
    height, width = points.shape

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
