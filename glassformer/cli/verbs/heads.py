"""`glass heads`: which attention heads link a word to a related one, and whether they beat position."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from ...errors import InputError
from ..output.terminal import counted, print_heading, print_json, print_table

if TYPE_CHECKING:
    from ...explain.analysis.relation_probe import RelationProbe, RelationScore
    from ...explain.subject import Subject

log = logging.getLogger("glassformer")

NAMED = 3  # heads beyond position that a line of the table names


def heads(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    /,
    *,
    input: Annotated[str, arg(metavar="FILE")] = "",
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    language: Annotated[str, arg(metavar="NAME")] = "",
    output: Annotated[Path | None, arg(metavar="PAGE", aliases=["-o"])] = None,
    json: bool = False,
) -> int:
    """Find the heads that link a pronoun to its noun, a verb to its subject, an object to its verb.

    A head's share is that of the cases in which its strongest attention from one word goes to the related word, the
    word itself and special tokens aside. "position" is what "always the word so many places away" finds, with the best
    such number: a head that does not find more has not learnt the relation. The best of many heads flatters itself;
    "held out" chooses head and number on every second sentence and counts on the others, both ways.

    examples:
      glass heads ./bert-base-uncased
      glass heads ./bert-base-chinese --language zh -o heads.html
      glass heads ./bert-base-uncased --input my-sentences.jsonl --json

    Args:
        model: A checkpoint folder or a name on the hub. An encoder-decoder is not supported.
        input: Annotated sentences of your own, one JSON object in each line, words numbered from 0:
            {"words": ["The", "cat", "slept"], "links": [{"relation": "subject", "from": 2, "to": 1}]}.
        encoding: What the file is written in, such as gbk or utf-16; UTF-8 if not given.
        language: Which sentences to use: of those that are built in, en or zh, en if not given; of a file, the rows
            with this "language".
        output: A page to write, with the share of every head.
        json: Print JSON, with the share of every head.
    """
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise InputError(f"--output {output}: name a page such as page.html in a folder that exists")
    from ...explain.analysis.relation_probe import probe_relations, read_relation_sentences
    from ...explain.subject import Subject

    sentences = read_relation_sentences(input or None, language or None, encoding)
    subject = Subject.load(model)
    probe = probe_relations(subject, sentences, progress=True)
    if probe.left_out:
        message = "%d of %d sentences were left out; the first is %s"
        log.warning(message, len(probe.left_out), len(sentences), probe.left_out[0])
    if output is not None:
        write_page(subject, probe, output)
    if json:
        print_json({"model": subject.name, **probe.to_dict()})
        return 0
    show(subject, probe)
    if output is not None:
        print(f"wrote {output}")
    return 0


def show(subject: Subject, probe: RelationProbe) -> None:
    print_heading(f"{subject.name}: the share of related words that a head finds, over {probe.sentences} sentences")
    rows = []
    for score in probe.scores:
        held = (score.held_out, score.held_out_position)
        beyond = [f"{name_of(head)} {score.shares[head]:.2f}" for head in score.beyond_position]
        more = f", and {len(beyond) - NAMED} more" if len(beyond) > NAMED else ""
        rows.append(
            (
                score.relation,
                score.cases,
                f"{score.position:.3f} ({score.offset:+d})",
                f"{score.shares[score.best]:.3f} ({name_of(score.best)})",
                *("" if share is None else f"{share:.3f}" for share in held),
                ", ".join(beyond[:NAMED]) + more or "none",
            )
        )
    header = ("relation", "cases", "position", "best head", "held out", "its position", "heads beyond position")
    print_table(header, rows, right=range(1, 6))
    print("heads are layer.head; position is the best fixed distance in words")


def name_of(head: tuple[int, int]) -> str:
    return f"{head[0]}.{head[1]}"


def write_page(subject: Subject, probe: RelationProbe, path: Path) -> None:
    from ...checkpoints.files import write_atomically
    from ...explain.pages.svg_plots import Figure, plot_page

    layers = [str(layer) for layer in range(len(subject.heads))]
    columns = [str(head) for head in range(max(head for numbers in subject.heads for head in numbers) + 1)]
    figures = [
        Figure(title_of(score), layers, columns, table_of(score, len(layers), len(columns))) for score in probe.scores
    ]
    note = (
        f"The share of cases in which a head's strongest attention from a word goes to the related word, over "
        f"{counted(probe.sentences, 'sentence')}. Rows are layers and columns heads. A head counts only if it finds "
        "more than position does: always the word at the best fixed distance."
    )
    write_atomically(path, plot_page(f"Related words and the heads of {subject.name}", note, figures).encode())


def title_of(score: RelationScore) -> str:
    return f"{score.relation}: {counted(score.cases, 'case')}, position {score.position:.2f} ({score.offset:+d})"


def table_of(score: RelationScore, layers: int, columns: int) -> list[list[float | None]]:
    """A row for each layer; None in the place of a head that was cut."""
    return [[score.shares.get((layer, head)) for head in range(columns)] for layer in range(layers)]
