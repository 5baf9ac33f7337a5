"""`glass explain`: which tokens an answer depends on."""

from __future__ import annotations

import json as json_format
import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ...tasks.task_registry import task_class
from ..arguments import check_page_path
from ..output.answer_table import cell
from ..output.terminal import print_coloured, print_heading, print_table
from ..rows.input_rows import RowInput
from .predict import load, read_options, report_truncated, row_of
from .search import valid_rows

if TYPE_CHECKING:
    from ...explain.analysis.answer_explanation import AnswerExplanation

log = logging.getLogger("glassformer")

MAX_PAGE_ROWS = 50
BAR = 12  # characters of the longest bar


def explain(
    task: Positional[Annotated[str, arg(metavar="TASK")]],
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    row_input: Annotated[RowInput, arg(name="")] = RowInput(),  # noqa: B008
    method: Literal["integrated-gradients", "occlusion", "input-x-gradient", "saliency"] = "integrated-gradients",
    target: Annotated[str | None, arg(metavar="ANSWER")] = None,
    position: Annotated[int | None, arg(metavar="N")] = None,
    steps: Annotated[int | None, arg(metavar="N")] = None,
    truncation: bool = False,
    option: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=VALUE")]] = (),
    limit: Annotated[int | None, arg(metavar="N")] = None,
    page: Annotated[Path | None, arg(metavar="FILE.html")] = None,
    device: Annotated[str | None, arg(metavar="DEVICE")] = None,
    json: bool = False,
) -> int:
    """Show which tokens an answer depends on: each raises it (+) or lowers it (-).

    Tasks: text-classification, next-sentence, token-classification (ner), question-answering, fill-mask,
    text-generation (the next word).

    Scores of integrated gradients add up to the difference between the answer and the answer to a hidden text. What
    they really add up to is always shown; if the two differ much, the scores are not to be trusted.

    examples:
      glass explain text-classification ./sst2 "so good" "not so good"
      glass explain ner ./tagger "Ada lives in London" --method occlusion
      glass explain question-answering ./squad "Who wrote it?" "It was written by Ada." --page why.html
      glass explain fill-mask ./bert-base-uncased "Paris is the [MASK] of France." --target capital
      glass explain text-generation ./gpt2 "The cat sat on the" --json
      glass explain text-classification ./sst2 --input mail.csv --columns text=body --limit 20 --page why.html

    Args:
        task: What the model does.
        model: A checkpoint folder or a name on the hub.
        texts: Texts, each explained; the columns of one row for a task that reads several, such as question and
            context. Put -- before one that starts with a dash.
        row_input: Rows from files instead of TEXT.
        method: integrated-gradients: gradients summed along the way from a hidden text; occlusion: how much lower the
            answer is when a token is hidden; input-x-gradient: a quick first guess; saliency: how sensitive the answer
            is to a token, without a direction.
        target: Another answer than the model's own: a label, a word, or a part of the context.
        position: The token in question, from 0: of a tagger (if not given, that of its surest entity), or of several
            masks.
        steps: The steps of integrated gradients; if not given, they are doubled until the scores add up.
        truncation: Cut texts that are longer than the model, which are refused otherwise.
        option: An option of the task; can be given several times.
        limit: Read only the first N rows.
        page: Write a page with the texts in colours.
        device: Where to compute, such as cpu or cuda.
        json: Print JSON, an object in each line.
    """
    kind = task_class(task)
    if bool(texts) == bool(row_input.input):
        raise InputError("give texts, or --input with a file of rows" + (", not both" if texts else ""))
    if limit is not None and (texts or limit < 1):
        raise InputError(f"--limit is for --input, and must be 1 or more, got {limit}")
    if page is not None:
        check_page_path("--page", page)
    from ...explain.analysis.answer_explanation import explain_answer

    options = {**({"truncation": True} if truncation else {}), **read_options(task, option)}
    rows: Iterable[Any] = row_of(task, texts) if texts else valid_rows(row_input.rows(kind.columns.inputs))
    worker = load(task, model, device, "float32", options, from_file=not texts)
    explained: Iterator[AnswerExplanation] = (
        explain_answer(worker, row, method=method, target=target, position=position, steps=steps)
        for row in islice(rows, limit)
    )
    kept: list[AnswerExplanation] = []
    truncated = count = 0
    for count, each in enumerate(explained, 1):
        if each.is_unreliable:
            log.warning("the scores of answer %d do not add up: off by %.0f %%", count, 100 * each.attribution.error)
        truncated += each.truncated
        if json:
            print(json_format.dumps({"row": count - 1, **each.to_dict()}, ensure_ascii=False), flush=True)
        else:
            show(each, is_first=count == 1)
        if len(kept) < MAX_PAGE_ROWS:
            kept.append(each)
    report_truncated(truncated, count)
    if page is not None:
        write_page(kept, count, model, page)
        if not json:
            print(f"wrote {page}")
    return 0


def show(explanation: AnswerExplanation, is_first: bool) -> None:
    """The answer, the text in colours, the score of each token, and what they add up to."""
    from ...explain.pages.attribution_page import spaced_tokens, strengths

    found = explanation.attribution
    if not is_first:
        print()
    print_heading(f"{cell(found.target)}: {found.value:.4f}")
    shares = strengths(found)
    print_coloured(
        [(before + cell(text), share) for (before, text), share in zip(spaced_tokens(found), shares, strict=True)]
    )
    rows = [
        (number, cell(token), f"{score:+.4f}", ("+" if share > 0 else "-") * round(BAR * abs(share)))
        for number, (token, score, share) in enumerate(zip(found.tokens, found.scores, shares, strict=True))
    ]
    print_table(("#", "token", "score", ""), rows, right=(0, 2))
    print(f"{found.method}: {explanation.summary}")


def write_page(explanations: list[AnswerExplanation], count: int, model: str, path: Path) -> None:
    from ...checkpoints.files import write_atomically
    from ...explain.pages.attribution_page import explanation_page

    write_atomically(path, explanation_page(explanations, model))
    if count > len(explanations):
        log.warning("%s shows the first %d of %d rows", path, len(explanations), count)
