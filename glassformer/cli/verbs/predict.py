"""`glass predict`: the answers of any task, for texts or for files of any length."""

from __future__ import annotations

import difflib
import inspect
import json as json_format
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import DataError, InputError, refuse_unknown
from ...tasks.task_registry import task_class, task_names
from ..arguments import Dtype, command_with
from ..output.answer_table import print_answers
from ..output.terminal import counted, print_json
from ..rows.input_rows import RowFormat, RowInput, answer_rows, known_count, reads_standard_input, rows_and_errors
from ..rows.ray_run import RayOptions, with_address
from .generate import parse_value

if TYPE_CHECKING:
    from ...data.file_row import Row, Skipped
    from ...data.readers import Rows
    from ...tasks.task import Task

log = logging.getLogger("glassformer")

FLUSH_INTERVAL = 1.0  # seconds


def predict(
    task: Positional[Annotated[str, arg(metavar="TASK")]],
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    row_input: Annotated[RowInput, arg(name="")] = RowInput(),  # noqa: B008
    output: Annotated[str, arg(metavar="FILE", aliases=["-o"])] = "-",
    truncation: bool = False,
    option: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=VALUE")]] = (),
    limit: Annotated[int | None, arg(metavar="N")] = None,
    on_bad: Literal["raise", "skip"] = "raise",
    restart: bool = False,
    tokens_per_batch: Annotated[int | None, arg(metavar="N", aliases=["--batch-tokens"])] = None,
    device: Annotated[str | None, arg(metavar="DEVICE")] = None,
    dtype: Dtype = "float32",
    ray_options: Annotated[RayOptions, arg(name="")] = RayOptions(),  # noqa: B008
    json: bool = False,
) -> int:
    """Classify, tag, answer, fill in, continue: any task, for texts or for files of rows.

    Tasks: text-classification (sentiment-analysis), token-classification (ner), question-answering, fill-mask,
    text-generation, translation (translation_en_to_de), summarization, text2text-generation, next-sentence,
    multiple-choice, zero-shot-classification, sentence-similarity, feature-extraction, replaced-token-detection,
    permutation-language-modeling, span-corruption, image-classification, image-feature-extraction,
    audio-classification, automatic-speech-recognition.

    Answers to a file are JSON, an object in each line: {"row": its number from 0, "answer": ...}, and the row's "id" if
    it has one, or its file if that holds this row alone. The same command resumes a run that was stopped; only
    --restart replaces a complete result. Lines of standard input are answered as they come.

    Some options of tasks: text-classification top_k; ner aggregation_strategy (simple, first, average, max),
    stride; question-answering top_k, handle_impossible_answer, doc_stride; fill-mask top_k, targets, whole_words;
    text-generation max_new_tokens, do_sample, top_p, num_beams; zero-shot-classification candidate_labels, multi_label.
    An unknown name is reported with the nearest ones.

    examples:
      glass predict text-classification ./sst2 "so good" "so bad"
      glass predict question-answering ./squad "Who wrote it?" "It was written by Ada."
      glass predict fill-mask ./bert-base-uncased "Paris is the [MASK] of France." --option top_k=3
      glass predict ner ./tagger "Ada lives in London" --option aggregation_strategy=simple
      glass predict zero-shot-classification ./mnli "The team won." --option candidate_labels=sports,politics
      glass predict image-classification ./vit cat.png dog.jpg --option top_k=3
      glass predict image-classification ./vit --input pictures/ --output found.jsonl
      glass predict ner ./tagger --input letters.csv --columns text=body --output found.jsonl
      cat lines.txt | glass predict text-classification ./sst2 --input - --on-bad skip > answers.jsonl
      glass predict text-classification ./sst2 --input rows/ --output answers/ --ray --workers 4 --keep id
      tail -f log.txt | glass predict text-classification ./sst2 --input -

    Args:
        task: What to do.
        model: A checkpoint folder or a name on the hub.
        texts: Texts, or files of pictures, each answered; the columns of one row for a task that reads several, such
            as question and context. Put -- before one that starts with a dash.
        row_input: Rows from files instead of TEXT.
        output: Where answers to --input go; - is standard output.
        truncation: Cut texts that are longer than the model, which are refused otherwise.
        option: An option of the task, such as top_k=3; can be given several times.
        limit: Read only the first N rows, for a first try.
        on_bad: What to do at a row that cannot be used: stop and report its file and line, or skip and count it.
        restart: Start again even if a result exists.
        tokens_per_batch: How many tokens go through the model at once.
        device: Where to compute, such as cpu or cuda.
        dtype: What products are computed in. bfloat16 and int8 are faster on processors that support them, and have
            about three and two digits, not seven.
        json: Print answers to TEXT as JSON too, an object in each line; with --output, what was written.
    """
    columns = task_class(task).columns.inputs  # raises if there is no such task
    if bool(texts) == bool(row_input.input):
        also = ", not both" if texts else " (- for standard input)"
        raise InputError(f"give texts, or --input with a file of rows{also}")
    if texts == ("-",):
        raise InputError("standard input is read by --input -")
    ray_options.check(bool(row_input.input), output)
    check_output(bool(texts), output, restart, on_bad, limit)
    if restart and output == "-":
        raise InputError("--restart is for --output with a file")
    for name, number in (("--tokens-per-batch", tokens_per_batch), ("--limit", limit)):
        if number is not None and number < 1:
            raise InputError(f"{name} must be 1 or more, got {number}")
    options = {**({"truncation": True} if truncation else {}), **read_options(task, option)}
    if texts:
        given = row_of(task, texts)
        worker = load(task, model, device, dtype, options)
        return answer_texts(worker, given, tokens_per_batch, json)
    rows = row_input.rows(columns)
    if ray_options.ray:
        if limit or on_bad != "raise":
            raise InputError("--limit and --on-bad skip are not for --ray: parts are fixed ranges of rows")
        predictor = ray_options.predictor(task, model, dtype, device, options)
        summary = ray_options.run(predictor, rows, output, row_input.settings(), restart)
        print_json(summary) if json else print(f"{output}: {counted(summary['rows'], 'answer')} written in this run")
        return 0
    worker = load(task, model, device, dtype, options, from_file=True)
    prediction = FilePrediction(worker, rows, on_bad, tokens_per_batch, limit)
    if output == "-":
        prediction.print()
        return 0
    about = {"task": worker.name, "model": model, "dtype": dtype, "options": options, "limit": limit}
    about |= row_input.settings()
    summary = prediction.write(output, about, restart)
    print_json(summary) if json else print(f"{output}: {counted(prediction.count, 'answer')}")
    return 0


