"""`glass demo`: a Transformer that learns to translate before your eyes, without a network or a file."""

from __future__ import annotations

import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from ..errors import GlassformerError, InputError
from .show import print_heading, print_json, print_table

if TYPE_CHECKING:
    from ..data.spoken import Pair
    from ..tasks.translation import Translation

MEANINGS, HELD_OUT, WATCHED = 5000, 600, 100
SHAPE = {"hidden_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 256}
STEPS = 1400
SETTINGS: dict[str, Any] = {
    "tokens_per_batch": 2048,
    "learning_rate": 2e-3,
    "adam_beta2": 0.98,
    "logging_steps": 50,
    "eval_steps": 250,
    "save_steps": 250,
    "save_total_limit": 1,
    "metric_for_best_model": "exact_match",
    "report": False,
    "device": "cpu",
}
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
    steps: Annotated[int, arg(metavar="N")] = STEPS,
    again: bool = False,
    json: bool = False,
) -> int:
    """Train a small Transformer to translate numbers and dates, judge it, and look at its attention.

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
    from ..data.spoken import spoken_pairs
    from ..explain.alignment import align, write_page

    if steps < 1:
        raise InputError(f"--steps must be a whole number of at least 1, got {steps}")
    began = time.perf_counter()
    learnt, judged = spoken_pairs(MEANINGS, HELD_OUT)
    write_corpus(output, learnt, judged)
    task = ready_made(output, again)
    if task is None:
        task = train(output, learnt, judged, steps, quiet=json)
    else:
        tell(json, f"The model in {output} was trained before; --again trains a new one.")
    trained = time.perf_counter()
    unseen = judged[WATCHED:]
    tell(json, "", f"4. It is judged by {len(unseen)} numbers and dates that it has never seen in any form")
    accuracy = judge(task, unseen)
    tell(json, f"  {accuracy:.1%} of its translations are right to the letter")

    answers = [align(task, spelt(text)) for text in texts or EXAMPLES]
    page = write_page(answers, output / PAGE, title="A Transformer translates numbers and dates")
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
    show(found)
    if sys.stdin.isatty() and sys.stdout.isatty():
        listen(task)
    say_what_next(output, **found["seconds"])
    return 0


def show(found: dict[str, Any]) -> None:
    """What it translated, and where that can be looked at."""
    tell(False, "", "5. It translates")
    print_table(("you say", "it says"), list(found["translations"].items()))
    for text in found["translations"]:
        warn(text)
    tell(False, "", "6. Where it looks")
    print(f"  {found['page']} shows, for each word that it wrote, the words of the source that it looked at")


def say_what_next(folder: Path, training: float, all: float) -> None:
    glass = program()
    print(f"""
Time: training {training:.0f} s, all together {all:.0f} s

