"""`glass translate`: texts in another language, and where the translator looked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ..errors import InputError
from .show import print_json


def translate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    beams: Annotated[int, arg(metavar="N")] = 1,
    max_new_tokens: Annotated[int | None, arg(metavar="N")] = None,
    truncation: bool = False,
    page: Annotated[Path | None, arg(metavar="FILE.html")] = None,
    picture: Annotated[Path | None, arg(metavar="FILE.png")] = None,
    heads: Annotated[str | None, arg(metavar="KIND")] = None,
    json: bool = False,
) -> int:
    """Translate texts, or the lines of standard input; a page or a picture shows the attention.

    Whole files are the work of `glass predict translation MODEL --input FILE`.

    examples:
      glass translate ./de-en "Ein Hund schläft." --beams 5
      glass translate ./de-en "Ein Hund schläft." --page look.html --picture look.svg
      glass translate ./de-en "Ein Hund schläft." --picture heads.png --heads cross
      cat lines.de | glass translate ./de-en > lines.en

    Args:
        model: The folder of a trained encoder-decoder.
        texts: What to translate; put -- before one that starts with a dash. None: the lines of standard input.
        beams: How many continuations to follow at once; 1 takes the best word each time.
        max_new_tokens: How many tokens a translation may have.
        truncation: Cut texts that are longer than the model, which are refused otherwise.
        page: Write a page with all attentions of each text.
        picture: Write a picture (.png or .svg) of the first text's alignment.
        heads: With --picture: each layer and head of one kind, cross, encoder or decoder, in place of the mean.
        json: Print JSON.
    """
    from ..tasks.pipeline import Pipeline
    from ..tasks.translation import Translation

    if heads is not None and picture is None:
        raise InputError("--heads tells what is in the picture: give --picture too")
    given = list(texts) or [line.rstrip("\n") for line in sys.stdin]
    if not given:
        raise InputError("there is nothing to translate: give texts, or lines on standard input")
    settings = {} if max_new_tokens is None else {"max_new_tokens": max_new_tokens}
    task = Translation.from_pretrained(model, num_beams=beams, truncation=truncation, **settings)
    answers = Pipeline(task)(given, progress=False)
    if json:
        print_json([{"source": text, **answer} for text, answer in zip(given, answers, strict=True)])
    else:
        for answer in answers:
            print(answer["translation_text"])
        for name, told in (("truncated", "were cut"), ("unfinished", "ran out of room")):
            count = sum(bool(answer.get(name)) for answer in answers)
            if count:
                print(f"glass: note: {count} of {len(given)} texts {told}", file=sys.stderr)
    if page is not None or picture is not None:
        show(task, given, page, picture, heads)
    return 0


def show(task, texts: list[str], page: Path | None, picture: Path | None, heads: str | None) -> None:
    """Write what was asked for about the attention."""
    from ..explain.alignment import align, draw_alignment, draw_heads, write_page

    seen = [align(task, text) for text in (texts if page is not None else texts[:1])]
    if page is not None:
        write_page(seen, page)
        print(f"glass: the attentions are in {page}", file=sys.stderr)
    if picture is not None:
        if heads is None:
            draw_alignment(seen[0], picture)
        else:
            draw_heads(seen[0], heads, picture)
        print(f"glass: the picture is {picture}", file=sys.stderr)
