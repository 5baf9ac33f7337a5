"""`glass demo`: a Transformer that learns to translate before your eyes, without a network or a file."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ...errors import GlassformerError, InputError
from .. import demo_model
from ..output.terminal import print_heading, print_json, print_table

if TYPE_CHECKING:
    from ...tasks.generation.translation import Translation

EXAMPLES = (
    "the twenty first of march nineteen eighty four",
    "seven hundred and twelve thousand and six",
    "二零二六年十一月十七日",
    "三十四万零五百零六",
)
PAGE = "alignments.html"


def demo(
    texts: Positional[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = (),
    /,
    *,
    output: Annotated[Path, arg(metavar="FOLDER")] = Path("glass-demo"),
    steps: Annotated[int, arg(metavar="N")] = demo_model.STEPS,
    again: bool = False,
    json: bool = False,
) -> int:
    """Train a small Transformer to translate numbers and dates, evaluate it, and show its attention.

    Everything is made on the spot: a corpus of numbers and dates in English and Chinese words, a vocabulary, a model
    of less than half a million parameters. Less than three minutes on two cores; then it translates what you type.

    examples:
      glass demo
      glass demo "the third of may two thousand and five" 九十九万九千
      glass demo --again --steps 300

    Args:
        texts: What to translate at the end, numbers below a million or dates from 1900 to 2099, in either language.
        output: The folder for the model and its page; a model that is there already is used.
        steps: How long to train; a run that was stopped goes on.
        again: Train a new model although there is one.
        json: Print JSON.
    """
    from ...explain.analysis.alignment import align
    from ...explain.pages.alignment_page import write_alignments

    if steps < 1:
        raise InputError(f"--steps must be a whole number of at least 1, got {steps}")
    for text in texts:
        if not spelt(text):
            raise InputError(f"there is nothing to translate in {text!r}")
    report = discard if json else print_steps
    began = time.perf_counter()
    learnt, watched, unseen = demo_model.corpus()
    demo_model.write_corpus(output, learnt, [*watched, *unseen])
    task = demo_model.ready_made(output, again)
    if task is None:
        task = demo_model.train(output, learnt, watched, steps, report)
    else:
        report(f"The model in {output} was trained before; --again trains a new one.")
    task, trained = task.with_options(truncation=True), time.perf_counter()
    report("", f"4. It is evaluated on {len(unseen)} numbers and dates that it has never seen in any form")
    accuracy = demo_model.evaluate(task, unseen)
    report(f"  {accuracy:.1%} of its translations are right to the letter")

    answers = [align(task, spelt(text)) for text in texts or EXAMPLES]
    page = write_alignments(answers, output / PAGE, title="A Transformer translates numbers and dates")
    found = {
        "exact_match": accuracy,
        "held_out": len(unseen),
        "translations": {answer.text: answer.written for answer in answers},
        "model": str(output),
        "page": str(page),
        "seconds": {"training": trained - began, "all": time.perf_counter() - began},
    }
    if json:
        print_json(found)
        return 0
    show(task, found)
    if sys.stdin.isatty() and sys.stdout.isatty():
        listen(task)
    say_what_next(output, **found["seconds"])
    return 0


def show(task: Translation, found: dict[str, Any]) -> None:
    """Some of its translations, and where their attention is shown."""
    print_steps("", "5. It translates")
    print_table(("you show", "it says"), list(found["translations"].items()))
    for text in found["translations"]:
        warn(task, text)
    print_steps("", "6. Its attention")
    print(f"  {found['page']} shows, for each word that it wrote, the words of the source that it attended to")


def say_what_next(folder: Path, training: float, all: float) -> None:
    glass = program()
    print(f"""
Time: training {training:.0f} s, all together {all:.0f} s

Try next:
  {glass} translate {folder} "nine hundred thousand and one" --page look.html
  {glass} inspect {folder}
  {glass} train translation --model new:rnn --tokenizer new:wordpiece --data {folder}/train.tsv \\
    --eval {folder}/test.tsv --options.bleu_tokenize=zh --learning-rate 2e-3 --max-steps 600 \\
    --output-dir {folder}-rnn""")


def print_steps(*lines: str) -> None:
    """Print lines, those with a number at their beginning so that they stand out."""
    for line in lines:
        (print_heading if re.match(r"\d\. ", line) else print)(line)


def discard(*lines: str) -> None:
    """Standard output is for JSON alone."""


def spelt(text: str) -> str:
    """What was typed as the corpus spells it.

    >>> spelt("Twenty-One,  or so.")
    'twenty one or so'
    """
    return " ".join(re.sub(r"[-,.，。]", " ", text.lower()).split())


def warn(task: Translation, text: str) -> None:
    """Say what of a text the model did not read, and which words it cannot know."""
    from ...data.number_words import unknown_words

    (example,) = task.encode({"source": text})
    if example.encoded.truncated:
        print(f"  It reads {task.limit} tokens and no more: the rest was cut off")
    strange = unknown_words(text)
    if strange:
        print(f"  It knows numbers and dates only; these are new to it: {', '.join(strange)}")


def listen(task: Translation) -> None:
    """Translate what is typed, until an empty line, the end of the input, or Ctrl-C."""
    from ...tasks.pipeline import Pipeline

    pipe = Pipeline(task)
    print()
    print("Type a number below a million or a date in words, English or Chinese; an empty line ends.")
    while True:
        try:
            text = spelt(input("> "))
        except (EOFError, KeyboardInterrupt):
            print()
            return
        if not text:
            return
        try:
            answer: dict[str, Any] = pipe(text)[0]
        except GlassformerError as error:
            print(f"  {error}")
            continue
        print(f"  {answer['translation_text']}")
        warn(task, text)


def program() -> str:
    """How to call this command again: `glass`, or its path when the shell would not find it."""
    called = Path(sys.argv[0])
    found = shutil.which("glass")
    is_here = found is not None and called.exists() and Path(found).samefile(called)
    return "glass" if is_here or called.name != "glass" else str(called)