def check_output(typed: bool, output: str, restart: bool, on_bad: str, limit: int | None) -> None:
    """Refuse options that contradict each other."""
    used = {"--output": output != "-", "--restart": restart, "--on-bad": on_bad != "raise", "--limit": bool(limit)}
    wrong = next((name for name, is_used in used.items() if is_used), None)
    if typed and wrong:
        raise InputError(f"{wrong} is for --input with a file of rows; answers to texts are printed, also with --json")
    if output.lower().endswith((".csv", ".tsv", ".parquet", ".npy")):
        raise InputError(f"answers are written as JSON, one in each line; name the file .jsonl, got {output!r}")


def prepare(arguments: Sequence[str]) -> list[str]:
    """Report how to pass an option of the task that was passed like one of the verb."""
    own = {*inspect.signature(predict).parameters, "input", *RowFormat.__dataclass_fields__, "help"}
    own |= {*RayOptions.__dataclass_fields__}
    task = next((each for each in arguments if each in task_names()), "")
    for each in takewhile(lambda each: task and each != "--", arguments):
        name = each.removeprefix("--").partition("=")[0].replace("-", "_")
        if each.startswith("--") and not difflib.get_close_matches(name, own, cutoff=0.8):
            close = difflib.get_close_matches(name, task_class(task).option_names(), n=1)
            if close:
                raise InputError(f"glass predict has no {each}; {task} has {close[0]}: --option {close[0]}=...")
    return with_address(arguments)


predict.prepare = prepare  # type: ignore[attr-defined]


# --- the task ---------------------------------------------------------------------------------------------------------