Try next:
  {glass} translate {folder} "nine hundred thousand and one" --page look.html
  {glass} inspect {folder}
  {glass} train translation --model new:rnn --tokenizer new:wordpiece --data {folder}/train.tsv \\
    --eval {folder}/test.tsv --learning-rate 2e-3 --max-steps 600 --output-dir {folder}-rnn""")


def write_corpus(folder: Path, learnt: list[Pair], judged: list[Pair]) -> None:
    """The corpus as files, for other models to be trained on it too."""
    from ..checkpoints.files import make_folder, write_atomically

    make_folder(folder)
    for name, pairs in (("train.tsv", learnt), ("test.tsv", judged)):
        lines = [f"{pair.source}\t{pair.target}\n" for pair in pairs]
        write_atomically(folder / name, "source\ttarget\n" + "".join(lines))


def ready_made(folder: Path, again: bool) -> Translation | None:
    """The model that an earlier demo left, unless another one is wanted."""
    from .. import Translation
    from ..train.state import checkpoints_in

    if again:
        for checkpoint in checkpoints_in(folder).values():
            shutil.rmtree(checkpoint)
        return None
    if not (folder / "model.safetensors").is_file():
        return None
    return Translation.from_pretrained(folder)


def train(folder: Path, learnt: list[Pair], judged: list[Pair], steps: int, quiet: bool) -> Translation:
    """A new model from nothing but pairs."""
    import torch

    from .. import BertTokenizer, Trainer, TrainSettings, TransformerConfig, TransformerForSeq2SeqLM, Translation

    tell(quiet, f"1. A corpus: {len(learnt):,} pairs of numbers and dates in words, made here")
    for pair in (learnt[1], learnt[-4], learnt[-1]):
        tell(quiet, f"  {pair.source}  ->  {pair.target}")
    texts = sorted({text for pair in learnt for text in pair[:2]})
    tokenizer = BertTokenizer.train(iter(texts), vocab_size=400, min_frequency=1)
    tell(quiet, "", f"2. A vocabulary of {len(tokenizer.vocab)} tokens, made from it", f"  {texts[0]}")
    tell(quiet, f"  {' '.join(tokenizer.tokenize(texts[0]))}")
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=len(tokenizer.vocab),
        **SHAPE,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        max_position_embeddings=64,
        norm_first=True,
        bos_token_id=tokenizer.cls_token_id,
        eos_token_id=tokenizer.sep_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = TransformerForSeq2SeqLM(config)
    task = Translation(model, tokenizer)
    layers = f"{config.num_hidden_layers} layers each in encoder and decoder, {config.num_attention_heads} heads"
    tell(quiet, "", f"3. A Transformer of {model.num_parameters():,} parameters ({layers}) learns them")
    settings = TrainSettings(output_dir=str(folder), max_steps=steps, warmup_steps=min(100, steps), **SETTINGS)
    trainer = Trainer(task, rows_of(learnt), rows_of(judged[:WATCHED]), settings)
    result = trainer.train(resume=True)
    if result.stopped_by is not None:
        raise InputError(f"stopped at step {result.step:,} of {result.total_steps:,}; the same command goes on")
    return task


def rows_of(pairs: list[Pair]) -> list[dict[str, str]]:
    return [{"source": pair.source, "target": pair.target} for pair in pairs]


def judge(task: Translation, pairs: list[Pair]) -> float:
    """The share of pairs whose translation is right to the letter."""
    from ..tasks.metrics import exact_match
    from ..tasks.run import answers

    said = answers(task, [pair.source for pair in pairs], finish=task.predict)
    return exact_match(list(said), [pair.target for pair in pairs])["exact_match"]


def tell(quiet: bool, *lines: str) -> None:
    """Print lines, those with a number at their beginning so that they stand out."""
    for line in lines if not quiet else ():
        (print_heading if re.match(r"\d\. ", line) else print)(line)


def spelt(text: str) -> str:
    """What was typed as the corpus spells it.

    >>> spelt("Twenty-One,  or so.")
    'twenty one or so'
    """
    return " ".join(re.sub(r"[-,.，。]", " ", text.lower()).split())


def warn(text: str) -> None:
    """Say which words of a text the model cannot know."""
    from ..data.spoken import unknown_words

    strange = unknown_words(text)
    if strange:
        print(f"  It knows numbers and dates only; these are new to it: {', '.join(strange)}")


def listen(task: Translation) -> None:
    """Translate what is typed, until an empty line."""
    from ..tasks.pipeline import Pipeline

    pipe = Pipeline(task)
    print()
    print("Type a number below a million or a date in words, English or Chinese; an empty line ends.")
    while True:
        try:
            text = spelt(input("> "))
        except EOFError:
            return
        if not text:
            return
        try:
            answer: dict[str, Any] = pipe(text)[0]
        except GlassformerError as error:
            print(f"  {error}")
            continue
        print(f"  {answer['translation_text']}")
        warn(text)


def program() -> str:
    """How to call this command again: `glass`, or its path when the shell would not find it."""
    called = Path(sys.argv[0])
    found = shutil.which("glass")
    is_here = found is not None and called.exists() and Path(found).samefile(called)
    return "glass" if is_here or called.name != "glass" else str(called)
