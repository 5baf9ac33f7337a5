"""Fields of a recipe by their full names, as a command line sets them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, time
from typing import Any

from ...data.columns import parse_column
from ...errors import ConfigError, InputError
from .recipe import SECTION_OF, Recipe, names_of
from .recipe_text import parse_value

# Fields whose values are texts even if they look like numbers or dates: a folder may be called 7, or 2024-05-01.
TEXT_FIELDS = ("model", "tokenizer", "target_tokenizer", "output_dir", "data", "eval", "teacher")


def set_field(values: dict[str, Any], name: str, value: Any) -> None:
    """Set one field of a recipe by its full name, such as train.seed; those of [train] and [data] need no section.

    >>> values = {"train": {"seed": 1}}
    >>> for name, value in {"learning-rate": 0.1, "columns.text": "sentence", "data": "a.tsv"}.items():
    ...     set_field(values, name, value)
    >>> values
    {'train': {'seed': 1, 'learning_rate': 0.1}, 'data': {'columns': {'text': 'sentence'}, 'train': 'a.tsv'}}
    """
    *sections, last = name.replace("-", "_").split(".")
    first = sections[0] if sections else last
    if [*sections, last] == ["data"]:
        sections, last = ["data"], "train"
    elif first not in names_of(Recipe) and first in SECTION_OF:
        sections.insert(0, SECTION_OF[first])
    for section in sections:
        values = values.setdefault(section, {})
        if not isinstance(values, dict):
            raise ConfigError(f"{name} cannot be set: {section} is not a section")
    values[last] = value


def set_fields(values: dict[str, Any], given: Iterable[str]) -> None:
    """Set fields written as NAME=VALUE; those of columns also as columns=NAME=COLUMN, as all verbs have them."""
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes FIELD=VALUE, got {each!r}")
        parsed = parse_value(value)
        if name in ("columns", "data.columns") and isinstance(parsed, str):
            column, parsed = parse_column(value)
            set_field(values, f"data.columns.{column}", parsed)
            continue
        is_number = isinstance(parsed, int | float | date | time) and not isinstance(parsed, bool)
        is_text = name.replace("-", "_").rpartition(".")[2] in TEXT_FIELDS and is_number
        is_text = is_text or (parsed is None and name.startswith("options."))  # the task knows what none means
        set_field(values, name, value if is_text else parsed)


def fill_placeholders(values: dict[str, Any]) -> None:
    """Set required fields that are missing to "...", so that the recipe can be shown."""
    values.setdefault("model", "...")
    for section, name in (("data", "train"), ("train", "output_dir")):
        if isinstance(values.setdefault(section, {}), dict):
            values[section].setdefault(name, "...")