def read_options(task: str, given: Iterable[str]) -> dict[str, Any]:
    kind, options = task_class(task), {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--option takes NAME=VALUE, got {text!r}")
        refuse_unknown([name], kind.option_names(), kind.name)
        if name in options:
            raise InputError(f"--option {name} is given twice: {options[name]!r} and {value!r}")
        options[name] = parse_option_value(kind, name, value)
    return options


def parse_option_value(kind: type[Task], name: str, text: str) -> Any:
    """The value of an option: lists are separated by commas; none is None unless the option has such a value."""
    from ...train.recipes.recipe_text import read_option

    value = parse_value(text)
    spec = kind.Options.__dataclass_fields__.get(name)
    if spec is None or not isinstance(value, str):
        return value
    if "Sequence" in spec.type:
        return [parse_value(part.strip()) for part in value.split(",") if part.strip()] or value
    return read_option(kind, name, value)


def row_of(task: str, texts: tuple[str, ...]) -> list[Any]:
    """Typed texts as rows: each one, or all of them together where a row has several columns."""
    kind = task_class(task)
    needed = kind.columns.needed
    if len(needed) == 1:
        return list(texts)
    values: list[Any] = list(texts)
    if needed[-1] in kind.columns.lists and len(texts) >= len(needed):
        values[len(needed) - 1 :] = [list(texts[len(needed) - 1 :])]
    if len(values) != len(needed):
        raise InputError(f"{kind.name} reads {', '.join(needed)}: give a text for each, got {len(texts)}")
    return [dict(zip(needed, values, strict=True))]


def load(
    task: str, model: str, device: str | None, dtype: str, options: dict[str, Any], from_file: bool = False
) -> Task:
    from ...tasks.pipeline import pipeline

    worker = pipeline(task, model=model, device=device, dtype=dtype, **options).worker
    has_texts = "split_special_tokens" in worker.option_names()
    if from_file and has_texts and "split_special_tokens" not in options:  # a file may come from anyone
        worker = worker.with_options(split_special_tokens=not worker.needs_special_tokens)
    return worker


# --- answers to texts -------------------------------------------------------------------------------------------------


def answer_texts(worker: Task, given: list[Any], budget: int | None, as_json: bool) -> int:
    from ...tasks.inference import BUDGET, answers

    results = list(answers(worker, given, budget=budget or BUDGET, numbered=len(given) > 1))
    report_truncated(sum(map(is_truncated, results)), len(results))
    if as_json:
        for number, answer in enumerate(results):
            print(json_line(number, answer))
        return 0
    if worker.name.endswith("feature-extraction"):
        raise InputError(f"{worker.name} answers with many numbers; --json prints them")
    print_answers(worker.columns.needed, given, results)
    return 0


def is_truncated(answer: Any) -> bool:
    """Whether a text was cut for this answer, or for one of several."""
    first = answer[0] if isinstance(answer, list) and answer else answer
    return is_truncated(first) if isinstance(first, list) else isinstance(first, dict) and "truncated" in first


def report_truncated(cut: int, count: int) -> None:
    if cut:
        log.warning("%d of %d rows were cut to fit the model", cut, count)


def json_line(number: int, answer: Any, **more: Any) -> str:
    record = {"row": number, **more, "answer": answer}
    return json_format.dumps(record, ensure_ascii=False, default=lambda one: one.tolist())


# --- answers to files -------------------------------------------------------------------------------------------------


class FilePrediction:
    """The answers of a task to all rows of files."""

    def __init__(self, worker: Task, rows: Rows, on_bad: str, budget: int | None, limit: int | None) -> None:
        from ...data.file_row import Skipped

        self.worker, self.rows, self.on_bad, self.budget, self.limit = worker, rows, on_bad, budget, limit
        self.skipped: Skipped = Skipped()
        self.count = self.truncated = 0
        self.is_live = reads_standard_input(rows)

    def handle_bad_row(self, fault: DataError) -> None:
        if self.on_bad == "raise":
            raise fault
        self.skipped.add(fault)

    def lines(
        self, items: Iterator[Row | DataError], first: int, show: bool | None, total: int | None
    ) -> Iterator[str]:
        from ...data.file_row import WholeFileRow
        from ...data.standard_input import would_wait
        from ...tasks.progress import show_progress

        waits = would_wait if self.is_live else None
        found = answer_rows(self.worker, items, self.handle_bad_row, first=first, budget=self.budget, would_wait=waits)
        for number, row, answer in show_progress(found, total, show, self.worker.name, first):
            self.count += 1
            self.truncated += is_truncated(answer)
            named = {"id": row["id"]} if "id" in row else {"id": row.file} if isinstance(row, WholeFileRow) else {}
            yield json_line(number, answer, **named)

    def items(self) -> Iterator[Row | DataError]:
        return islice(rows_and_errors(self.rows), self.limit)

    def print(self) -> None:
        show = False if sys.stdout.isatty() else None
        for line in self.lines(self.items(), 0, show, None):
            print(line, flush=True)
        self.report()

    def write(self, output: str, about: dict[str, Any], restart: bool) -> dict[str, Any]:
        """Write the answers to a file, after those of an earlier run."""
        from ..rows.resumable_run import Run, fingerprint_of_model, fingerprint_of_rows

        files = {"rows": fingerprint_of_rows(self.rows), "weights": fingerprint_of_model(about["model"])}
        run = Run(output)
        run.start_or_resume({**about, **files}, restart)
        with run.opened() as file:
            first, self.count = complete_lines(file, run.output)
            self.skipped.count = first - self.count
            items = self.items()
            total = min((count for count in (known_count(self.rows), self.limit) if count is not None), default=None)
            for _ in range(first):
                if next(items, None) is None:
                    raise InputError(f"{output} holds {first} answers, and the input has fewer rows now")
            due = time.monotonic() + FLUSH_INTERVAL
            for line in self.lines(items, first, True, total):
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")  # lone surrogates stay escaped
                if time.monotonic() >= due or self.is_live:
                    file.flush()
                    due = time.monotonic() + FLUSH_INTERVAL
            self.report()
        run.complete()
        return {"output": output, "count": self.count, "skipped": self.skipped.count, "resumed_at": first}

    def report(self) -> None:
        report_truncated(self.truncated, self.count)
        if self.skipped.count and not self.count:
            raise DataError(f"not one row could be used: {self.skipped}")
        if self.skipped.count:
            log.warning("%s", self.skipped)


def complete_lines(file: BinaryIO, path: Path) -> tuple[int, int]:
    """The number of the next row, and how many are answered; an incomplete last line is cut off."""
    count = end = 0
    last = b""
    for line in file:
        if line.endswith(b"\n"):
            count, end, last = count + 1, end + len(line), line
    file.truncate(end)
    file.seek(end)
    if not count:
        return 0, 0
    try:
        return json_format.loads(last)["row"] + 1, count
    except (ValueError, KeyError, TypeError):
        again = command_with("--restart")
        raise InputError(f"the last line of {path} is no answer of an earlier run; to start again: {again}") from None
