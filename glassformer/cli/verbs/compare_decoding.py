"""`glass compare-decoding`: the same prompts continued by every decoding strategy, measured and put side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError, nearest
from ..compare_decoding.decoding_comparison import BASE_SETTINGS, STRATEGIES, Comparison, Outcome, full_settings
from ..output.terminal import print_json
from .generate import load
from .tokenize import lines_of

if TYPE_CHECKING:
    from ...models.base.pretrained_model import PreTrainedModel
    from ...text.tokenizer import PreTrainedTokenizer

BATCH = 8  # prompts


def compare_decoding(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    prompts: Positional[Annotated[str, arg(metavar="FILE")]],
    /,
    *,
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    output: Annotated[Path | None, arg(metavar="PAGE", aliases=["-o"])] = None,
    only: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="STRATEGY")]] = (),
    max_new_tokens: Annotated[int, arg(metavar="N")] = 40,
    samples: Annotated[int, arg(metavar="N")] = 3,
    seed: Annotated[int, arg(metavar="N")] = 0,
    special_tokens: bool = False,
    json: bool = False,
) -> int:
    """Continue prompts with every decoding strategy and compare the texts.

    Greedy, without repeated 3-grams, beams, diverse beams, contrastive search, and sampling: plain, with a temperature,
    top-k, top-p, typical and min-p. Reports for each how varied its texts are, how much they repeat themselves, how
    similar they are, how likely the model finds them and how fast they were generated; and prints the texts.

    examples:
      glass compare-decoding ./gpt2 prompts.txt
      glass compare-decoding ./gpt2 prompts.txt -o page.html
      glass compare-decoding ./gpt2 prompts.txt --only greedy --only top-p --max-new-tokens 100 --json

    Args:
        model: A checkpoint folder or a name on the hub.
        prompts: A file with one prompt in each line, - for standard input; empty lines are skipped.
        encoding: What the file is written in, such as gbk or utf-16; UTF-8 if not given.
        output: A page to write: one file that opens in any browser, with plots and all texts side by side.
        only: A strategy to run instead of all; can be given several times.
        max_new_tokens: How many tokens may follow a prompt.
        samples: How many texts for each prompt, from the strategies that can return several.
        seed: The seed of the random numbers; the same seed gives the same texts.
        special_tokens: Read special tokens in the prompts as such, not as plain text.
        json: Print JSON.
    """
    check_arguments(only, output, prompts, {"--max-new-tokens": max_new_tokens, "--samples": samples})
    texts = [line for line in lines_of(prompts, encoding) if line.strip()]
    if not texts:
        raise InputError(f"{'standard input' if prompts == '-' else prompts} contains no prompts")
    chosen = [name for name in STRATEGIES if not only or name in only]
    comparison = Comparison(model, texts, max_new_tokens, seed, samples, [Outcome(n, STRATEGIES[n]) for n in chosen])
    run(comparison, *load(model), split=not special_tokens)
    if output is not None:
        write_page(comparison, output)
    if json:
        print_json(comparison.to_dict())
    else:
        comparison.print()
        if output is not None:
            print(f"\nwrote {output}")
    return 0


def check_arguments(only: tuple[str, ...], output: Path | None, prompts: str, numbers: dict[str, int]) -> None:
    """Refuse wrong arguments before anything is loaded."""
    for name, value in numbers.items():
        if value < 1:
            raise InputError(f"{name} must be 1 or more, got {value}")
    for name in only:
        if name not in STRATEGIES:
            hint = nearest(name, STRATEGIES) or f"; there are {', '.join(STRATEGIES)}"
            raise InputError(f"there is no strategy {name!r}{hint}")
    if output is None:
        return
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.parent}")
    if output.is_dir() or (output.exists() and prompts != "-" and output.samefile(prompts)):
        raise InputError(f"--output would overwrite {output}; name a page such as page.html")


def run(comparison: Comparison, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, split: bool) -> None:
    """Generate and measure the texts of every strategy."""
    from ...generate.prompts import encode_prompt
    from ...generate.text_generator import TextGenerator
    from ...tasks.progress import show_progress

    rows = [encode_prompt(tokenizer, text, split_special_tokens=split) for text in comparison.prompts]
    batches = [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)]
    TextGenerator(model, tokenizer, **BASE_SETTINGS, max_new_tokens=2).generate(batches[0][:1])  # warm up

    def steps() -> Iterator[str]:
        for outcome in comparison.outcomes:
            settings = full_settings(outcome.settings, comparison.samples)
            seed = comparison.seed if settings["do_sample"] else None
            settings["max_new_tokens"] = comparison.max_new_tokens
            generator = TextGenerator(model, tokenizer, seed=seed, **settings)
            for batch in batches:
                started = time.perf_counter()
                outcome.texts += generator.generate(batch)
                outcome.seconds += time.perf_counter() - started
                yield outcome.name
            outcome.measure(model, set(tokenizer.all_special_ids))

    for _ in show_progress(steps(), len(batches) * len(comparison.outcomes), None, "batches"):
        pass


def write_page(comparison: Comparison, path: Path) -> None:
    from ...checkpoints.files import write_atomically
    from ..compare_decoding.decoding_page import render_page

    write_atomically(path, render_page(comparison).encode("utf-8", "backslashreplace"))
