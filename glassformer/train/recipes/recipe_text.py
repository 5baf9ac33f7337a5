"""A recipe as text: reading and writing TOML, and parsing values of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...checkpoints.files import reason_of
from ...errors import ConfigError, InputError

if TYPE_CHECKING:
    from .recipe import Recipe

try:
    import tomllib as toml
except ImportError:  # Python 3.10
    import tomli as toml  # type: ignore[no-redef]


def read_recipe(path: Path) -> dict[str, Any]:
    """The values of a TOML file, not yet checked."""
    try:
        return toml.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"could not read {path}: {reason_of(error)}") from None
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from None


def parse_value(text: str) -> Any:
    """A value of the command line: a TOML value, or else the text itself.

    >>> parse_value("3e-5"), parse_value("true"), parse_value("[1, 2]"), parse_value("train.tsv")
    (3e-05, True, [1, 2], 'train.tsv')
    """
    if text in ("none", "None"):
        return None
    try:
        return toml.loads(f"value = {text}")["value"]
    except toml.TOMLDecodeError:
        return text


def as_toml(recipe: Recipe) -> str:
    """A recipe as TOML, complete with all defaults."""
    values = recipe.to_dict()
    plain = {
        name: value
        for name, value in values.items()
        if not isinstance(value, dict) and name not in recipe.optional_sections
    }
    lines = [line_of(name, value) for name, value in plain.items()]
    for section in ("data", "vocabulary", "options", "config", "lora", "distill", "train"):
        if values[section] is None:
            lines += ["", f"# [{section}] is not set"]
            continue
        lines += ["", f"[{section}]", *(line_of(name, value) for name, value in values[section].items())]
    return "\n".join(lines) + "\n"


def line_of(name: str, value: Any) -> str:
    return f"# {name} is not set" if value is None else f"{name} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)
