"""What the fields of a class and the arguments of a function mean, read from their docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

HEADINGS = ("Attributes:", "Args:")
ENTRY = re.compile(r" {4}(\w+): (.*)")
WIDTH = 100


def field_docs(owner: Any) -> dict[str, str]:
    """The description of each field (or argument) of a class (or function), as far as its docstring has one.

    >>> class Bread:
    ...     '''Bread.
    ...
    ...     Attributes:
    ...         flour: How much of it,
    ...             in grams.
    ...         salt: The same.
    ...     '''
    >>> field_docs(Bread)
    {'flour': 'How much of it, in grams.', 'salt': 'The same.'}
    """
    lines = inspect.cleandoc(owner.__doc__ or "").splitlines()
    start = next((index for index, line in enumerate(lines) if line in HEADINGS), len(lines))
    found: dict[str, str] = {}
    for line in lines[start + 1 :]:
        entry = ENTRY.fullmatch(line)
        if entry:
            found[entry[1]] = entry[2]
        elif line.startswith(" " * 8) and found:
            found[next(reversed(found))] += " " + line.strip()
        elif line.strip():
            break  # the section has ended
    return found


def inherit_field_docs(kind: type) -> None:
    """Complete a class's docstring with the fields of its bases, so that help(kind) explains all of them."""
    own, missing = field_docs(kind), {}
    for base in kind.__mro__[1:]:  # the nearest first
        missing |= {name: text for name, text in field_docs(base).items() if name not in {**own, **missing}}
    if not kind.__doc__ or not missing:
        return
    around = {"width": WIDTH, "initial_indent": " " * 4, "subsequent_indent": " " * 8}
    entries = [textwrap.fill(f"{name}: {text}", **around, break_on_hyphens=False) for name, text in missing.items()]
    heading = [] if own else ["", HEADINGS[0]]
    kind.__doc__ = "\n".join([inspect.cleandoc(kind.__doc__), *heading, *entries]) + "\n"
