"""`glass cluster`: texts divided by what they mean."""

from __future__ import annotations

import csv
import io
import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, arg

from ...errors import InputError
from ..arguments import command_with
from ..output.answer_table import short
from ..output.terminal import counted, print_heading, print_json, print_table
from ..rows.input_rows import RowInput
from .embed import load, task_of
from .search import valid_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ...tasks.sentences.cluster_summary import ClusterSummary
    from ...tasks.sentences.clustering import Clustering

SUFFIXES = (".jsonl", ".csv")


def cluster(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    /,
    *,
    row_input: Annotated[RowInput, arg(name="")] = RowInput(),  # noqa: B008
    clusters: Annotated[int | None, arg(metavar="K")] = None,
    max_clusters: Annotated[int, arg(metavar="K")] = 10,
    metric: Literal["cosine", "euclidean"] = "cosine",
    starts: Annotated[int, arg(metavar="N")] = 8,
    seed: Annotated[int, arg(metavar="N")] = 0,
    top: Annotated[int, arg(metavar="N")] = 5,
    output: Annotated[Path | None, arg(metavar="FILE", aliases=["-o"])] = None,
    picture: Annotated[Path | None, arg(metavar="FILE")] = None,
    restart: bool = False,
    device: Annotated[str | None, arg(metavar="DEVICE")] = None,
    json: bool = False,
) -> int:
    """Divide the texts of a file into clusters by the meaning of their vectors (k-means).

    Every cluster is shown with the words that are more frequent in it than elsewhere and with the texts that are
    nearest to its centre. Without --clusters the number with the highest silhouette is taken.

    examples:
      glass cluster ./all-MiniLM-L6-v2 --input questions.txt
      glass cluster ./all-MiniLM-L6-v2 --input news.csv --columns text=title --clusters 4 --output clusters.csv
      glass cluster ./all-MiniLM-L6-v2 --input questions.txt --picture clusters.html --json

    Args:
        model: A Sentence-BERT folder, or any checkpoint, whose token vectors are then averaged.
        clusters: How many clusters to make; if not given, each number from 2 to --max-clusters is tried.
        max_clusters: The largest number that is tried.
        metric: What the distance of two vectors is.
        starts: How many times k-means starts anew; the best result is taken.
        seed: What the starts depend on.
        top: How many words and texts of each cluster to show.
        output: A .jsonl or .csv file to write, with the cluster of every text and its distance from the centre.
        picture: A page (.html), or a picture (.png or .svg), with all texts as points.
        restart: Replace --output if it is there.
        device: Where to compute, such as cpu or cuda.
        json: Print JSON.
    """
    check(row_input.input, output, picture, restart, top)
    rows = row_input.rows(["text"])
    from ...tasks.sentences.cluster_summary import summarise_clusters
    from ...tasks.sentences.clustering import cluster_vectors

    encoder = load(model, device)
    read = task_of(encoder, None).read
    texts = [read(row)["text"] for row in valid_rows(rows)]
    if not texts:
        raise InputError(f"--input {row_input.input} has no texts")
    vectors = encoder.encode(texts, show_progress_bar=True, convert_to_tensor=True)
    found = cluster_vectors(
        vectors, clusters, metric=metric, starts=starts, seed=seed, max_clusters=max_clusters, progress=True
    )
    summaries = summarise_clusters(found, texts, top)
    if output is not None:
        write(found, texts, output)
    if picture is not None:
        draw(found, summaries, texts, vectors, picture)
    if json:
        print_json(as_values(found, summaries, texts))
        return 0
    show(found, summaries, texts)
    for path in (output, picture):
        if path is not None:
            print(f"wrote {path}")
    return 0


def check(input: str, output: Path | None, picture: Path | None, restart: bool, top: int) -> None:
    """Refuse now what would fail after all vectors have been computed."""
    if not input:
        raise InputError("give --input with a file of texts (- for standard input)")
    if top < 1:
        raise InputError(f"--top must be 1 or more, got {top}")
    if restart and output is None:
        raise InputError("--restart is for --output with a file")
    if output is not None:
        if output.suffix not in SUFFIXES:
            raise InputError(f"clusters are written as {' or '.join(SUFFIXES)}, got {output.name!r}")
        if not output.parent.is_dir():
            raise InputError(f"there is no folder {str(output.parent)!r} to write {output.name} to")
        if output.exists() and not restart:
            raise InputError(f"{output} is there already; to replace it: {command_with('--restart')}")
    if picture is not None:
        from ...explain.pages.cluster_page import SUFFIXES as PICTURES
        from ...explain.pages.image_files import checked_path, pyplot

        if checked_path(picture, PICTURES).suffix != ".html":
            pyplot()


def draw(found: Clustering, summaries: list[ClusterSummary], texts: list[str], vectors: Tensor, picture: Path) -> None:
    from torch.nn.functional import normalize

    from ...explain.pages.cluster_page import draw_clusters

    drawn = normalize(vectors, dim=-1) if found.metric == "cosine" else vectors
    draw_clusters(found, summaries, texts, drawn, picture)


def write(found: Clustering, texts: list[str], path: Path) -> None:
    """A row for each text, in their order."""
    from ...checkpoints.files import write_atomically

    numbers = zip(found.labels.tolist(), found.distances.tolist(), texts, strict=True)
    rows = [
        {"row": place, "cluster": label, "distance": round(distance, 6), "text": text}
        for place, (label, distance, text) in enumerate(numbers)
    ]
    if path.suffix == ".jsonl":
        lines = "".join(json_format.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        file = io.StringIO()
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        lines = file.getvalue()
    write_atomically(path, lines)


def as_values(found: Clustering, summaries: list[ClusterSummary], texts: list[str]) -> dict[str, Any]:
    return {
        "texts": len(texts),
        "metric": found.metric,
        "inertia": found.inertia,
        "silhouettes": {str(count): value for count, value in found.silhouettes.items()},
        "clusters": [
            {
                "cluster": each.cluster,
                "size": each.size,
                "words": each.words,
                "typical": [
                    {"row": row, "distance": float(found.distances[row]), "text": texts[row]} for row in each.typical
                ],
            }
            for each in summaries
        ],
    }


def show(found: Clustering, summaries: list[ClusterSummary], texts: list[str]) -> None:
    if found.silhouettes:
        print_heading("silhouettes of the numbers of clusters, the highest is taken")
        print_table(("clusters", "silhouette"), [(n, f"{s:.4f}") for n, s in found.silhouettes.items()], right=(0, 1))
    for each in summaries:
        print()
        print_heading(short(f"{each.cluster}: {counted(each.size, 'text')}; {', '.join(each.words)}"))
        lines = [(f"{float(found.distances[row]):.4f}", row, short(texts[row])) for row in each.typical]
        print_table(("distance", "row", "text"), lines, right=(0, 1))
