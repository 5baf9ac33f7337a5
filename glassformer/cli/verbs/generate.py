"""`glass generate`: continue prompts, and print the text while it is generated."""

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
from ..arguments import Dtype
from ..output.terminal import print_json
from .tokenize import lines_of

if TYPE_CHECKING:
    from ...generate.text_generator import GeneratedText, TextGenerator
    from ...models.base.pretrained_model import PreTrainedModel
    from ...text.tokenizer import PreTrainedTokenizer

TASK = "text-generation"
PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}
CONTROL_CODES = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}


@dataclass(frozen=True)
class Settings:
    """The most frequent settings.

    Attributes:
        max_new_tokens: How many tokens may follow a prompt; 20 if neither you nor the model limit it.
        sample: Sample every token instead of taking the likeliest.
        temperature: Below 1 likely tokens become likelier, above 1 unlikely ones (with --sample).
        top_k: Sample from the N likeliest tokens; 0 for all (with --sample).
        top_p: Sample from the likeliest tokens whose total probability reaches this (with --sample).
        num_beams: Follow the N best continuations at once.
        num_return_sequences: How many texts for each prompt.
        no_repeat_ngram_size: No N tokens in a row occur twice.
        repetition_penalty: Above 1 makes tokens less likely that already occur.
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

    def given(self) -> dict[str, Any]:
        """The given settings by their names in `GenerationConfig`, which checks them."""
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
            given[name] = parse_value(value)
        GenerationConfig(**given)
        return given


def generate(
    model: Positional[Annotated[str, arg(metavar="MODEL")]],
    prompts: Positional[Annotated[tuple[str, ...], arg(metavar="PROMPT")]] = (),
    /,
    *,
    input: Annotated[str, arg(metavar="FILE")] = "",
    encoding: Annotated[str | None, arg(metavar="NAME")] = None,
    prefix: Annotated[str, arg(metavar="TEXT")] = "",
    label: Annotated[str, arg(metavar="NAME")] = "",
    special_tokens: bool = False,
    settings: Annotated[Settings, arg(name="")] = Settings(),  # noqa: B008
    seed: Annotated[int | None, arg(metavar="N")] = None,
    batch_size: Annotated[int, arg(metavar="N")] = 8,
    dtype: Dtype = "float32",
    explain: bool = False,
    json: bool = False,
) -> int:
    """Continue texts with a model that predicts the next word, and print them while they are generated.

    Settings that you do not give are those of the model's files, else the defaults; --explain shows which ones apply.

    examples:
      glass generate ./gpt2 "Once upon a time"
      glass generate ./gpt2 "Once upon a time" --sample --top-p 0.9 --seed 7 --max-new-tokens 60
      glass generate ./gpt2 --input prompts.txt --num-beams 4 --set length_penalty=0.8 --json
      glass generate ./gpt2 "Once upon a time" --temperature 0.7 --explain

    Args:
        model: A checkpoint folder or a name on the hub.
        prompts: Texts to continue; - reads them from standard input. Put -- before one that starts with a dash.
        input: A file with one prompt in each line, instead of PROMPT; empty lines are skipped.
        encoding: What the file is written in, such as gbk or utf-16; UTF-8 if not given.
        prefix: A text before every prompt; the model reads it, but it is not printed.
        label: The label of a model that was trained with control tokens: its token, such as <NAME>, is put first.
        special_tokens: Read special tokens in a file's prompts as such, not as plain text.
        seed: The seed of the random numbers (with --sample); if not given, a random one.
        batch_size: How many prompts to continue at once when the output is no terminal.
        dtype: What products are computed in. Generation reads all weights for each token: int8 is a quarter of them.
        explain: Print which settings take effect and why, and generate nothing.
        json: Print a JSON object for each text, with the prompt, the tokens and why the text ended.
    """
    given = settings.given()
    texts = read_prompts(prompts, input, encoding)
    if batch_size < 1:
        raise InputError(f"--batch-size must be 1 or more, got {batch_size}")
    is_typed = bool(prompts) and prompts != ("-",)
    split = not is_typed and not special_tokens  # a file may contain anything: special tokens are text there
    encode = functools.partial(encode_text, prefix=prefix, label=label, split=split)
    if explain:
        return explain_settings(model, texts, encode, seed, given, json)
    if not prompts and not input:
        raise InputError("give a prompt, - for standard input, or --input with a file of prompts")
    generator = load_generator(model, seed, given, dtype)
    encoded = ((text, encode(generator.tokenizer, text)) for text in texts)
    if sys.stdout.isatty() and not json:
        for text, ids in encoded:
            stream_to_terminal(generator, text, ids)
    else:
        for text, continuation in generate_batches(generator, encoded, batch_size):
            print_text(generator, text, continuation, json)
    return 0


def parse_value(text: str) -> Any:
    """The value of a setting in JSON or as a Python constant; anything else is a string.

    >>> parse_value("0.8"), parse_value("[[5, 9]]"), parse_value("True"), parse_value("never")
    (0.8, [[5, 9]], True, 'never')
    """
    if text in PYTHON_CONSTANTS:
        return PYTHON_CONSTANTS[text]
    try:
        return json_format.loads(text)
    except ValueError:
        return text


def read_prompts(prompts: tuple[str, ...], path: str, encoding: str | None) -> Iterable[str]:
    if prompts and path:
        raise InputError("give prompts or --input with a file of prompts, not both")
    if "-" in prompts and len(prompts) > 1:
        raise InputError("- stands for standard input and takes no other prompt beside it")
    if prompts and prompts != ("-",):
        return prompts
    path = "-" if prompts else path
    return (line for line in lines_of(path, encoding) if line.strip()) if path else ()


def encode_text(tokenizer: PreTrainedTokenizer, text: str, prefix: str, label: str, split: bool) -> list[int]:
    from ...generate.prompts import encode_prompt

    return encode_prompt(tokenizer, text, prefix or None, label or None, split_special_tokens=split)


# --- models -----------------------------------------------------------------------------------------------------------


def load(name: str, dtype: Dtype = "float32") -> tuple[PreTrainedModel, PreTrainedTokenizer]:
    """A model that is trained to predict the next word, and its tokenizer."""
    from ... import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
    untrained = model.untrained
    if untrained:
        raise InputError(
            f"{name} has no trained {', '.join(untrained)}, so it would write at random; "
            f"it takes a checkpoint of {type(model).__name__}"
        )
    return model, tokenizer


def load_generator(name: str, seed: int | None, settings: dict[str, Any], dtype: Dtype) -> TextGenerator:
    from ...generate.config import task_settings
    from ...generate.text_generator import TextGenerator

    model, tokenizer = load(name, dtype)
    return TextGenerator(model, tokenizer, task_settings(model.config, TASK), seed=seed, **settings)


def load_without_weights(name: str) -> PreTrainedModel:
    """The model without its weights, which is enough to resolve the settings."""
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


# --- output -----------------------------------------------------------------------------------------------------------


def explain_settings(
    name: str,
    texts: Iterable[str],
    encode: Callable[..., list[int]],
    seed: int | None,
    given: dict[str, Any],
    json: bool,
) -> int:
    """Print which settings take effect."""
    from ... import AutoTokenizer, explain_generation
    from ...generate.config import task_settings
    from ...generate.model_runner import pad_right

    model, tokenizer = load_without_weights(name), AutoTokenizer.from_pretrained(name)
    rows = [encode(tokenizer, text) for text in texts]
    batch = dict(zip(("prompt", "attention_mask"), pad_right(rows, "cpu"), strict=True)) if rows else {}
    settings = task_settings(model.config, TASK)
    explanation = explain_generation(
        model, tokenizer=tokenizer, generation_config=settings, generator=seed, **batch, **given
    )
    if json:
        print_json(explanation.to_dict())
    else:
        print(explanation)
    return 0


def generate_batches(
    generator: TextGenerator, prompts: Iterator[tuple[str, list[int]]], batch_size: int
) -> Iterator[tuple[str, GeneratedText]]:
    """Every prompt with each of its continuations, in order, a batch at a time."""
    from ...tasks.progress import show_progress

    def run() -> Iterator[tuple[str, list[GeneratedText]]]:
        while batch := list(itertools.islice(prompts, batch_size)):
            texts, rows = zip(*batch, strict=True)
            yield from zip(texts, generator.generate(rows), strict=True)

    for text, continuations in show_progress(run(), None, False if sys.stdout.isatty() else None, "prompts"):
        for continuation in continuations:
            yield text, continuation


def print_text(generator: TextGenerator, text: str, continuation: GeneratedText, as_json: bool) -> None:
    if not as_json:
        print(text + continuation.text, flush=True)
        return
    values = {
        "prompt": text,
        "generated_text": text + continuation.text,
        "tokens": generator.tokenizer.convert_ids_to_tokens(continuation.ids),
        "ids": continuation.ids,
        "finish_reason": continuation.finish_reason,
    }
    print_json({**values, **({"seed": generator.seed} if generator.settings.do_sample else {})}, indent=None)


def stream_to_terminal(generator: TextGenerator, text: str, ids: list[int]) -> None:
    """Print the text of one prompt while it is generated, and a line of statistics."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    started = time.perf_counter()

    def print_prompt() -> None:
        console.print(Text(without_control_codes(text), style="bold"), end="", soft_wrap=True)

    def print_piece(piece: str) -> None:
        sys.stdout.write(without_control_codes(piece))
        sys.stdout.flush()

    if generator.can_stream:
        print_prompt()
        continuations = [generator.stream(ids, print_piece)]
        print()
    else:
        continuations = generator.generate([ids])[0]
        for continuation in continuations:
            print_prompt()
            print_piece(continuation.text + "\n")
    count, seconds = sum(len(one.ids) for one in continuations), time.perf_counter() - started
    reasons = ", ".join(dict.fromkeys(one.finish_reason for one in continuations))
    seed = f", seed {generator.seed}" if generator.settings.do_sample else ""
    line = f"[{count} tokens, {count / seconds:.1f} per second, ended by {reasons}{seed}]"
    Console(stderr=True, highlight=False).print(Text(line, style="dim"), soft_wrap=True)


def without_control_codes(text: str) -> str:
    """Text for a terminal, with control characters as escape sequences.

    >>> without_control_codes("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return text.translate(CONTROL_CODES)
