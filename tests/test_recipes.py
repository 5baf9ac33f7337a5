"""The recipes in recipes/: each is valid, and says where its data comes from or has it in recipes/samples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from glassformer.cli.main import main
from glassformer.train.recipes.build_trainer import check_files
from glassformer.train.recipes.recipe import Recipe, make_recipe
from glassformer.train.recipes.recipe_text import read_recipe

from .conftest import ROOT

PATHS = sorted([*(ROOT / "recipes").glob("*.toml"), *(ROOT / "recipes/lra").glob("*.toml")])
BUNDLED = ("classify", "entities", "write")
SOURCE = re.compile(r"^# Data: (?:.|\n# )*?https://\S+", re.MULTILINE)


def read(path: Path) -> Recipe:
    return make_recipe(read_recipe(path), path.name)


def head_of(path: Path) -> str:
    """The comment at the top."""
    return path.read_text("utf-8").partition("\n\n")[0]


def files_of(recipe: Recipe) -> list[str]:
    given = [source for source in (recipe.data.train, recipe.data.eval) if source is not None]
    return [file for source in given for file in (source.values() if isinstance(source, dict) else [source])]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_recipe_is_valid_and_says_how_it_is_run(path):
    assert read(path).train.output_dir.startswith("runs/")
    assert re.search(rf"^#   glass (train|compare) .*recipes/(lra/)?{path.name}", head_of(path), re.MULTILINE)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_recipe_names_the_source_of_its_data_or_has_it(path):
    head = head_of(path)
    [_, said] = head.split("\n# Data: ")
    files = files_of(read(path))
    if path.stem in BUNDLED:
        assert said.startswith("a bundled sample") and all((ROOT / file).is_file() for file in files)
        return
    folder = re.search(r"in\s(?:# )?\.\./shared/data/[\w-]+|as \.\./shared/data/\S+", said)
    if all(file.startswith("../shared/data/") for file in files):
        assert SOURCE.search(head) and folder, "name the address, and where the files are expected"
        assert all(file.startswith(folder[0].split()[-1].rstrip(".,")) for file in files)
        return
    first = next(line for line in head.splitlines() if line.startswith("#   "))
    made = re.search(r"made by the first command|the first command\s(?:# )?splits", said)
    assert made and re.match(r"#   (python scripts/\w+\.py|glass demo)", first)
    script = re.search(r"scripts/\w+\.py", first)
    assert script is None or (ROOT / script[0]).is_file()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_files_can_be_read_as_the_recipe_says(path, shared, monkeypatch):
    recipe = read(path)
    if not all(file.startswith("../shared") for file in files_of(recipe)):
        pytest.skip("its data is made by a command")
    monkeypatch.chdir(ROOT)
    if not Path("../shared").is_dir():
        pytest.skip("the reference files are not beside the repository")
    check_files(recipe)


@pytest.mark.parametrize(("name", "model"), [("classify", "new:bert"), ("entities", "new:bert"), ("write", "new:gpt2")])
def test_a_recipe_with_a_bundled_sample_runs(name, model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    given = [f"--model={model}", "--tokenizer=new:characters", "--size=tiny", f"--output-dir={tmp_path / 'run'}"]
    if name == "entities":
        given[1] = "--tokenizer=new:wordpiece"
    assert main(["train", f"recipes/{name}.toml", *given, "--max-steps=2"]) == 0, capsys.readouterr().err
    assert (tmp_path / "run/result.json").exists()
