"""The public names: lazy at run time, explicit for type checkers, and the same in both."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import glassformer


def test_stub_names_what_can_be_imported():
    tree = ast.parse(Path(glassformer.__file__).with_suffix(".pyi").read_text())
    stub = {
        (alias.name, node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    assert stub == set(glassformer._HOME_OF.items()), "python scripts/write_stub.py"


def test_unknown_name_suggests():
    with pytest.raises(AttributeError, match="did you mean 'BertModel'"):
        _ = glassformer.BertModl
    with pytest.raises(ImportError):
        from glassformer import BertModl  # noqa: F401


def test_names_of_transformers_suggest_ours():
    with pytest.raises(ImportError, match="glassformer has no 'TrainingArguments': TrainSettings has"):
        from glassformer import TrainingArguments  # noqa: F401
    assert not hasattr(glassformer, "anything_else")
