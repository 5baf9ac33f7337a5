"""How verbs print: tables drawn for a terminal, plain aligned lines for a pipe or a file, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any


def print_json(value: Any, indent: int | None = 2) -> None:
    """One JSON value; without `indent` it stays on one line."""
    print(json.dumps(value, indent=indent, ensure_ascii=False))


def print_heading(text: str) -> None:
    """A line that stands out in a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text(text, style="bold"))


def print_coloured(parts: Sequence[tuple[str, float]]) -> None:
    """Parts of a text on backgrounds as strong as their shares, blue above 0 and red below; only in a terminal."""
    if not sys.stdout.isatty():
        return
    from rich.console import Console
    from rich.text import Text

    line = Text()
    for text, share in parts:
        faded = round(255 * (1 - 0.8 * abs(share)))
        colour = f"black on rgb({faded},{faded},255)" if share > 0 else f"black on rgb(255,{faded},{faded})"
        line.append(text, style=colour if round(10 * abs(share)) else "")
    Console(highlight=False).print(line)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()) -> None:
    """Rows under a header, which may have no words; the columns numbered in `right` are flush right.

    >>> print_table(("part", "size"), [("body", 120), ("head", 5)], right=[1])
    part  size
    body   120
    head     5
    """
    cells = [[str(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        draw_table(header, cells, right)
        return
    for line in aligned([list(header), *cells] if any(header) else cells, right):
        print(line)


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Rows as lines of text with straight columns; wide characters count as two."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        parts = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            space = " " * (width - cell_len(cell))
            parts.append(space + cell if i in right else cell + space)
        lines.append("  ".join(parts).rstrip())
    return lines


def draw_table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(header))
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="right" if i in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # not markup: "[CLS]" is text
    Console(highlight=False).print(table)


def counted(count: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "core"), counted(2000, "core")
    ('1 core', '2,000 cores')
    """
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def size(count: int) -> str:
    """Bytes in readable units.

    >>> size(1), size(532), size(90_864_192)
    ('1 byte', '532 bytes', '90.9 MB')
    """
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return counted(count, "byte")
