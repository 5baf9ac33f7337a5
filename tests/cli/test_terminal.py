"""Tables: straight columns in a pipe, text that stays text in a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from glassformer.cli.output.terminal import aligned, print_table, size


def test_wide_characters_count_twice():
    assert aligned([["天气", "1"], ["word", "20"]], right=[1]) == ["天气   1", "word  20"]


def test_no_line_ends_in_spaces():
    assert aligned([["a", "long"], ["b", ""]]) == ["a  long", "b"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("no_color", [False, True])
def test_a_terminal_gets_a_drawn_table_without_markup(monkeypatch, no_color):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    print_table(("token", "id"), [("[CLS]", 101), ("[bold]", 7)], right=[1])
    shown = terminal.getvalue()
    assert "[CLS]" in shown
    assert "[bold]" in shown
    assert "─" in shown
    assert "\x1b[3" not in shown  # no colour


def test_sizes_have_readable_units():
    assert [size(n) for n in (0, 999, 1000, 12_345_678, 5 * 10**9)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "12.3 MB",
        "5.0 GB",
    ]
