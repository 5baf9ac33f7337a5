"""The fields of a JSON file, each read with the type and the range that it must have.

A check takes a field's name and value and returns the value to use, or raises ConfigError. Only what is read is
checked: other keys belong to programs that are not known here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from .errors import ConfigError, GlassformerError, shown

Check = Callable[[str, Any], Any]


def is_integer(low: int = 1, high: int = 2**31 - 1, optional: bool = False) -> Check:
    def check(name: str, value: Any) -> int | None:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ConfigError(f"{name} must be an integer from {low} to {high}, got {shown(value)}")
        return value

    return check


def is_number(low: float = -math.inf, high: float = math.inf, optional: bool = False) -> Check:
    def check(name: str, value: Any) -> float | None:
        if value is None and optional:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ConfigError(f"{name} must be a number from {low} to {high}, got {shown(value)}")
        return value

    return check


def is_boolean(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, got {shown(value)}")
    return value


def is_string(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a string, got {shown(value)}")
    return value


def is_list(name: str, value: Any) -> list | tuple:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{name} must be a list, got {shown(value)}")
    return value


def is_table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be an object with named values, got {shown(value)}")
    return value


class JsonFields:
    """An object in a JSON file; errors name the file and the place in it.

    >>> settings = JsonFields({"model": {"type": "BPE"}}, "tokenizer.json", ConfigError)
    >>> settings.section("model").read("type", is_string)
    'BPE'
    >>> settings.section("normalizer").read("lowercase", is_boolean, default=False)
    False
    """

    def __init__(
        self, values: Mapping[str, Any], file: object, error: type[GlassformerError], prefix: str = ""
    ) -> None:
        self.values = values
        self._file, self._error, self._prefix = file, error, prefix

    def read(self, name: str, check: Check, default: Any = None) -> Any:
        """The value of a field as `check` returns it; the default where the file has none, or null."""
        value = self.values.get(name)
        if value is None:
            return default
        try:
            return check(self._prefix + name, value)
        except ConfigError as error:
            raise self._error(f"{self._file}: {error}") from None

    def section(self, name: str) -> JsonFields:
        """An object inside of this one; empty where the file has none."""
        return JsonFields(self.read(name, is_table, {}), self._file, self._error, f"{self._prefix}{name}.")

    def items(self, name: str) -> list[JsonFields]:
        """The objects of a list inside of this one."""
        listed = self.read(name, is_list, ())
        numbered = {f"{name}.{number}": each for number, each in enumerate(listed)}
        inner = JsonFields(numbered, self._file, self._error, self._prefix)
        return [inner.section(number) for number in numbered]


def json_text(value: Any) -> str:
    """The text of a JSON file: readable, and in UTF-8 also where a string holds half of a character."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text if is_unicode(text) else json.dumps(value, indent=2) + "\n"


def is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True
