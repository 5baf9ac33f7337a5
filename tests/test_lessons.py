"""The lessons in docs/: alike in both languages, and their code runs as it stands."""

from __future__ import annotations

import re

import pytest

from .conftest import ROOT

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LESSONS = sorted(path for path in (ROOT / "docs").glob("*.md") if not path.name.endswith(".zh.md"))


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_both_languages_have_the_same_code_and_headings(lesson):
    english, chinese = lesson.read_text("utf-8"), lesson.with_suffix(".zh.md").read_text("utf-8")
    assert BLOCK.findall(english) == BLOCK.findall(chinese)
    assert len(re.findall(r"^#+ ", english, re.MULTILINE)) == len(re.findall(r"^#+ ", chinese, re.MULTILINE))


@pytest.mark.parametrize(
    "lesson",
    [path for path in LESSONS if path.stem not in ("results", "reference", "reliability")],
    ids=lambda path: path.stem,
)
def test_the_code_runs(lesson, minilm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(block for language, block in BLOCK.findall(lesson.read_text("utf-8")) if language == "python")
    assert code.count("assert") >= 3
    exec(compile(code, str(lesson), "exec"), {"__name__": "lesson"})
