"""`glass generate`: prompts to texts, shown as they come."""

from __future__ import annotations

import functools
import itertools
import json as json_format
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..output.terminal import print_json
from .tokenize import lines_of

if TYPE_CHECKING:
    from ...generate.writing import Writer, Written
    from ...models.base import PreTrainedModel
    from ...text.tokenizer import PreTrainedTokenizer

TASK = "text-generation"
AS_PYTHON = {"True": True, "False": False, "None": None}
STEERING = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


@dataclass(frozen=True)
class Settings:
    """The settings that are used most.

    Attributes:
        max_new_tokens: How many tokens may follow a prompt; 20 if neither the model nor you say so.
        sample: Draw every word by chance instead of taking the likeliest.
        temperature: Below 1 likely words become likelier, above 1 unlikely ones (with --sample).
        top_k: Draw from the N likeliest words; 0 for all (with --sample).
        top_p: Draw from the likeliest words that have this probability together (with --sample).
        num_beams: Follow the N best continuations at once.
        num_return_sequences: How many texts for each prompt.
        no_repeat_ngram_size: Say no stretch of N tokens twice.
        repetition_penalty: Above 1 makes words less likely that were said before.
        stop: End a text with this string; can be given several times.
        set: Any other setting by its name in GenerationConfig, such as length_penalty=0.8; can be given several times.
    """

    max_new_tokens: Annotated[int | None, arg(metavar="N")] = None
    sample: Annotated[bool, arg(aliases=["--do-sample"])] = False
    temperature: Annotated[float | None, arg(metavar="X")] = None
    top_k: Annotated[int | None, arg(metavar="N")] = None
    top_p: Annotated[float | None, arg(metavar="P")] = None
    num_beams: Annotated[int | None, arg(metavar="N")] = None
    num_return_sequences: Annotated[int | None, arg(metavar="N")] = None
    no_repeat_ngram_size: Annotated[int | None, arg(metavar="N")] = None
    repetition_penalty: Annotated[float | None, arg(metavar="X")] = None
    stop: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="TEXT")]] = ()
    set: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="NAME=VALUE")]] = ()

    def call(self) -> dict[str, Any]:
        """What was given, under the names of `GenerationConfig`; its own checks find what is wrong."""
        from ...generate.config import GenerationConfig

        renamed = {"do_sample": self.sample or None, "stop_strings": list(self.stop) or None}
        direct = {name: value for name, value in vars(self).items() if name not in ("sample", "stop", "set")}
        given = {name: value for name, value in {**direct, **renamed}.items() if value is not None}
        for text in self.set:
            name, equals, value = text.partition("=")
            if not equals:
                raise InputError(f"--set takes NAME=VALUE, got {text!r}")
            if name in given:
                raise InputError(f"{name} is given twice: {given[name]!r} and {value!r}")
            given[name] = as_value(value)
        GenerationConfig(**given)
        return given


