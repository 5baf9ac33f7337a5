"""Fields of a configuration: dataclass fields, each with the check that a value must pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import field
from typing import Any

from ..errors import ConfigError, shown
from ..json_fields import Check, is_boolean, is_integer, is_number


def checked(default: Any, check: Check) -> Any:
    """A field whose values pass `check`; its default is not checked."""
    return field(default=default, metadata={"check": check})


def check_of(spec: dataclasses.Field) -> Check:
    """The check of a field; one that was declared without takes every value."""
    return spec.metadata.get("check", lambda name, value: value)


def accepts_none(spec: dataclasses.Field) -> bool:
    """Whether None is a value of a field, and not only the lack of one."""
    try:
        check_of(spec)(spec.name, None)
    except ConfigError:
        return False
    return True


def integer(default: int | None, low: int = 1, high: int = 2**31 - 1, optional: bool = False) -> Any:
    """An integer between `low` and `high`."""
    return checked(default, is_integer(low, high, optional))


def number(default: float | None, low: float, high: float, optional: bool = False) -> Any:
    """A number between `low` and `high`."""

    return checked(default, is_number(low, high, optional))


def boolean(default: bool) -> Any:
    """True or False."""
    return checked(default, is_boolean)


def choice(default: str | None, accepted: Collection[str | None]) -> Any:
    """One of the `accepted` strings."""

    def check(name: str, value: Any) -> str | None:
        if not isinstance(value, (str, type(None))) or value not in accepted:
            words = ", ".join(str(word) for word in accepted)
            raise ConfigError(f"{name} must be one of {words}; got {shown(value)}")
        return value

    return checked(default, check)


def activation(default: str) -> Any:
    """The name of an activation, or a function from a tensor to one; a function that has a name is stored by it."""

    def check(name: str, value: Any) -> Any:
        from ..nn.activation import ACTIVATIONS, name_of_function

        if isinstance(value, str) and value in ACTIVATIONS:
            return value
        if not callable(value) or isinstance(value, type):
            words = ", ".join(ACTIVATIONS)
            raise ConfigError(f"{name} must be a function of a tensor or one of {words}; got {shown(value)}")
        if any(True for _ in getattr(value, "parameters", tuple)()):
            raise ConfigError(f"{name} cannot be a module with weights of its own, which no file of a model would hold")
        return name_of_function(value) or value

    return checked(default, check)


def typed(default: Any, types: type | tuple[type, ...]) -> Any:
    """A value of one of these types, or None, that no computation reads."""

    def check(name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, types):
            raise ConfigError(f"{name} cannot be {shown(value)}")
        return value

    return checked(default, check)


def check_names(name: str, value: Any) -> list[str] | None:
    if value is not None and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise ConfigError(f"{name} must be a list of names, got {shown(value)}")
    return value


def check_labels(name: str, value: Any) -> dict[int, str] | None:
    if value is None:
        return None
    try:
        labels = {int(key): str(label) for key, label in value.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} must map integers to names, got {shown(value)}") from None
    if sorted(labels) != list(range(len(labels))):
        raise ConfigError(f"{name} must number the labels from 0 on, without gaps, got {shown(value)}")
    return labels


def check_label_ids(name: str, value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    try:
        return {str(label): int(key) for label, key in value.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} must map names to integers, got {shown(value)}") from None


def check_crf(name: str, value: Any) -> str | None:
    """The kind of conditional random field: True is "constrained", False none."""
    if value is None or isinstance(value, bool):
        return "constrained" if value else None
    if value not in ("constrained", "unconstrained"):
        raise ConfigError(f"{name} must be true, false, 'constrained' or 'unconstrained', got {shown(value)}")
    return value


def check_quantization(name: str, value: Any) -> dict[str, Any] | None:
    """How the weights of the files are quantized: as `quantize` does it, with the layers that stay in float."""
    if not value:
        return None
    ours = (
        isinstance(value, dict)
        and value.get("quant_method") == "glassformer"
        and value.get("dtype") in ("int8", "int4")
    )
    if not ours or not isinstance(value.get("in_float"), list):
        raise ConfigError(
            f"{name} = {shown(value)} changes the computation in a way that is not known: weights are read as "
            "quantize(model) and `glass quantize` write them"
        )
    return {**value, "in_float": check_names(name, value["in_float"])}


def check_pruned_heads(name: str, value: Any) -> dict[int, list[int]]:
    try:
        return {int(layer): sorted({int(head) for head in heads}) for layer, heads in (value or {}).items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise ConfigError(f"{name} must map layers to lists of heads, got {shown(value)}") from None
