"""`glass compare-lengths`: what recurrence, convolution and attention cost as texts get longer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from ...errors import InputError
from ..output.terminal import print_json, print_table


def compare_lengths(
    *,
    lengths: Annotated[tuple[int, ...], arg(metavar="N")] = (64, 128, 256, 512, 1024, 2048),
    rounds: Annotated[int, arg(metavar="N")] = 3,
    picture: Annotated[Path, arg(metavar="FILE")] = Path("lengths.html"),
    json: bool = False,
) -> int:
    """Measure one recurrent, one convolutional and one attention layer on texts of several lengths.

    Each reads one text, forward and backward. "steps" are the products that must wait for each other, "layers to meet"
    those after which the ends of a text can know of each other. "sees" is how much the last output changes with the
    first word, beside how much with the last: an untrained recurrent layer forgets, a convolution sees its window,
    attention everything.

    examples:
      glass compare-lengths
      glass compare-lengths --picture lengths.png
      glass compare-lengths --lengths 64 512 4096 --json

    Args:
        lengths: How many words the texts have.
        rounds: How often each is measured; the median is reported.
        picture: The file for the plot of time against length: a page (.html), or a picture (.png or .svg).
        json: Print JSON.
    """
    from ...explain.analysis.length_costs import SUFFIXES, draw_lengths, measure_lengths
    from ...explain.pages.image_files import checked_path, pyplot

    if not lengths or min(lengths) < 2 or rounds < 1:
        raise InputError(f"give lengths of 2 words or more and 1 round or more, got {lengths} and {rounds}")
    if checked_path(picture, SUFFIXES).suffix != ".html":
        pyplot()  # raise before measuring
    costs = list(measure_lengths(lengths, rounds))
    draw_lengths(costs, picture)
    if json:
        print_json([vars(cost) for cost in costs])
        return 0
    rows = [
        (
            cost.layer,
            f"{cost.words:,}",
            f"{cost.seconds * 1e3:.2f}",
            f"{cost.seconds / cost.words * 1e6:.1f}",
            f"{cost.steps:,}",
            f"{cost.layers_to_meet:,}",
            f"{cost.sees:.1e}",
        )
        for cost in costs
    ]
    header = ("layer", "words", "ms", "µs/word", "steps", "layers to meet", "sees")
    print_table(header, rows, right=range(1, len(header)))
    print(f"the plot is in {picture}")
    return 0
