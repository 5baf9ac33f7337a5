"""A command line as a call of a verb's function, by tyro; its error boxes become one line."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError

Dtype = Literal["float32", "bfloat16", "float16", "int8", "int4"]  # of --dtype
FRAME, RULE = "│╰╯ ", {*"─-"}  # characters of a box, and of the lines between its parts
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


typed: ContextVar[Sequence[str]] = ContextVar("typed", default=())  # the arguments of this call of `glass`


def command_with(option: str) -> str:
    """The command that was typed, with an option, for messages.

    >>> token = typed.set(["embed", "m", "--input", "my texts.txt", "--restart"])
    >>> command_with("--overwrite"), command_without("--restart")
    ("glass embed m --input 'my texts.txt' --restart --overwrite", "glass embed m --input 'my texts.txt'")
    >>> typed.reset(token)
    """
    return f"{command_without(option)} {option}"


def command_without(option: str) -> str:
    """The command that was typed, without an option."""
    return shlex.join(["glass", *(each for each in typed.get() if each != option)])


class UsageError(Exception):
    """Arguments that do not fit the verb; its text is one line."""


def read_arguments(function: Callable[..., Any], verb: str, arguments: Sequence[str]) -> Callable[[], Any] | None:
    """The call that a command line describes; None for --help, which is then shown."""
    import tyro

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Callable[[], Any]:
        return functools.partial(function, *args, **kwargs)

    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            parsed = tyro.cli(call, prog=f"glass {verb}", args=arguments, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as stop:
        if not stop.code:
            return None
        raise UsageError(f"{message_in(output.getvalue())}; glass {verb} --help explains it") from None
    sys.stderr.write(output.getvalue())
    return parsed


def message_in(box: str) -> str:
    """The message and the suggestion of an error box, without its frame and its hints at the help.

    >>> message_in('''╭─ Unrecognized options ────────╮
    ... │ Unrecognized options: --explian │
    ... │ ───────────────────────────────  │
    ... │ Perhaps you meant:              │
    ... │     --explain                   │
    ... │         Show every step.        │
    ... ╰─────────────────────────────────╯''')
    'unrecognized options: --explian, did you mean --explain?'
    """
    sections: list[list[str]] = [[]]
    for line in COLOUR.sub("", box).splitlines()[1:]:  # the first one is a title
        text = line.strip(FRAME)
        if not {*text} <= RULE:
            sections[-1].append(text)
        elif sections[-1]:
            sections.append([])
    first, *others = sections
    close = next((lines[1] for lines in others if lines and lines[0] == "Perhaps you meant:"), "")
    message = " ".join(first).rstrip(".")
    return message[:1].lower() + message[1:] + (f", did you mean {close}?" if close else "")


def check_page_path(option: str, path: Path) -> None:
    """Raise if a page cannot be written to `path`."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"{option} {path}: name a page such as page.html in a folder that exists")
