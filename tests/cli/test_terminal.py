"""Tables: straight columns in a pipe, text that stays text in a terminal; bars whose times say what they are."""

from __future__ import annotations

import io
import re
import sys

import pytest

from glassformer.cli.output.terminal import aligned, print_table, size
from glassformer.tasks import progress
from glassformer.train.reporting.run_log import Bar


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


def error_terminal(monkeypatch) -> Terminal:
    """Standard error as a terminal of 80 columns."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", Terminal())
    return sys.stderr


def lines_of(terminal: Terminal) -> list[str]:
    """What was written, without movements of the cursor."""
    return re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue()))


def test_the_bar_of_training_names_its_times_and_the_padding(monkeypatch):
    terminal = error_terminal(monkeypatch)
    bar = Bar(1000)
    bar.update(10, "loss 0.1234, rate 5e-05, 11,323 tokens/s, 12% padding skipped")
    bar.show("step 10 of 1,000, loss 0.1234")
    bar.close()
    lines = lines_of(terminal)
    assert any(
        re.search(r"  10/1000 steps, \d:\d\d:\d\d elapsed, (-:--:--|\d:\d\d:\d\d) left$", line) for line in lines
    )
    assert "loss 0.1234, rate 5e-05, 11,323 tokens/s, 12% padding skipped" in lines
    assert "step 10 of 1,000, loss 0.1234" in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("total", "end"), [(20, r" elapsed (-:--:--|\d:\d\d:\d\d) left$"), (None, " elapsed$")])
def test_the_bar_of_long_work_names_its_times(monkeypatch, total, end):
    terminal = error_terminal(monkeypatch)
    monkeypatch.setattr(progress, "SHOWN_AFTER", 0.0)
    assert list(progress.show_progress(range(20), total, None, "reading")) == list(range(20))
    assert any(re.search(r"reading .* rows, [\d,]+ rows/s, \d:\d\d:\d\d" + end, line) for line in lines_of(terminal))
