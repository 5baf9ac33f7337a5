"""`glass demo`: trains a small Transformer to translate, without a network or a file."""

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

    Everything is created here: a corpus of numbers and dates in English and Chinese words, a vocabulary, a model
    of less than half a million parameters. Less than three minutes on two cores; then it translates what you type.

    examples:
      glass demo
      glass demo "the third of may two thousand and five" 九十九万九千
      glass demo --again --steps 300

    Args:
        texts: What to translate at the end, numbers below a million or dates from 1900 to 2099, in either language.
        output: The folder for the model and its page; an existing model is used.
        steps: How many steps to train; a run that was stopped is resumed.
        again: Train a new model although there is one.
        json: Print JSON.
    """
    from ...explain.analysis.alignment import align
    from ...explain.pages.alignment_page import write_alignments

    if steps < 1:
        raise InputError(f"--steps must be a whole number of at least 1, got {steps}")
    for text in texts:
        if not normalise(text):
            raise InputError(f"there is nothing to translate in {text!r}")
    report = print_nothing if json else print_steps
    start = time.perf_counter()
    train_pairs, validation_pairs, test_pairs = demo_model.corpus()
    demo_model.write_corpus(output, train_pairs, [*validation_pairs, *test_pairs])
    task = demo_model.load_trained(output, again)
    if task is None:
        task = demo_model.train(output, train_pairs, validation_pairs, steps, report)
    else:
        report(f"The model in {output} was trained before; --again trains a new one.")
    task, trained = task.with_options(truncation=True), time.perf_counter()
    report("", f"4. It is evaluated on {len(test_pairs)} numbers and dates that it has never seen in any form")
    accuracy = demo_model.evaluate(task, test_pairs)
    report(f"  {accuracy:.1%} of its translations are right to the letter")

    answers = [align(task, normalise(text)) for text in texts or EXAMPLES]
    page = write_alignments(answers, output / PAGE, title="A Transformer translates numbers and dates")
    summary = {
        "exact_match": accuracy,
        "held_out": len(test_pairs),
        "translations": {answer.text: answer.written for answer in answers},
        "model": str(output),
        "page": str(page),
        "seconds": {"training": trained - start, "all": time.perf_counter() - start},
    }
    if json:
        print_json(summary)
        return 0
    show(task, summary)
    if sys.stdin.isatty() and sys.stdout.isatty():
        translate_typed_lines(task)
    print_next_steps(output, **summary["seconds"])
    return 0


def show(task: Translation, summary: dict[str, Any]) -> None:
    """Print translations, and the page that shows their attention."""
    print_steps("", "5. It translates")
    print_table(("source", "translation"), list(summary["translations"].items()))
    for text in summary["translations"]:
        print_limits(task, text)
    print_steps("", "6. Its attention")
    print(f"  {summary['page']} shows, for each word that it wrote, the words of the source that it attended to")


def print_next_steps(folder: Path, training: float, all: float) -> None:
    glass = command_name()
    print(f"""
Time: training {training:.0f} s, all together {all:.0f} s

Try next:
  {glass} translate {folder} "nine hundred thousand and one" --page look.html
  {glass} inspect {folder}
  {glass} train translation --model new:rnn --tokenizer new:wordpiece --data {folder}/train.tsv \\
    --eval {folder}/test.tsv --options.bleu_tokenize=zh --learning-rate 2e-3 --max-steps 600 \\
    --output-dir {folder}-rnn""")


def print_steps(*lines: str) -> None:
    """Print lines, numbered ones as headings."""
    for line in lines:
        (print_heading if re.match(r"\d\. ", line) else print)(line)


def print_nothing(*lines: str) -> None:
    """Standard output is for JSON alone."""


def normalise(text: str) -> str:
    """A text in the spelling of the corpus.

    >>> normalise("Twenty-One,  or so.")
    'twenty one or so'
    """
    return " ".join(re.sub(r"[-,.，。]", " ", text.lower()).split())


def print_limits(task: Translation, text: str) -> None:
    """Print what the model did not read of a text, and which words are not in its vocabulary."""
    from ...data.number_words import unknown_words

    (example,) = task.encode({"source": text})
    if example.encoded.truncated:
        print(f"  It reads {task.limit} tokens and no more: the rest was cut off")
    unknown = unknown_words(text)
    if unknown:
        print(f"  It knows numbers and dates only; these are new to it: {', '.join(unknown)}")


def translate_typed_lines(task: Translation) -> None:
    """Translate what is typed, until an empty line, the end of the input, or Ctrl-C."""
    from ...tasks.pipeline import Pipeline

    pipe = Pipeline(task)
    print()
    print("Type a number below a million or a date in words, English or Chinese; an empty line ends.")
    while True:
        try:
            text = normalise(input("> "))
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
        print_limits(task, text)


def command_name() -> str:
    """The name of this command: `glass`, or its path if the shell would not find it."""
    program = Path(sys.argv[0])
    in_path = shutil.which("glass")
    is_same = in_path is not None and program.exists() and Path(in_path).samefile(program)
    return "glass" if is_same or program.name != "glass" else str(program)
