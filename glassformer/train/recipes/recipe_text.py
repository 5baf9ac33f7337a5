"""A recipe as text: reading and writing TOML, and parsing values of the command line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...checkpoints.files import reason_of
from ...errors import ConfigError, InputError

if TYPE_CHECKING:
    from ...tasks.task import Task
    from .recipe import Recipe

NONE = "none"  # in files, which have no null
SECTIONS = ("data", "vocabulary", "options", "config", "lora", "distill", "train")

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
    lines = [line_of(name, value) for name, value in values.items() if name not in SECTIONS]
    for section in SECTIONS:
        if values[section] is None:
            lines += ["", f"# [{section}] is not set"]
            continue
        lines += ["", f"[{section}]", *(line_of(name, value) for name, value in values[section].items())]
    return "\n".join(lines) + "\n"


def line_of(name: str, value: Any) -> str:
    """A field as a line.

    >>> line_of("seed", 42), line_of("limit", None)
    ('seed = 42', '# limit is not set')
    """
    return f"# {name} is not set" if value is None else f"{name} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)


# --- fields without a value --------------------------------------------------------------------------------------


def with_written_none(values: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The values of a section with "none", as TOML has no null, where a field is without the value of its default."""
    defaults = {spec.name: spec.default for spec in dataclasses.fields(kind)}
    return {name: NONE if value is None and defaults.get(name) is not None else value for name, value in values.items()}


def with_read_none(values: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The values of a section with None for "none" in fields that can be without a value."""
    optional = [spec.name for spec in dataclasses.fields(kind) if "None" in str(spec.type)]
    return {name: None if value == NONE and name in optional else value for name, value in values.items()}


def read_option(kind: type[Task], name: str, value: Any) -> Any:
    """The value of an option; "none" is None unless the option has such a value."""
    if value != NONE:
        return value
    try:
        kind.Options(**{name: NONE})
    except (InputError, TypeError):  # or a setting of generation, which is no field
        return None
    return NONE
