"""`glass compare-lengths`: what recurrence, convolution and attention cost as texts get longer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from ...errors import InputError
from ..output.terminal import print_json, print_table


def compare_lengths(
    *,
    lengths: Annotated[tuple[int, ...], arg(metavar="N")] = (256, 1024, 4096, 16384),
    layers: Annotated[tuple[str, ...], arg(metavar="LAYER")] = (),
    rounds: Annotated[int, arg(metavar="N")] = 3,
    picture: Annotated[Path, arg(metavar="FILE")] = Path("lengths.html"),
    json: bool = False,
) -> int:
    """Measure layers on texts of several lengths: time, memory, and how far apart words are.

    The layers: recurrent, convolutional, dilated (convolutions whose words stand twice as far apart in each next
    layer), attention to all words, window (256 words on each side), longformer (the same, and a global first word),
    bigbird (blocks of 64 words: neighbours, the first, the last, three random ones), performer (random features).

    Each reads one text, forward and backward. "MiB" is memory at the peak. "longest path" is measured: a word is
    changed, and it is counted after how many layers (words, in a recurrent one) every other word has changed too.
    "sees" is how much the last output changes with the first word, beside how much with the last: an untrained
    recurrent layer forgets, a window sees none of it, attention everything. A second table has the complexities that
    are taught, and the powers of the length that were measured, over the longer half of the texts.

    examples:
      glass compare-lengths
      glass compare-lengths --picture lengths.png
      glass compare-lengths --layers attention performer --lengths 512 2048 8192 --json

    Args:
        lengths: How many words the texts have.
        layers: Which layers; all if not given.
        rounds: How often each is measured; the median is reported. Calls of several seconds are measured once.
        picture: The file for the plot of time and memory against length: a page (.html), or a picture (.png or .svg).
        json: Print JSON.
    """
    from ...explain.analysis.length_costs import SUFFIXES, complexities, draw_lengths, measure_lengths
    from ...explain.analysis.length_layers import KINDS
    from ...explain.pages.image_files import checked_path, pyplot

    if not lengths or min(lengths) < 2 or rounds < 1:
        raise InputError(f"give lengths of 2 words or more and 1 round or more, got {lengths} and {rounds}")
    if checked_path(picture, SUFFIXES).suffix != ".html":
        pyplot()  # raise before measuring
    costs = list(measure_lengths(lengths, rounds, layers or tuple(KINDS)))
    draw_lengths(costs, picture)
    table = complexities(costs)
    if json:
        print_json({"costs": [vars(cost) for cost in costs], "complexities": [vars(each) for each in table]})
        return 0
    rows = [
        (
            cost.layer,
            f"{cost.words:,}",
            f"{cost.milliseconds:.2f}",
            f"{cost.seconds / cost.words * 1e6:.1f}",
            "" if cost.mebibytes is None else f"{cost.mebibytes:.1f}",
            f"{cost.longest_path:,}",
            f"{cost.sees:.1e}",
        )
        for cost in costs
    ]
    header = ("layer", "words", "ms", "µs/word", "MiB", "longest path", "sees")
    print_table(header, rows, right=range(1, len(header)))
    print()
    names = ("layer", "cost", "time", "memory", "in sequence", "path", f"path of {max(lengths):,} words")
    print_table(
        names,
        [
            (
                each.layer,
                each.cost,
                power(each.time_exponent),
                power(each.memory_exponent),
                each.sequential,
                each.path,
                f"{each.measured_path:,}",
            )
            for each in table
        ],
        right=(6,),
    )
    print(f"the plot is in {picture}")
    return 0


def power(exponent: float | None) -> str:
    return "" if exponent is None else f"n^{exponent:.2f}"
