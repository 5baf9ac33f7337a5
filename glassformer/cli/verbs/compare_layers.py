"""`glass compare-layers`: the similarity of the layers of a model, or of two, and measures of their heads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ...errors import InputError
from ..arguments import check_page_path
from ..output.terminal import print_heading, print_json, print_table
from .tokenize import lines_of

if TYPE_CHECKING:
    from torch import Tensor

    from ...explain.reading import Reading
    from ...explain.subject import Subject

TEXTS = (
    "The cat sat on the mat because it was tired.",
    "In 1905 a clerk at the patent office in Bern wrote four papers that changed physics.",
    "If you heat water to 100 degrees, it boils; if you cool it to zero, it freezes.",
    "She asked whether the train to the north had left already, and nobody knew.",
)
SHOWN = {  # measures of heads -> what a plot of them is called
    "entropy": "how widely each head looks (entropy, bits)",
    "distance": "how far each head looks (mean distance, tokens)",
}


def compare_layers(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    other: Positional[Annotated[str, arg(metavar="MODEL")]] = "",
    /,
    *,
    input: Annotated[str, arg(metavar="FILE")] = "",
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    output: Annotated[Path | None, arg(metavar="PAGE", aliases=["-o"])] = None,
    json: bool = False,
) -> int:
    """Compare the layers of a model with each other or with those of another (CKA), and report what every head does.

    Where both models cut the texts into the same tokens, their tokens' vectors are compared, otherwise the mean vector
    of each text. Entropy and distance of heads are means over all texts.

    examples:
      glass compare-layers ./bert-base-uncased
      glass compare-layers ./bert-base-uncased ./my-finetuned --input texts.txt -o page.html
      glass compare-layers ./gpt2 --json

    Args:
        model: A checkpoint folder or a name on the hub.
        other: A second model; without one, the first is compared with itself.
        input: A file with one text in each line, - for standard input; some texts are built in.
        encoding: What the file is written in, such as gbk or utf-16; UTF-8 if not given.
        output: A page to write, with the numbers as plots.
        json: Print JSON.
    """
    if output is not None:
        check_page_path("--output", output)
    texts = [line for line in lines_of(input, encoding) if line.strip()] if input else list(TEXTS)
    if not texts:
        raise InputError("there are no texts to compare on")
    from ...explain.subject import Subject

    subjects = [Subject.load(name) for name in (model, other or model)]
    if other and len(texts) < 2:
        raise InputError("two models are compared on two texts or more")
    for subject in subjects:
        if not subject.heads:
            raise InputError(f"{subject.name} is a {subject.model.config.model_type}: it has no layers of attention")
    values = compare_readings(subjects[0], subjects[1] if other else subjects[0], texts)
    values |= {"models": [subject.name for subject in subjects], "texts": len(texts)}
    if output is not None:
        write_page(values, output)
    if json:
        print_json(values)
    else:
        show(values)
        if output is not None:
            print(f"wrote {output}")
    return 0


def compare_readings(first: Subject, second: Subject, texts: list[str]) -> dict[str, Any]:
    from ...explain.analysis.layer_similarity import cka_table

    left = [first.read(text) for text in texts]
    right = left if second is first else [second.read(text) for text in texts]
    same = all(a.tokens == b.tokens for a, b in zip(left, right, strict=True))
    return {
        "compared": "tokens" if same else "texts",
        "places": [layer_labels(readings[0]) for readings in (left, right)],
        "cka": cka_table(vectors(left, same), vectors(right, same)),
        "heads": [head_measures(readings) for readings in ([left] if second is first else [left, right])],
    }


def layer_labels(reading: Reading) -> list[str]:
    """Labels of the compared vectors: before the first layer, and after every layer, by its number."""
    count = len(reading.hidden) - 1
    last = len(reading.subject.heads)
    return ["words", *(str(number) for number in range(last - count, last))]


def vectors(readings: list[Reading], by_token: bool) -> list[Tensor]:
    """Of every layer, a row for each token, or for each text."""
    import torch

    layers = range(len(readings[0].hidden))
    if by_token:
        return [torch.cat([reading.hidden[layer] for reading in readings]).float() for layer in layers]
    return [torch.stack([reading.hidden[layer].mean(0) for reading in readings]).float() for layer in layers]


def head_measures(readings: list[Reading]) -> dict[str, list[list[float | None]]]:
    """The measures of every head of every layer, as means over the texts; None for a pruned head."""
    from ...explain.addressing import SELF
    from ...explain.analysis.head_measures import measure

    found: dict[str, list[list[float | None]]] = {name: [] for name in SHOWN}
    subject = readings[0].subject
    widest = max(head for heads in subject.heads for head in heads) + 1
    for kind, part in readings[0].parts.items():
        for layer in part.layers if part.kind == SELF else ():
            each = [measure(reading.weights(layer), reading.parts[kind].right.separators) for reading in readings]
            for name in SHOWN:
                means = (sum(values[name] for values in each) / len(each)).tolist()
                by_number = dict(zip(subject.heads[layer], means, strict=True))
                found[name].append([by_number.get(number) for number in range(widest)])
    return found


def show(values: dict[str, Any]) -> None:
    print_heading(f"similarity of layers (CKA of {values['compared']}, at most 1; words: the input of the first)")
    row_names, column_names = values["places"]
    rows = [(name, *(f"{value:.3f}" for value in row)) for name, row in zip(row_names, values["cka"], strict=True)]
    print_table(("layer", *column_names), rows, right=range(1, len(column_names) + 1))
    for model, heads in zip(values["models"], values["heads"], strict=False):
        for name, words in SHOWN.items():
            print_heading(f"{model}: {words}")
            cells = [(i, *("" if v is None else f"{v:.2f}" for v in row)) for i, row in enumerate(heads[name])]
            widest = len(heads[name][0])
            print_table(("layer", *map(str, range(widest))), cells, right=range(widest + 1))


def write_page(values: dict[str, Any], path: Path) -> None:
    from ...checkpoints.files import write_atomically
    from ...explain.pages.svg_plots import Figure, plot_page

    def numbers(count: int) -> list[str]:
        return [str(i) for i in range(count)]

    first, second = values["models"]
    which = f"layers of {first}" if first == second else f"layers of {first} (down) and {second} (across)"
    rows, columns = values["places"]
    figures = [Figure(f"Similarity of layers (CKA): {which}", rows, columns, values["cka"])]
    for model, heads in zip(values["models"], values["heads"], strict=False):
        for name, words in SHOWN.items():
            table = heads[name]
            figures.append(Figure(f"{model}: {words}", numbers(len(table)), numbers(len(table[0])), table))
    note = (
        f"CKA of {values['compared']} over {values['texts']} texts, at most 1; words are the input of the first layer. "
        "In the other plots rows are layers and columns heads."
    )
    page = plot_page(f"Layers of {' and '.join(dict.fromkeys(values['models']))}", note, figures)
    write_atomically(path, page.encode())
