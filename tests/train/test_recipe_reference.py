"""Every field of a recipe is explained, in `help`, in `glass train --help` and in `--print-config`."""

from __future__ import annotations

import dataclasses
import pydoc

import pytest

import glassformer
from glassformer import LoraConfig, TrainSettings
from glassformer.cli.main import main
from glassformer.tasks.task_registry import TASKS, task_class
from glassformer.train.distill import DistillSettings
from glassformer.train.recipes import recipe_reference as reference
from glassformer.train.recipes.recipe import DataSettings, Recipe, make_recipe
from glassformer.train.recipes.recipe_fields import set_fields
from glassformer.train.recipes.recipe_text import as_toml, toml

CLASSES = [Recipe, DataSettings, TrainSettings, LoraConfig, DistillSettings, glassformer.GenerationConfig]
REQUIRED = {"model": "m", "data": {"train": "rows.tsv"}, "train": {"output_dir": "run"}}


@pytest.mark.parametrize("kind", CLASSES + [task_class(task).Options for task in TASKS], ids=lambda kind: kind.__name__)
def test_help_explains_every_field(kind):
    text = pydoc.plain(pydoc.render_doc(kind))
    for spec in dataclasses.fields(kind):
        assert f" {spec.name}: " in text.partition("Attributes:")[2], spec.name


def printed(capsys, *arguments: str) -> str:
    assert main(["train", *arguments]) == 0
    return capsys.readouterr().out


def sections_of(task: str) -> dict[str, list[reference.RecipeField]]:
    found = {**reference.plain_sections(), **reference.further_sections(), "options": reference.all_task_options(task)}
    assert all(field.text for fields in found.values() for field in fields)
    return found


def test_the_help_of_training_lists_every_field_and_option(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    shown = " ".join(printed(capsys, "--help").split())
    for task in TASKS:
        for name, fields in sections_of(task).items():
            for field in fields:
                if name in ("options", "vocabulary", "lora", "distill"):
                    assert f"--{name}.{field.name} ({field.default_text}) {field.text}" in shown
                elif field.name == "train":
                    assert f"--data (required) {field.text}" in shown
                elif field.name != "task":
                    assert f"--{field.name.replace('_', '-')} ({field.default_text}) {field.text}" in shown
    one = printed(capsys, "ner", "--help")
    assert (
        "--options.crf " in one and "--options.hypothesis_template" not in one and "settings of generation" not in one
    )


def test_the_help_of_a_recipe_is_that_of_its_task(tmp_path, capsys):
    path = tmp_path / "recipe.toml"
    path.write_text('task = "translation"\n')
    shown = printed(capsys, str(path), "--help")
    assert "--options.bleu_tokenize" in shown and "--options.num_beams" in shown and "--options.crf" not in shown


@pytest.mark.parametrize("task", TASKS)
def test_a_printed_recipe_explains_every_field_and_is_the_recipe(task, tmp_path, capsys):
    given = ["--model=m", "--data=rows.tsv", "--output-dir=run", "--seed=7", "--save-minutes=none", "--lora.r=2"]
    text = printed(capsys, task, *given, "--config.hidden_dropout_prob=0.3", "--print-config")
    lines = text.splitlines()
    for name, fields in sections_of(task).items():
        start = next((i for i, line in enumerate(lines) if line.removeprefix("# ") == f"[{name}]"), 0)
        for field in fields:
            assert any(
                line.removeprefix("# ").startswith(f"{field.name} ") and line.endswith(f"  # {field.text}")
                for line in lines[start:]
            ), (name, field.name)
    recipe = make_recipe(toml.loads(text))
    assert (recipe.train.seed, recipe.train.save_minutes, recipe.lora.r) == (7, None, 2)
    assert recipe.config == {"hidden_dropout_prob": 0.3} and recipe.options == {}
    (tmp_path / "printed.toml").write_text(text)
    assert printed(capsys, str(tmp_path / "printed.toml"), "--print-config") == text
    assert make_recipe(toml.loads(as_toml(recipe))) == recipe


def test_the_shown_defaults_are_the_defaults():
    recipe = make_recipe({"task": "ner", **REQUIRED})
    lines = reference.explained_toml(recipe).splitlines()
    shown = [line.removeprefix("# ") if " = " in line.partition("  #")[0] else line for line in lines]
    start, end = shown.index("[options]"), shown.index("[config]")
    options = toml.loads("\n".join(shown[start:end]))["options"]
    assert options["ignore_labels"] == ["O"] and options["aggregation_strategy"] == "none"
    kind = task_class("ner").Options
    assert kind(**{**options, "ignore_labels": tuple(options["ignore_labels"])}) == kind()
    start = shown.index("# [lora]")
    lora = toml.loads("\n".join(shown[start + 1 : shown.index("# [distill]")]))
    assert LoraConfig(**lora) == LoraConfig()


@pytest.mark.parametrize(
    ("task", "section", "name", "expected"),
    [
        ("ner", "train", "save_total_limit", None),
        ("ner", "train", "max_grad_norm", None),
        ("ner", "options", "aggregation_strategy", "none"),  # a value of its own
        ("ner", "options", "stride", None),
        ("text-classification", "options", "top_k", None),
        ("text-classification", "options", "function_to_apply", "none"),
        ("translation", "options", "bleu_tokenize", "none"),
        ("translation", "options", "min_p", None),
        ("translation", "options", "prefix", "none"),
    ],
)
def test_none_takes_a_default_away_and_is_kept_in_files(task, section, name, expected):
    values = {"task": task, **REQUIRED}
    values[section] = {**values.get(section, {}), name: "none"}
    recipe = make_recipe(values)
    typed = {
        "task": task,
        **{key: dict(value) if isinstance(value, dict) else value for key, value in REQUIRED.items()},
    }
    set_fields(typed, [f"{section}.{name}=none"])
    assert make_recipe(typed) == recipe  # the same on a command line
    found = recipe.options[name] if section == "options" else getattr(recipe.train, name)
    assert found == expected
    assert make_recipe(toml.loads(as_toml(recipe))).to_dict() == recipe.to_dict() or name in ("stride", "min_p")
    again = make_recipe(toml.loads(reference.explained_toml(recipe)))
    assert again.train == recipe.train and again.options.get(name) == expected
