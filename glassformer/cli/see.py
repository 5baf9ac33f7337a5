"""`glass see`: the attention of a model on a text, as one page that opens anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from ..errors import InputError
from .show import print_json, size

NEURONS = 4_000_000  # bytes of queries and keys up to which a page holds them


def see(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    text: Positional[Annotated[str, arg(metavar="TEXT")]],
    /,
    *,
    pair: Annotated[str, arg(metavar="TEXT")] = "",
    output: Annotated[Path, arg(metavar="PAGE", aliases=["-o"])] = Path("attention.html"),
    layer: Annotated[int | None, arg(metavar="N")] = None,
    head: Annotated[int | None, arg(metavar="N")] = None,
    language: Literal["en", "zh"] = "en",
    json: bool = False,
) -> int:
    """Write a page that shows the attention of every head of a model on a text.

    One file without a network: all heads, lines between tokens, a heat-map with values, and for short texts the queries
    and keys behind them. `glass explore` shows more.

    examples:
      glass see ./bert-base-uncased "The cat sat on the mat."
      glass see ./bert-base-uncased "The cat sat." --pair "It was tired." -o page.html
      glass see ./gpt2 "Once upon a time" --layer 5 --head 1 --json

    Args:
        model: A checkpoint folder or a name on the hub.
        text: The text to read.
        pair: A second text, for models that read pairs; for an encoder-decoder what it writes, its own text otherwise.
        output: The page to write.
        layer: The layer that is shown first.
        head: The head that is shown first.
        language: The language of the page.
        json: Print JSON.
    """
    if output.is_dir() or not output.parent.is_dir():
        raise InputError(f"--output {output}: name a page such as page.html in a folder that exists")
    from ..explain.pages import make_page
    from ..explain.subject import Subject
    from ..explain.views import attention_of_reading, vectors_of_reading

    subject = Subject.load(model)
    reading = subject.read(text, pair)
    heads: dict[int, list[int]] = {}
    for part in reading.parts.values():
        heads |= subject.heads_of_part(part)
    if layer is not None and layer not in heads:
        raise InputError(f"--layer: there are layers 0 to {len(heads) - 1}, got {layer}")
    if head is not None and head not in heads[layer or 0]:
        raise InputError(f"--head: layer {layer or 0} has the heads {heads[layer or 0]}, got {head}")
    vectors = vectors_of_reading(reading)
    held = sum(4 * (q.numel() + k.numel()) for kind in vectors.values() for q, k in kind.heads.values())
    page = make_page(
        "see",
        attention_of_reading(reading),
        title=f"{subject.name}: {text[:80]}",
        vectors=vectors if held <= NEURONS else None,
        layer=layer,
        heads=None if head is None else [head],
        language=language,
    )
    path = page.save(output)
    told = {
        "page": str(path),
        "bytes": path.stat().st_size,
        "tokens": reading.tokens,
        "layers": len(heads),
        "heads": [len(each) for each in heads.values()],
    }
    if json:
        print_json(told)
    else:
        layers = "1 layer" if len(heads) == 1 else f"{len(heads)} layers"
        print(f"{path}: {layers}, {len(reading)} tokens, {size(told['bytes'])}")
    return 0
