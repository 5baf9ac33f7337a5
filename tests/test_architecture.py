"""docs/architecture.md is true: its names exist, its excerpts are the code, and the architecture that it adds works."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import glassformer

from .conftest import ROOT
from .test_house import ORDER
from .test_lessons import BLOCK

DOCUMENT = ROOT / "docs/architecture.md"
BLOCKS = BLOCK.findall(DOCUMENT.read_text("utf-8"))
# Blocks of Python that begin with a path are that file if it is new, and an excerpt of it if it is there.
FILES = [tuple(block.removeprefix("# ").split("\n", 1)) for language, block in BLOCKS if language == "py"]
NEW = [(path, text) for path, text in FILES if not (ROOT / path).exists()]
EXCERPTS = [(path, text) for path, text in FILES if (ROOT / path).exists()]
CHANGES = [tuple(block.removeprefix("--- ").split("\n", 1)) for language, block in BLOCKS if language == "diff"]


def names_in(document: Path) -> list[str]:
    """What stands between backticks in the text outside of blocks."""
    return list(dict.fromkeys(re.findall(r"`([^`\n]+)`", BLOCK.sub("", document.read_text("utf-8")))))


@cache
def classes() -> dict[str, list[Any]]:
    """Every class of the package by name."""
    found: dict[str, list[Any]] = {}
    for module in pkgutil.walk_packages(glassformer.__path__, "glassformer."):
        if module.name.split(".")[1] in ("nn", "models", "checkpoints", "tasks", "registry"):
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, type) and value.__module__ == module.name:
                    found.setdefault(name, []).append(value)
    return found


def has(owner: Any, name: str) -> bool:
    """Whether an object has an attribute, or a class declares one for its instances."""
    declared = (vars(base).get("__annotations__", {}) for base in getattr(owner, "__mro__", ()))
    return hasattr(owner, name) or any(name in each for each in declared)


def exists(name: str) -> bool:
    """Whether `folder.module.Class.method` or `Class.method` is in the package."""
    parts = name.split(".")
    if parts[0] not in ORDER:
        return any(has(owner, parts[1]) for owner in classes().get(parts[0], ())) and len(parts) == 2
    for length in range(len(parts), 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(("glassformer", *parts[:length])))
        except ModuleNotFoundError:
            continue
        for part in parts[length:-1]:
            owner = getattr(owner, part, None)
        return length == len(parts) or has(owner, parts[-1])
    return False


@pytest.mark.parametrize("document", [DOCUMENT, DOCUMENT.with_suffix(".zh.md")], ids=["english", "chinese"])
def test_every_path_and_name_exists(document):
    names = names_in(document)
    new = {path for path, _ in NEW} | {path.removeprefix("glassformer/") for path, _ in NEW}
    paths = [name for name in names if re.fullmatch(r"\w+(/\w+)*(/|\.py|\.md|\.zh\.md)", name) and name not in new]
    wrong = [path for path in paths if not ((ROOT / path).exists() or (ROOT / "glassformer" / path).exists())]
    inside = re.compile(rf"(({'|'.join(ORDER)})(\.\w+)+|[A-Z]\w*\.(?!md\b)\w+)")
    dotted = [name for name in names if inside.fullmatch(name)]
    wrong += [name for name in dotted if not exists(name)]
    assert not wrong
    assert len(paths) >= 15 and len(dotted) >= 60


@pytest.mark.parametrize("name", ["nn.attention.atend", "models.base.body.Body.positons", "Context.past_", "Bdy.pool"])
def test_a_name_that_is_wrong_is_found(name):
    assert not exists(name)


def plain(text: str) -> list[str]:
    """The lines of code without indentation and comments."""
    lines = (line.split("  # ")[0].strip() for line in text.split("\n"))
    return [line for line in lines if line and line != "..."]


@pytest.mark.parametrize("path, text", EXCERPTS, ids=[path for path, _ in EXCERPTS])
def test_excerpts_are_the_code(path, text):
    rest = iter(plain((ROOT / path).read_text("utf-8")))
    missing = next((line for line in plain(text) if line not in rest), None)  # each behind the one before it
    assert missing is None


def test_the_picture_has_every_folder():
    from scripts.draw_architecture import FOLDERS, all_imports

    beside = ("transformers_neuron_view", "name_suggestions", "json_fields", "field_docs")  # not on the way of the data
    assert [*FOLDERS] == [name for name in ORDER if name not in beside]
    assert ("tasks", "models") in all_imports()


def apply(folder: Path, path: str, change: str) -> None:
    """Make one change of a file, in which the lines that stay and those that go stand once."""
    lines = change.rstrip("\n").split("\n")
    before = "".join(line[1:] + "\n" for line in lines if not line.startswith("+"))
    after = "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))
    text = (folder / path).read_text("utf-8")
    assert text.count(before) == 1, f"{path}: the lines to change are there {text.count(before)} times:\n{before}"
    (folder / path).write_text(text.replace(before, after), encoding="utf-8")


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> Path:
    """A copy of the package with the architecture of the document."""
    folder = tmp_path_factory.mktemp("extended")
    for name in ("glassformer", "tests", "scripts"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.json", "assets"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    for path, text in NEW:
        (folder / path).write_text(text, encoding="utf-8")
    for path, change in CHANGES:
        apply(folder, path, change)
    return folder


def run(folder: Path, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    result = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]


def test_the_new_architecture_keeps_the_contract(extended):
    assert [path for path, _ in NEW] and len(CHANGES) == 3
    run(extended, "scripts/write_stub.py")
    run(extended, "-m", "ruff", "check", *(path for path, _ in NEW), *(path for path, _ in CHANGES))
    run(extended, "-m", "ruff", "format", "--check", *(path for path, _ in NEW), *(path for path, _ in CHANGES))
    tests = ("tests/models/test_contract.py", "tests/explain/test_capture.py", "tests/test_public_names.py")
    run(extended, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests, "-k", "tandem or stub or is_here")
    run(extended, "try_tandem.py")
