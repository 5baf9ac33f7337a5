"""`glass VERB ...`: finds the verb, runs it, and prints an error of ours in one line.

Verbs import torch when they run, not when they are found, so that `glass --help` answers at once.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence

from .. import __version__
from ..errors import IN_PYTHON, GlassformerError, nearest, spelling
from .arguments import UsageError, read_arguments, typed

VERBS = (
    "demo",
    "tokenize",
    "inspect",
    "predict",
    "explain",
    "translate",
    "transcribe",
    "embed",
    "search",
    "cluster",
    "see",
    "explore",
    "serve",
    "heads",
    "prune",
    "quantize",
    "compare-layers",
    "train",
    "evaluate",
    "compare",
    "compare-lengths",
    "train-vocabulary",
    "generate",
    "compare-decoding",
    "export",
    "verify",
    "doctor",
)
# How options of a task and of its rows are passed to a verb; for train they are fields of the recipe.
TO_A_VERB = {"option": "--option {name}={value}", "column": "--columns {name}={value}", "reading": "--{name} {value}"}
TO_TRAIN = {
    "option": "--options.{name}={value}",
    "column": "--columns {name}={value}, and all other columns in the same way",
    "reading": "--data.{name}={value}",
}
SPELLINGS = {"train": TO_TRAIN, "compare": TO_TRAIN, "translate": {**TO_A_VERB, "option": "--{name}"}}
FAILED, MISUSED, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
SHOWN_FAULTS = 5


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code.

    >>> main(["--version"])
    glassformer 0.1.0
    0
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with notes_on_stderr():
            code = run(arguments)
        sys.stdout.flush()
        return code
    except GlassformerError as error:
        print_error(one_line(error))
        return FAILED
    except KeyboardInterrupt:
        print_error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has closed the pipe; buffered output is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"glassformer {__version__}")
        return 0
    typed.set(arguments)
    verb = arguments[0]
    if verb not in VERBS:
        kind = "option" if verb.startswith("-") else "verb"
        hint = nearest(verb, VERBS) or f"; the verbs are {', '.join(VERBS)}"
        print_error(f"there is no {kind} {verb!r}{hint}")
        return MISUSED

    if os.environ.get("NO_COLOR"):
        os.environ.setdefault("PYTHON_TYRO_ANSI_CODES", "False")  # tyro has its own variable

    spelling.set(SPELLINGS.get(verb, TO_A_VERB))
    function = function_of(verb)
    rest = getattr(function, "prepare", list)(arguments[1:])  # a verb may accept other spellings of its options
    try:
        call = read_arguments(function, verb, rest)
    except UsageError as error:
        print_error(str(error))
        return MISUSED
    if call is None:
        getattr(function, "after_help", lambda _: None)(arguments[1:])  # what a verb explains beside its options
        return 0
    return call() or 0


def function_of(verb: str) -> Callable[..., int | None]:
    """The function behind a verb: `train-vocabulary` is `train_vocabulary` in `verbs/train_vocabulary.py`."""
    name = verb.replace("-", "_")
    return getattr(importlib.import_module(f"{__package__}.verbs.{name}"), name)


def overview() -> str:
    """What `glass --help` prints: each verb with the first line of its help."""
    width = max(map(len, VERBS)) + 2
    lines = [f"  {verb:{width}}{(function_of(verb).__doc__ or '').splitlines()[0]}" for verb in VERBS]
    return "\n".join(
        (
            "usage: glass VERB ...",
            "",
            "Transformers you can see through.",
            "",
            "verbs:",
            *lines,
            "",
            "glass VERB --help explains a verb, with examples; glass --version prints the version.",
        )
    )


def print_error(message: str) -> None:
    print(f"glass: {message}", file=sys.stderr)


def one_line(error: Exception) -> str:
    """An error's message in one line; of a long list of faults, the first few and how many more there are."""
    first, *faults = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    hidden = len(faults) - SHOWN_FAULTS
    more = [f"and {hidden} more"] if hidden > 0 else []
    return " ".join([first, "; ".join(faults[:SHOWN_FAULTS] + more)]).strip()


@contextlib.contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Print notes and warnings as single lines on standard error, and escape what the terminal cannot encode."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    log, notes = logging.getLogger("glassformer"), Notes(logging.WARNING)
    before = warnings.showwarning, log.propagate
    previous_spelling = spelling.set(IN_PYTHON)
    log.addHandler(notes)
    log.propagate = False
    warnings.showwarning = lambda message, *_, **__: print_error(f"note: {one_line(message)}")
    try:
        yield
    finally:
        spelling.reset(previous_spelling)
        warnings.showwarning, log.propagate = before
        log.removeHandler(notes)


class Notes(logging.Handler):
    """Log records as notes; looks up standard error each time, since it may be redirected.

    An exception that was logged is a fault of ours, and is printed with its traceback. Of several processes that
    torchrun started, only the first one prints them.
    """

    def emit(self, record: logging.LogRecord) -> None:
        if os.environ.get("RANK", "0") == "0":
            print_error(f"note: {record.getMessage()}")
            if record.exc_info:
                traceback.print_exception(*record.exc_info)


if __name__ == "__main__":
    sys.exit(main())
