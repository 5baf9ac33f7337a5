"""The examples in docstrings are executed, and the reference of all fields says what the docstrings say."""

from __future__ import annotations

import doctest
import importlib
import logging
import pkgutil
import runpy

import pytest

import glassformer

from .conftest import ROOT

MODULES = ["glassformer", *(found.name for found in pkgutil.walk_packages(glassformer.__path__, "glassformer."))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # an example that writes must not write here
    monkeypatch.setattr(logging.getLogger("glassformer"), "disabled", True)
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=FLAGS, extraglobs={"glassformer": glassformer})
    assert not result.failed


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in MODULES for test in finder.find(importlib.import_module(name)) if test.examples]
    assert len(found) >= 10


def test_the_reference_is_current():
    pages = runpy.run_path(str(ROOT / "scripts/write_reference.py"))["pages"]()
    for name, text in pages.items():
        current = (ROOT / "docs" / name).read_text("utf-8") == text
        assert current, f"docs/{name} is not what the docstrings say: run python scripts/write_reference.py"
