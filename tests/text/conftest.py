"""Vocabularies for the tests: the published ones where they are at hand, and a small one that always is."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.text import BertTokenizer

SMALL = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] the quick brown fox un ##aff ##able jump ##ed , . ! ? a b c ##a ##b ##c "
    "one two three four five six seven 北 京 ， cafe nasa new ##tok e1 well - known [ ] mask x"
).split()


@pytest.fixture(scope="session")
def published(shared):
    """Makes a tokenizer from a published vocabulary: published("uncased", never_split=[...])."""
    return lambda name, **settings: BertTokenizer.from_pretrained(shared / "vocab" / f"bert-base-{name}", **settings)


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with nothing but a small vocab.txt."""
    (tmp_path / "vocab.txt").write_text("\n".join(SMALL) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def small(folder) -> BertTokenizer:
    return BertTokenizer.from_pretrained(folder)
