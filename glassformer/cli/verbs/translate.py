"""`glass translate`: texts in another language, and the attention of the translator."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ...errors import InputError
from ..arguments import check_page_path
from ..output.terminal import print_json

if TYPE_CHECKING:
    from ...tasks.generation.translation import Translation

MAX_PAGE_TEXTS = 20
MAX_WORDS = 20  # new ones in a note
NOTES = {"truncated": "were cut", "unfinished": "reached the length limit", "empty": "are empty, and stay empty"}


def translate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    input: Annotated[str, arg(metavar="FILE")] = "",
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    num_beams: Annotated[int, arg(metavar="N", aliases=["--beams"])] = 1,
    max_new_tokens: Annotated[int | None, arg(metavar="N")] = None,
    truncation: bool = False,
    page: Annotated[Path | None, arg(metavar="FILE.html")] = None,
    picture: Annotated[Path | None, arg(metavar="FILE.png")] = None,
    heads: Annotated[str | None, arg(metavar="KIND")] = None,
    json: bool = False,
) -> int:
    """Translate texts, the lines of a file or those of standard input; a page or a picture shows the attention.

    Every input line gives one output line. For columns of tables there is `glass predict translation`.

    examples:
      glass translate ./de-en "Ein Hund schläft." --num-beams 5
      glass translate ./de-en "Ein Hund schläft." --page look.html --picture look.svg
      glass translate ./de-en "Ein Hund schläft." --picture heads.png --heads cross
      glass translate ./de-en --input lines.de > lines.en
      cat lines.de | glass translate ./de-en > lines.en

    Args:
        model: The folder of a trained encoder-decoder.
        texts: What to translate; put -- before one that starts with a dash. None: the lines of standard input.
        input: A file whose lines to translate, also compressed (.gz); - is standard input.
        encoding: What the file is written in, such as gbk or utf-16; UTF-8 if not given.
        num_beams: How many beams to search; 1 is greedy search.
        max_new_tokens: How many tokens a translation may have.
        truncation: Cut texts that are longer than the model, which are refused otherwise.
        page: Write a page with all attentions of each text, of the first 20 if there are more.
        picture: Write a picture (.png or .svg) of the first text's alignment.
        heads: With --picture: each layer and head of one kind, cross, encoder or decoder, instead of the mean.
        json: Print JSON.
    """
    from ...tasks.generation.translation import Translation

    check_outputs(page, picture, heads)
    rows = rows_of(texts, input, encoding)
    settings: dict[str, Any] = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    settings["split_special_tokens"] = not texts  # a file may come from anyone
    task = Translation.from_pretrained(model, num_beams=num_beams, truncation=truncation, **settings)
    found: list[dict[str, Any]] = []
    counts, aligned, count = dict.fromkeys(NOTES, 0), [], 0
    new_words: dict[str, None] = {}
    for text, answer in translated(task, rows, live=not texts and input in ("", "-")):
        count += 1
        unknown = unknown_words(task, text)
        new_words |= dict.fromkeys(unknown)
        for name in NOTES:
            counts[name] += bool(answer.get(name))
        if not answer.get("empty") and len(aligned) < MAX_PAGE_TEXTS:
            aligned.append(text)
        if json:
            found.append({"source": text, **answer, **({"unknown_words": unknown} if unknown else {})})
        else:
            print(answer["translation_text"], flush=True)
    if json:
        print_json(found)
    for name, message in NOTES.items():
        if counts[name] and not json:
            print_note(f"{counts[name]} of {count} texts {message}")
    if new_words and not json:
        more = f" and {len(new_words) - MAX_WORDS} more" if len(new_words) > MAX_WORDS else ""
        print_note(f"these words are new to the model: {', '.join(list(new_words)[:MAX_WORDS])}{more}")
    if page is not None or picture is not None:
        show(task, aligned, page, picture, heads)
    return 0


def check_outputs(page: Path | None, picture: Path | None, heads: str | None) -> None:
    """Refuse a page or a picture that could not be written, before anything is translated."""
    if page is not None:
        check_page_path("--page", page)
    if picture is not None:
        from ...explain.pages.image_files import checked_path, pyplot

        checked_path(picture)
        pyplot()
    if heads is not None:
        from ...explain.analysis.alignment import check_kind

        if picture is None:
            raise InputError("--heads selects what --picture shows: give --picture too")
        check_kind(heads)


def rows_of(texts: tuple[str, ...], input: str, encoding: str | None) -> Iterable[dict[str, str]]:
    """What to translate; a row of a file knows its place there."""
    from ...data.readers import read_rows

    if texts and input:
        raise InputError("give texts, or --input with a file of lines, not both")
    if texts and encoding:
        raise InputError("--encoding is for --input with a file of lines")
    if texts:
        for text in texts:
            if Path(text).suffix and Path(text).is_file():
                print_note(f"{text} is translated as a text; --input {text} translates the lines of that file")
        return [{"source": text} for text in texts]
    if not input and sys.stdin.isatty():
        print_note("translating the lines that you type; Ctrl-D ends")
    return (row.but({"source": row["text"]}) for row in read_rows(input or "-", format="txt", encoding=encoding))


def translated(task: Translation, rows: Iterable[dict[str, str]], live: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every text and its answer, as soon as it is there; an empty line has an empty one, so that lines keep their
    places."""
    from ...data.standard_input import would_wait
    from ...tasks.inference import answers

    pending: deque[str] = deque()
    left, is_exhausted = iter(rows), False

    def arrived_rows() -> Iterator[dict[str, str]]:
        """The rows up to one that is awaited, without empty ones."""
        nonlocal is_exhausted
        for row in left:
            pending.append(row["source"])
            if row["source"].strip():
                yield row
            if live and would_wait():
                return
        is_exhausted = True

    def empty_lines() -> Iterator[tuple[str, dict[str, Any]]]:
        while pending and not pending[0].strip():
            yield pending.popleft(), {"translation_text": "", "empty": True}

    while not is_exhausted:
        for answer in answers(task, arrived_rows()):
            yield from empty_lines()
            yield pending.popleft(), answer
        yield from empty_lines()


def unknown_words(task: Translation, text: str) -> list[str]:
    """The words of a text that its tokenizer reads as the unknown token, and the model therefore cannot tell apart."""
    tokenizer = task.tokenizer
    if tokenizer.unk_token is None or not text.strip():
        return []
    special = {"add_special_tokens": False, "split_special_tokens": True}
    (encoded,) = tokenizer([text], **special, verbose=False).encodings
    places = zip(encoded.ids(), encoded.offsets(), strict=True)
    return list(dict.fromkeys(text[start:end] for token, (start, end) in places if token == tokenizer.unk_token_id))


def print_note(message: str) -> None:
    print(f"glass: note: {message}", file=sys.stderr)


def show(task: Translation, texts: list[str], page: Path | None, picture: Path | None, heads: str | None) -> None:
    """Write the requested page and pictures of the attention."""
    from ...explain.analysis.alignment import align
    from ...explain.pages.alignment_page import write_alignments
    from ...explain.pages.image_files import draw_alignment, draw_heads

    if not texts:
        raise InputError("there is no text whose attention could be shown")
    alignments = [align(task, text) for text in (texts if page is not None else texts[:1])]
    if page is not None:
        write_alignments(alignments, page)
        print(f"glass: the attentions are in {page}", file=sys.stderr)
    if picture is not None:
        if heads is None:
            draw_alignment(alignments[0], picture)
        else:
            draw_heads(alignments[0], heads, picture)
        print(f"glass: the picture is {picture}", file=sys.stderr)