def generate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    prompts: Positional[Annotated[tuple[str, ...], arg(metavar="PROMPT")]] = (),
    /,
    *,
    input: Annotated[str, arg(metavar="FILE")] = "",
    prefix: Annotated[str, arg(metavar="TEXT")] = "",
    label: Annotated[str, arg(metavar="NAME")] = "",
    special_tokens: bool = False,
    settings: Annotated[Settings, arg(name="")] = Settings(),  # noqa: B008
    seed: Annotated[int | None, arg(metavar="N")] = None,
    batch_size: Annotated[int, arg(metavar="N")] = 8,
    explain: bool = False,
    json: bool = False,
) -> int:
    """Continue texts with a model that predicts the next word, and show them as they come.

    Settings that you do not give are those of the model's files, then the defaults; --explain shows which ones apply.

    examples:
      glass generate ./gpt2 "Once upon a time"
      glass generate ./gpt2 "Once upon a time" --sample --top-p 0.9 --seed 7 --max-new-tokens 60
      glass generate ./gpt2 --input prompts.txt --num-beams 4 --set length_penalty=0.8 --json
      glass generate ./gpt2 "Once upon a time" --temperature 0.7 --explain

    Args:
        model: A checkpoint folder or a name on the hub.
        prompts: Texts to continue; - reads them from standard input. Put -- before one that starts with a dash.
        input: A file with one prompt in each line, instead of PROMPT; empty lines are passed over.
        prefix: A text to put before every prompt; it is read by the model, but not shown.
        label: The label of a model that was trained with control tokens: its token, such as <NAME>, is put first.
        special_tokens: Take special tokens in a file's prompts for what they are, not for plain text.
        seed: Draw the same words again (with --sample); if not given, another one each time.
        batch_size: How many prompts to continue at once when nobody watches.
        explain: Tell which settings take effect and why, and write nothing.
        json: Print a JSON object for each text, with the prompt, the tokens and why it ended.
    """
    call = settings.call()
    texts = prompts_of(prompts, input)
    if batch_size < 1:
        raise InputError(f"--batch-size must be 1 or more, got {batch_size}")
    is_typed = bool(prompts) and prompts != ("-",)
    split = not is_typed and not special_tokens  # a file may hold anything: what looks like a token is text there
    encode = functools.partial(encode_one, prefix=prefix, label=label, split=split)
    if explain:
        return explain_settings(model, texts, encode, seed, call, json)
    if not prompts and not input:
        raise InputError("give a prompt, - for standard input, or --input with a file of prompts")
    writer = load_writer(model, seed, call)
    encoded = ((text, encode(writer.tokenizer, text)) for text in texts)
    if sys.stdout.isatty() and not json:
        for text, ids in encoded:
            show_one(writer, text, ids)
    else:
        for text, written in write_all(writer, encoded, batch_size):
            print_one(writer, text, written, json)
    return 0


def as_value(text: str) -> Any:
    """A setting's value as JSON or Python writes it; anything else is a string.

    >>> as_value("0.8"), as_value("[[5, 9]]"), as_value("True"), as_value("never")
    (0.8, [[5, 9]], True, 'never')
    """
    if text in AS_PYTHON:
        return AS_PYTHON[text]
    try:
        return json_format.loads(text)
    except ValueError:
        return text


def prompts_of(prompts: tuple[str, ...], path: str) -> Iterable[str]:
    if prompts and path:
        raise InputError("give prompts or --input with a file of prompts, not both")
    if "-" in prompts and len(prompts) > 1:
        raise InputError("- stands for standard input and takes no other prompt beside it")
    if prompts and prompts != ("-",):
        return prompts
    path = "-" if prompts else path
    return (line for line in lines_of(path) if line.strip()) if path else ()


def encode_one(tokenizer: PreTrainedTokenizer, text: str, prefix: str, label: str, split: bool) -> list[int]:
    from ...generate.conditioning import condition

    return condition(tokenizer, text, prefix or None, label or None, split_special_tokens=split)


# --- models -----------------------------------------------------------------------------------------------------------


def load(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizer]:
    """A model that has learned to predict the next word, and its tokenizer."""
    from ... import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name)
    untrained = model.untrained
    if untrained:
        raise InputError(
            f"{name} has no trained {', '.join(untrained)}, so it would write at random; "
            f"it takes a checkpoint of {type(model).__name__}"
        )
    return model, tokenizer


def load_writer(name: str, seed: int | None, call: dict[str, Any]) -> Writer:
    from ...generate.config import task_settings
    from ...generate.writing import Writer

    model, tokenizer = load(name)
    return Writer(model, tokenizer, task_settings(model.config, TASK), seed=seed, **call)


