"""The page on reliability: every test that it names exists, in both languages alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .campaigns.__main__ import modules

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("docs/reliability.md", "docs/reliability.zh.md")
NAMED = re.compile(r"`(tests/[\w/]+\.py)?(?:::(test_\w+))?`")


def named_in(page: str) -> list[tuple[str, str]]:
    """The files of tests that a page names, each with a test or none; `::test_x` is in the file named before it."""
    found, file = [], ""
    for path, name in NAMED.findall((ROOT / page).read_text(encoding="utf-8")):
        file = path or file
        found += [(file, name)] if path or name else []
    return found


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_a_page_names_exists(page):
    named = named_in(page)
    assert len(named) > 50
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (ROOT / file).is_file() or (name and f"\ndef {name}(" not in (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert not missing


def test_both_pages_name_the_same_tests():
    assert named_in(PAGES[0]) == named_in(PAGES[1])


@pytest.mark.parametrize("page", PAGES)
def test_every_row_names_a_test_and_every_campaign_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "|---" not in line]
    heads = [row for row in rows if row in {"| fault | what happens | shown by |", "| 故障 | 结果 | 由此证明 |"}]
    assert len(heads) == 4 and all("`tests/" in row for row in rows if row not in heads)
    listed = set(re.findall(r"(?:campaign|攻击测试) `([a-z ]+)`", text))
    assert len(listed) > 10 and listed <= {module.NAME for module in modules()}
