"""Fields of requests, read strictly: a field has its type, or the request is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError, shown

MAX_TEXT = 100_000  # characters of a text
MAX_FACTOR = 1000.0  # of a head
MAX_SEED = 2**64 - 1


def text(request: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = request.get(name, default)
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise InputError(f"{name} must be a text of at most {MAX_TEXT} characters")
    return value


def integer(
    request: Mapping[str, Any], name: str, default: int | None = None, low: int | None = None, high: int | None = None
) -> int:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name} must be a whole number, got {shown(value, 40)}")
    if (low is not None and value < low) or (high is not None and value > high):
        raise InputError(f"{name} must be between {low} and {high}, got {shown(value, 40)}")
    return value


def number(request: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(f"{name} must be a number between {low} and {high}, got {value!r:.40}")
    return float(value)


def integers(request: Mapping[str, Any], name: str, maximum: int = 1000) -> list[int]:
    value = request.get(name, [])
    if not isinstance(value, list) or len(value) > maximum or any(type(each) is not int for each in value):
        raise InputError(f"{name} must be a list of at most {maximum} whole numbers")
    return value


def factors(request: Mapping[str, Any], name: str) -> dict[int, dict[int, float]]:
    """{"layer": {"head": factor}}"""
    value = request.get(name, {})
    try:
        found = {int(layer): {int(head): float(f) for head, f in heads.items()} for layer, heads in value.items()}
    except (AttributeError, OverflowError, TypeError, ValueError):
        raise InputError(f"{name} must be factors of heads by layer, got {value!r:.60}") from None
    for factor in (f for heads in found.values() for f in heads.values()):
        if not abs(factor) <= MAX_FACTOR:
            raise InputError(f"{name}: a factor must be at most {MAX_FACTOR:g} in magnitude, got {factor}")
    return found


def sampling(request: Mapping[str, Any]) -> dict[str, Any]:
    """Temperature, top-k and top-p."""
    return {
        "temperature": number(request, "temperature", 1.0, 0.01, 100.0),
        "top_k": integer(request, "top_k", 0, 0),
        "top_p": number(request, "top_p", 1.0, 0.0, 1.0) or 1e-9,
    }
