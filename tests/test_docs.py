"""The examples in docstrings are executed."""

from __future__ import annotations

import doctest
import importlib
import logging
import pkgutil

import pytest

import glassformer

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
