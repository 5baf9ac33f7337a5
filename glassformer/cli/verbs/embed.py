"""`glass embed`: a vector for each text, for files of any length."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

from tyro.conf import Positional, arg

from ...errors import DataError, InputError
from ..arguments import Dtype
from ..output.terminal import counted, print_json
from ..rows.input_rows import RowInput, answer_rows, known_count, rows_and_errors
from ..rows.ray_run import RayOptions, with_address

if TYPE_CHECKING:
    from ...data.readers import Rows
    from ...tasks.sentences.sentence_embedding import EmbeddingTask
    from ...tasks.sentences.sentence_encoder import SentenceEncoder

log = logging.getLogger("glassformer")

BLOCK = 4096  # vectors per write
WRITE_INTERVAL = 1.0  # seconds after which fewer are written


def embed(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    row_input: Annotated[RowInput, arg(name="")] = RowInput(),  # noqa: B008
    output: Annotated[str, arg(metavar="FILE", aliases=["-o"])] = "",
    prompt_name: Annotated[str | None, arg(metavar="NAME")] = None,
    normalize: bool = False,
    restart: bool = False,
    tokens_per_batch: Annotated[int | None, arg(metavar="N", aliases=["--batch-tokens"])] = None,
    device: Annotated[str | None, arg(metavar="DEVICE")] = None,
    dtype: Dtype = "float32",
    ray_options: Annotated[RayOptions, arg(name="")] = RayOptions(),  # noqa: B008
    json: bool = False,
) -> int:
    """Turn texts into vectors: one row of a .npy file for each text.

    MODEL is a Sentence-BERT folder, or any checkpoint, whose token vectors are then averaged. Memory stays the same
    however long the input is. The same command resumes a run that was stopped.

    examples:
      glass embed ./all-MiniLM-L6-v2 --input texts.txt --output vectors.npy
      glass embed ./all-MiniLM-L6-v2 --input news.csv --columns text=title --output vectors.npy
      zcat texts.gz | glass embed ./all-MiniLM-L6-v2 --input - --output vectors.npy
      glass embed ./all-MiniLM-L6-v2 "A cat sleeps." --json
      glass embed ./all-MiniLM-L6-v2 --input news/ --output vectors/ --ray --workers 4

    Args:
        model: A checkpoint folder or a name on the hub.
        texts: Texts whose vectors are printed, one in each line. Put -- before one that starts with a dash.
        output: The .npy file to write, for --input; with --ray a folder for parquet files.
        prompt_name: Which of the model's own prompts to put before every text, such as query.
        normalize: Scale every vector to length 1.
        restart: Start again even if a result exists.
        tokens_per_batch: How many tokens go through the model at once.
        device: Where to compute, such as cpu or cuda.
        dtype: What products are computed in. bfloat16 and int8 are faster on processors that support them, and have
            about three and two digits, not seven.
        json: Print JSON: the vectors of TEXT, or what was written to a file.
    """
    if bool(texts) == bool(row_input.input):
        raise InputError("give texts, or --input with a file of texts" + (", not both" if texts else ""))
    ray_options.check(bool(row_input.input), output)
    if bool(row_input.input) != bool(output):
        raise InputError("--input with a file of texts and --output with a .npy file belong together")
    if tokens_per_batch is not None and tokens_per_batch < 1:
        raise InputError(f"--tokens-per-batch must be 1 or more, got {tokens_per_batch}")
    if texts:
        print_vectors(load(model, device, dtype), texts, prompt_name, normalize, json)
        return 0
    if not ray_options.ray:
        from ..rows.npy_file import check_name

        check_name(output)
    rows = row_input.rows(["text"])
    if ray_options.ray:
        options = {"prompt_name": prompt_name, "normalize": normalize}
        predictor = ray_options.predictor("embed", model, dtype, device, options)
        summary = ray_options.run(predictor, rows, output, row_input.settings(), restart)
        print_json(summary) if json else print(f"{output}: {counted(summary['rows'], 'vector')} written in this run")
        return 0
    task = task_of(load(model, device, dtype), prompt_name)
    about = {"model": model, "dtype": dtype, "prompt_name": prompt_name, "normalize": normalize, **row_input.settings()}
    summary = write_vectors(task, rows, output, about, restart, tokens_per_batch)
    if json:
        print_json(summary)
    else:
        print(f"{output}: {counted(summary['count'], 'vector')} of {summary['width']} numbers")
    return 0


embed.prepare = with_address  # type: ignore[attr-defined]


def load(model: str, device: str | None, dtype: str = "float32") -> SentenceEncoder:
    from ... import SentenceEncoder
    from ...tasks.pipeline import read_device

    encoder = SentenceEncoder.from_pretrained(model, dtype=dtype)
    return encoder if device is None else encoder.to(read_device(device))


def task_of(encoder: SentenceEncoder, prompt_name: str | None) -> EmbeddingTask:
    """Texts to vectors as `encoder.encode` makes them: a text that is too long is cut, with a warning."""
    from ...tasks.sentences.sentence_embedding import EmbeddingTask

    return EmbeddingTask(encoder, prompt=encoder.prompt(prompt_name, None))


def print_vectors(
    encoder: SentenceEncoder, texts: tuple[str, ...], prompt_name: str | None, normalize: bool, as_json: bool
) -> None:
    found = encoder.stream(list(texts), prompt_name, normalize_embeddings=normalize)
    for text, each in zip(texts, found, strict=True):
        numbers = each.vector.tolist()
        if as_json:
            print_json({"text": text, "truncated": each.truncated, "vector": numbers}, indent=None)
        else:
            print(*(f"{number:.6f}" for number in numbers))
        if each.truncated:
            log.warning("a text is longer than %d tokens and was cut", encoder.max_seq_length)


def write_vectors(
    task: EmbeddingTask, rows: Rows, output: str, about: dict[str, Any], restart: bool, budget: int | None
) -> dict[str, Any]:
    """Write the vectors of all rows to a file, after those of an earlier run."""
    from ..rows.npy_file import HEADER_BYTES, complete, complete_vectors
    from ..rows.resumable_run import Run, fingerprint_of_model, fingerprint_of_rows

    files = {"rows": fingerprint_of_rows(rows), "weights": fingerprint_of_model(about["model"])}
    width = task.encoder.get_sentence_embedding_dimension()
    run = Run(output, growing=f"{output}.part", start=HEADER_BYTES)
    run.start_or_resume({**about, **files}, restart)
    with run.opened() as file:
        first = complete_vectors(file, width)
        cut, first_cut = append_all(file, task, rows, first, about["normalize"], budget)
        count = complete(file, width)
    run.complete()
    if cut:
        message = "%d of %d texts are longer than %d tokens and were cut; the first is %s"
        log.warning(message, cut, count - first, task.limit, first_cut)
    return {"output": output, "count": count, "width": width, "resumed_at": first}


def append_all(
    file: BinaryIO, task: EmbeddingTask, rows: Rows, first: int, normalize: bool, budget: int | None
) -> tuple[int, str]:
    """Write the vectors of the rows from number `first` on; how many texts were cut, and the place of the first."""
    import torch.nn.functional as F

    from ...tasks.progress import show_progress
    from ..rows.npy_file import append

    items = rows_and_errors(rows)
    for _ in range(first):
        if next(items, None) is None:
            raise InputError(f"{first} vectors are written, and the input has fewer rows now")
    answers = answer_rows(task, items, refuse, first=first, budget=budget)
    batch, cut, first_cut, due = [], 0, "", time.monotonic() + WRITE_INTERVAL
    try:
        for _, row, each in show_progress(answers, known_count(rows), True, "embed", first):
            batch.append(F.normalize(each.vector, dim=-1) if normalize else each.vector)
            if each.truncated:
                cut, first_cut = cut + 1, first_cut or row.place
            if len(batch) == BLOCK or time.monotonic() >= due:
                append(file, batch)
                batch, due = [], time.monotonic() + WRITE_INTERVAL
    finally:  # at a bad row, too, what was computed is kept
        if batch:
            append(file, batch)
    return cut, first_cut


def refuse(fault: DataError) -> None:
    """A row without a vector would shift all that follow."""
    raise fault
