"""Every exception that glassformer raises on purpose.

GlassformerError
├── ConfigError (ValueError)          a configuration that cannot be built, or a field that does not exist
├── InputError (ValueError)           text, ids, masks or labels that do not fit the model
│   └── DataError                     a row or a file of data that cannot be used; names file and line
├── TokenizerError (ValueError)       a vocabulary or tokenizer file that cannot be used
├── ArgumentError (TypeError)         a keyword that nobody reads
├── TrainingError                     training that cannot go on: a loss that is not finite, ranks that do not meet
├── NotFiniteError (ArithmeticError)  scores that are NaN, with the module where they begin
├── CheckpointError
│   ├── WeightsError (ValueError)     weights missing, misshapen, wrongly typed or not finite
│   ├── DamagedFileError (ValueError) a file that is torn, truncated or not what its name says
│   └── UnsafeFileError               a file that would run code if it were loaded
└── HubError (OSError)                a name that no folder, cache or mirror can answer
"""

from __future__ import annotations

import difflib
import functools
import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# Names that other libraries and older releases use -> a name that is valid here, and what to do with it.
INSTEAD = {
    "args": ("settings", "pass TrainSettings as settings"),
    "batch_size": ("tokens_per_batch", "tokens_per_batch, or per_device_train_batch_size for rows"),
    "bf16": ("precision", "pass precision='bf16'"),
    "compute_metrics": ("task", "a task has metrics of its own"),
    "data_collator": ("task", "a task collates its rows itself"),
    "epochs": ("num_train_epochs", "pass num_train_epochs"),
    "eval_dataset": ("eval_rows", "pass rows as eval_rows"),
    "eval_strategy": ("eval_steps", "eval_steps sets how often, and None is after each epoch"),
    "evaluation_strategy": ("eval_steps", "eval_steps sets how often, and None is after each epoch"),
    "fp16": ("precision", "pass precision='fp16'"),
    "grouped_entities": ("aggregation_strategy", "pass aggregation_strategy='simple'"),
    "logging_dir": ("output_dir", "the log is in output_dir; tensorboard=True writes event files there too"),
    "lr": ("learning_rate", "pass learning_rate"),
    "model": ("train_rows", "pass a task, which has a model and a tokenizer, as task"),
    "per_device_eval_batch_size": ("tokens_per_batch", "tokens_per_batch counts there too"),
    "report_to": ("tensorboard", "log.jsonl is always written, and with tensorboard=True event files too"),
    "return_all_scores": ("function_to_apply", "pass top_k=None"),
    "save_strategy": ("save_steps", "save_steps sets how often, and None is after each epoch"),
    "train_dataset": ("train_rows", "pass rows as train_rows"),
    "truncation": ("aggregation_strategy", "a long text is read in windows, and nothing of it is cut"),
}

IN_PYTHON = {
    "option": "{name}={value!r}",
    "column": "read_rows({file!r}, columns={{{name!r}: {value!r}}})",
    "reading": "{name}={value!r}",
}
spelling: ContextVar[Mapping[str, str]] = ContextVar("how the user passes things", default=IN_PYTHON)


class GlassformerError(Exception):
    """The root of all errors raised on purpose."""


class ConfigError(GlassformerError, ValueError):
    """A configuration that cannot be built, or a field that does not exist."""


class InputError(GlassformerError, ValueError):
    """Text, ids, masks or labels that do not fit the model."""


class DataError(InputError):
    """A row or a file of data that cannot be used; the message names file and line."""


class TokenizerError(GlassformerError, ValueError):
    """A vocabulary or tokenizer file that cannot be used."""


class ArgumentError(GlassformerError, TypeError):
    """A keyword that nobody reads."""


class TrainingError(GlassformerError):
    """Training that cannot go on: a loss that is not finite, ranks that do not meet."""


class NotFiniteError(GlassformerError, ArithmeticError):
    """Scores that are NaN or infinite; the message names the module in which they begin."""


class CheckpointError(GlassformerError):
    """A checkpoint that cannot be read or written."""


class WeightsError(CheckpointError, ValueError):
    """Weights that are missing, misshapen, wrongly typed or not finite."""


class DamagedFileError(CheckpointError, ValueError):
    """A file that is torn, truncated or not what its name says."""


class UnsafeFileError(CheckpointError):
    """A file that would run code if it were loaded."""


class HubError(GlassformerError, OSError):
    """A name that no folder, cache or mirror can answer."""


def function_name(function: Callable) -> str:
    """The name of a function, or of the class of an object that can be called.

    >>> function_name(len), function_name(range(3).index), function_name(Exception)
    ('len', 'range.index', 'Exception')
    """
    return getattr(function, "__qualname__", type(function).__name__)


def shown(value: object, length: int = 80) -> str:
    """A value as one short printable line, whatever it holds.

    >>> shown("x" * 100, 8)
    "'xxxxxxx..."
    """
    try:
        text = repr(value[: length + 1] if isinstance(value, str | bytes) else value)
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists
        text = f"a very large {type(value).__name__}"
    text = " ".join(text.split())
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= length else text[:length] + "..."


def nearest(name: str, valid: Iterable[str]) -> str:
    """A hint such as ``, did you mean 'padding'?``, or nothing when no valid name is close."""
    close = difflib.get_close_matches(name, list(valid), n=1, cutoff=0.6)
    return f", did you mean {close[0]!r}?" if close else ""


def meant_by(name: str, valid: Iterable[str]) -> str:
    """What to do instead of passing a name of another library, or a hint at the nearest valid name."""
    known, hint = INSTEAD.get(name, ("", ""))
    return f": {hint}" if known in valid else nearest(name, valid)


def spelt(kind: str, name: str, value: object = None, **more: Any) -> str:
    """How to pass something where the user is, in Python or to a verb of the shell.

    >>> spelt("option", "truncation", True)
    'truncation=True'
    """
    form = spelling.get()[kind]
    if form.startswith("--") and isinstance(value, bool):
        yes, no = ("true", "false") if "=" in form else ("yes", "no")
        value = yes if value else no
    elif form.startswith("--") and isinstance(value, str):
        value = shlex.quote(value)
    return form.format(name=name, value=value, **more)


def refuse_unknown(names: Iterable[str], valid: Iterable[str], owner: str) -> None:
    """Raise ArgumentError for the first of `names` that is not in `valid`."""
    valid = list(valid)
    for name in names:
        if name not in valid:
            raise ArgumentError(f"{owner} has no argument {name!r}{meant_by(name, valid)}")


def suggests(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function so that a misspelt keyword names the nearest valid one.

    >>> @suggests
    ... def pad(padding=False): ...
    >>> pad(paddding=True)
    Traceback (most recent call last):
    glassformer.errors.ArgumentError: pad has no argument 'paddding', did you mean 'padding'?
    """
    valid = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs.keys() <= valid.keys():
            owner = function.__qualname__.removesuffix(".__init__")
            refuse_unknown(kwargs, (name for name in valid if name != "self"), owner)
        return function(*args, **kwargs)

    return checked