def model_without_weights(name: str) -> PreTrainedModel:
    """The model without its weights: its files are enough to resolve the settings."""
    from ...checkpoints.hub import CONFIG_FILES, find_folder
    from ...models.auto import AutoConfig, AutoModelForCausalLM
    from .inspect import logs_silenced

    folder = find_folder(name, files=(*CONFIG_FILES, "generation_config.json"))
    config = AutoConfig.from_pretrained(folder)
    with logs_silenced():
        model = AutoModelForCausalLM.model_class(config).without_weights(config)
    if not model.base_model.is_decoder:
        raise InputError(f"{name} is no decoder (is_decoder in its config.json): it sees the words it should predict")
    model.read_generation_config(folder)
    return model


# --- what is shown ----------------------------------------------------------------------------------------------------


def explain_settings(
    name: str,
    texts: Iterable[str],
    encode: Callable[..., list[int]],
    seed: int | None,
    call: dict[str, Any],
    json: bool,
) -> int:
    """Print which settings count."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    from ... import AutoTokenizer, explain_generation
    from ...generate.config import task_settings

    model, tokenizer = model_without_weights(name), AutoTokenizer.from_pretrained(name)
    rows = [torch.tensor(encode(tokenizer, text), dtype=torch.long) for text in texts]
    batch = {}
    if rows:
        batch["prompt"] = pad_sequence(rows, batch_first=True)
        batch["attention_mask"] = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
    settings = task_settings(model.config, TASK)
    explanation = explain_generation(
        model, tokenizer=tokenizer, generation_config=settings, generator=seed, **batch, **call
    )
    if json:
        print_json(explanation.to_dict())
    else:
        print(explanation)
    return 0


def write_all(
    writer: Writer, prompts: Iterator[tuple[str, list[int]]], batch_size: int
) -> Iterator[tuple[str, Written]]:
    """Every prompt with each of its texts, in order, a batch at a time."""
    from ...tasks.progress import show_progress

    def write() -> Iterator[tuple[str, list[Written]]]:
        while batch := list(itertools.islice(prompts, batch_size)):
            texts, rows = zip(*batch, strict=True)
            yield from zip(texts, writer.write(rows), strict=True)

    for text, several in show_progress(write(), None, False if sys.stdout.isatty() else None, "prompts"):
        for written in several:
            yield text, written


def print_one(writer: Writer, text: str, written: Written, as_json: bool) -> None:
    if not as_json:
        print(text + written.text, flush=True)
        return
    values = {
        "prompt": text,
        "generated_text": text + written.text,
        "tokens": writer.tokenizer.convert_ids_to_tokens(written.ids),
        "ids": written.ids,
        "finish_reason": written.finish_reason,
    }
    print_json({**values, **({"seed": writer.seed} if writer.settings.do_sample else {})}, indent=None)


def show_one(writer: Writer, text: str, ids: list[int]) -> None:
    """One prompt in a terminal: its text as it comes, and a line on how it went."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    started = time.perf_counter()

    def begin() -> None:
        console.print(Text(without_control_codes(text), style="bold"), end="", soft_wrap=True)

    def show(piece: str) -> None:
        sys.stdout.write(without_control_codes(piece))
        sys.stdout.flush()

    if writer.streams:
        begin()
        all_written = [writer.stream(ids, show)]
        print()
    else:
        all_written = writer.write([ids])[0]
        for written in all_written:
            begin()
            show(written.text + "\n")
    count, seconds = sum(len(one.ids) for one in all_written), time.perf_counter() - started
    reasons = ", ".join(dict.fromkeys(one.finish_reason for one in all_written))
    seed = f", seed {writer.seed}" if writer.settings.do_sample else ""
    line = f"[{count} tokens, {count / seconds:.1f} a second, ended by {reasons}{seed}]"
    Console(stderr=True, highlight=False).print(Text(line, style="dim"), soft_wrap=True)


def without_control_codes(text: str) -> str:
    """Text for a terminal: characters that would steer it are spelt out.

    >>> without_control_codes("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return text.translate(STEERING)
