"""`glass search`: the texts of a corpus that are most like a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ...errors import DamagedFileError, DataError, InputError, spelling
from ..arguments import command_with
from ..output.answer_table import short
from ..output.terminal import print_heading, print_json, print_table
from ..rows.input_rows import RowFormat, rows_and_errors
from .embed import load, task_of, write_vectors

if TYPE_CHECKING:
    import numpy

    from ...data.file_row import Row
    from ...data.readers import Rows
    from ...tasks.sentences.sentence_encoder import SentenceEncoder

CHECKED = 8  # texts whose vectors are recomputed to check that an index belongs to its corpus and model
ROUNDING = 1e-3  # relative error of such a vector


def search(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    corpus: Positional[Annotated[str, arg(metavar="CORPUS")]],
    queries: Positional[Annotated[tuple[str, ...], arg(metavar="QUERY")]] = (),
    /,
    *,
    query_file: Annotated[str, arg(name="queries", metavar="FILE")] = "",
    query_column: Annotated[str, arg(metavar="COLUMN")] = "",
    top_k: Annotated[int, arg(metavar="N", aliases=["-k"])] = 5,
    index: Annotated[str, arg(metavar="FILE")] = "",
    row_format: Annotated[RowFormat, arg(name="")] = RowFormat(),  # noqa: B008
    restart: bool = False,
    device: Annotated[str | None, arg(metavar="DEVICE")] = None,
    json: bool = False,
) -> int:
    """Find the texts of a file whose meaning is nearest to a query.

    MODEL is a Sentence-BERT folder. With --index the vectors of the corpus are kept in a .npy file, which is created
    by the first search and read by the next ones.

    examples:
      glass search ./all-MiniLM-L6-v2 questions.txt "How do I get a new password?"
      glass search ./all-MiniLM-L6-v2 news.csv "storms at sea" "elections" --columns text=title -k 3
      glass search ./all-MiniLM-L6-v2 questions.txt "lost card" --index questions.npy --json
      glass search ./all-MiniLM-L6-v2 questions.txt --queries asked.csv --query-column question --json

    Args:
        model: A checkpoint folder or a name on the hub.
        corpus: The file of texts to search: txt, csv, tsv, jsonl, json or parquet.
        queries: What to look for, each on its own. Put -- before one that starts with a dash.
        query_file: A file of queries: txt, a line for each, or csv, tsv, jsonl, json or parquet; - is standard input,
            a line for each. It is read in the --encoding of the corpus.
        query_column: The column of --queries to read, by its name or its number from 0; text if not given.
        top_k: How many texts to show for each query.
        index: A .npy file with the vectors of the corpus, created if it does not exist.
        restart: Rebuild the index.
        device: Where to compute, such as cpu or cuda.
        json: Print JSON.
    """
    if bool(queries) == bool(query_file):
        raise InputError("give queries to search for, or --queries with a file of them" + ", not both" * bool(queries))
    if query_column and not query_file:
        raise InputError("--query-column is for --queries with a file")
    if top_k < 1:
        raise InputError(f"--top-k must be 1 or more, got {top_k}")
    if restart and not index:
        raise InputError("--restart is for --index with a file")
    if index and corpus == "-":
        raise InputError("standard input is read once and has no --index")
    if corpus == query_file == "-":
        raise InputError("standard input ('-') can be read once, and is named for the corpus and for --queries")
    rows = row_format.rows(corpus, ["text"])
    if query_file:
        queries = read_queries(query_file, query_column, row_format.encoding)
    encoder = load(model, device)
    if index:
        if restart or not Path(index).exists():
            make_index(encoder, rows, index, {"model": model, "input": corpus, **row_format.settings()}, restart)
        hits = search_index(encoder, rows, queries, top_k, Path(index))
    else:
        hits = encoder.search(list(queries), valid_rows(rows), top_k)
    if json:
        print_json([{"query": query, "hits": as_records(found)} for query, found in zip(queries, hits, strict=True)])
    else:
        print_hits(queries, hits)
    return 0


def read_queries(file: str, column: str, encoding: str) -> tuple[str, ...]:
    """The queries of a file, none of them empty."""
    from ...data.columns import parse_column
    from ...data.readers import read_rows

    form = spelling.set({**spelling.get(), "column": "--query-column {value}"})  # for errors about missing columns
    try:
        rows = read_rows(
            file,
            format="txt" if file == "-" else None,
            columns=dict([parse_column(f"text={column}")]) if column else None,
            needed="text",
            types={"text": str},
            encoding=encoding or None,
        )
        return tuple(row["text"] for row in rows)
    finally:
        spelling.reset(form)


def valid_rows(rows: Rows) -> Iterator[Row]:
    """The rows of the corpus; a bad one raises."""
    for item in rows_and_errors(rows):
        if isinstance(item, DataError):
            raise item
        yield item


def as_records(hits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"row": hit["corpus_id"], "score": hit["score"], "text": hit["text"]} for hit in hits]


def print_hits(queries: Sequence[str], hits: list[list[dict[str, Any]]]) -> None:
    for number, (query, found) in enumerate(zip(queries, hits, strict=True)):
        if number:
            print()
        print_heading(short(query))
        lines = [
            (place, f"{hit['score']:.4f}", hit["corpus_id"], short(hit["text"])) for place, hit in enumerate(found, 1)
        ]
        print_table(("#", "score", "row", "text"), lines, right=(0, 1, 2))


# --- with an index ----------------------------------------------------------------------------------------------------


def make_index(encoder: SentenceEncoder, rows: Rows, index: str, about: dict[str, Any], restart: bool) -> None:
    """Write the vectors of the corpus, with the prompt for what is searched if the model has one."""
    from ...tasks.sentences.sentence_encoder import DOCUMENT
    from ..rows.npy_file import check_name

    check_name(index)
    name = encoder.prompt_for(DOCUMENT, {}).get("prompt_name")
    about = {**about, "prompt_name": name, "normalize": False}
    write_vectors(task_of(encoder, name), rows, index, about, restart, None)


def search_index(
    encoder: SentenceEncoder, rows: Rows, queries: Sequence[str], top_k: int, index: Path
) -> list[list[dict[str, Any]]]:
    """Search the vectors of a file; the texts are read for the results, and to check that they belong to it."""
    import torch

    vectors = open_vectors(index, encoder.get_sentence_embedding_dimension())
    hits = encoder.search(list(queries), vectors, top_k)
    checked = range(0, len(vectors), max(1, len(vectors) // CHECKED))
    wanted = {hit["corpus_id"] for found in hits for hit in found} | set(checked)
    task = task_of(encoder, None)
    texts, number = {}, -1
    for number, row in enumerate(valid_rows(rows)):
        if number in wanted:
            texts[number] = task.read(row)["text"]
    if number + 1 != len(vectors):
        raise stale_index(index, f"it has {len(vectors):,} vectors and the corpus {number + 1:,} texts")
    paths = [source.path for source in rows.sources if source.path is not None]
    if any(path.stat().st_mtime > index.stat().st_mtime for path in paths):
        raise stale_index(index, "it is older than the corpus")
    again = torch.stack([each.vector for each in encoder.stream_documents([texts[place] for place in checked])]).numpy()
    if not equal_up_to_rounding(vectors[list(checked)], again, encoder.similarity_fn_name == "cosine"):
        raise stale_index(index, "its vectors are not those of these texts by this model")
    return [[{**hit, "text": texts[hit["corpus_id"]]} for hit in found] for found in hits]


def open_vectors(index: Path, width: int) -> numpy.ndarray:
    """The vectors of a .npy file, memory-mapped."""
    import numpy

    from ...checkpoints.files import reason_of

    try:
        vectors = numpy.load(index, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "it is damaged or not such a file"
        raise DamagedFileError(f"{index} cannot be read as a .npy file: {why}") from None
    if not isinstance(vectors, numpy.ndarray) or vectors.ndim != 2 or vectors.dtype != numpy.float32:
        raise DamagedFileError(f"{index} does not hold vectors in float32")
    if vectors.shape[1] != width:
        raise stale_index(index, f"its vectors have {vectors.shape[1]} numbers and those of the model {width}")
    return vectors


def equal_up_to_rounding(held: numpy.ndarray, again: numpy.ndarray, only_directions: bool) -> bool:
    """Whether vectors are equal up to rounding."""
    import numpy

    if only_directions:
        held, again = (each / numpy.linalg.norm(each, axis=1, keepdims=True).clip(1e-12) for each in (held, again))
    errors = numpy.linalg.norm(held - again, axis=1)
    return bool((errors <= ROUNDING * numpy.linalg.norm(again, axis=1).clip(1e-12)).all())


def stale_index(index: Path, reason: str) -> InputError:
    replacing = command_with("--restart")
    return InputError(
        f"{index} is no index of this corpus by this model: {reason}; name another file, or replace it: {replacing}"
    )
