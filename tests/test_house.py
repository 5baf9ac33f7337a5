"""The structure of the package: folders import only from those above them, and every public name exists."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import glassformer

PACKAGE = Path(glassformer.__file__).parent
# From top to bottom, as data flows.
ORDER = (
    "errors",
    "field_docs",
    "json_fields",
    "registry",
    "name_suggestions",
    "text",
    "audio",
    "images",
    "nn",
    "checkpoints",
    "models",
    "generate",
    "data",
    "tasks",
    "train",
    "explain",
    "transformers_neuron_view",
    "serve",
    "scale",
    "export",
    "cli",
)
# A tokenizer reads and writes files, a model generates and can be captured: for that they may import downwards, inside
# functions.
LATE = {
    ("text", "checkpoints"),
    ("audio", "checkpoints"),
    ("images", "checkpoints"),
    ("models", "generate"),
    ("models", "explain"),
}


def imports(path: Path) -> Iterator[tuple[str, bool, int]]:
    """The folders of the package that a file imports from, whether only when a function runs, and in which line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = set()
    for node in ast.walk(tree):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        is_for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if is_function or is_for_types:
            inside.update(map(id, ast.walk(node)))
    here = ("glassformer", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level + 1])
            base = f"{base}.{node.module}" if node.module else base
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "glassformer" and len(parts) > 1:
                yield parts[1], id(node) in inside, node.lineno


def folder_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_a_folder_imports_only_from_folders_above_it(path):
    folder = folder_of(path)
    assert folder in ORDER, f"{folder} is not in ORDER"
    for other, late, line in imports(path):
        if other not in ORDER:
            # A public name of the package, or its version. Only the last folder may use them: they lead to any other.
            assert folder == "cli" or other == "__version__", f"line {line}: {other} is not in ORDER"
            continue
        above = ORDER.index(other) <= ORDER.index(folder)
        assert above or (late and (folder, other) in LATE), f"line {line}: {folder} imports from {other} below it"


def test_no_file_is_called_utils():
    assert not [path for path in FILES if path.stem in ("utils", "util", "helpers", "misc", "common")]


def test_importing_the_package_imports_nothing_heavy():
    script = (
        "import sys, glassformer\n"
        "heavy = [name for name in ('torch', 'numpy', 'tokenizers', 'safetensors', 'huggingface_hub', 'tyro', 'rich')"
        " if name in sys.modules]\n"
        "assert not heavy, heavy\n"
        "assert 'BertModel' in dir(glassformer)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=PACKAGE.parent, check=True)


def test_every_public_name_is_there():
    missing = []
    for name in glassformer.__all__:
        try:
            getattr(glassformer, name)
        except (ImportError, AttributeError) as error:
            missing.append(f"{name}: {error}")
    assert not missing


def test_a_misspelt_name_is_reported():
    with pytest.raises(AttributeError, match="did you mean 'BertModel'"):
        glassformer.BertModle  # noqa: B018
