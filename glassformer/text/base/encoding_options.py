"""How texts are to be encoded: every argument of `tokenizer(...)`, in one place, checked once."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from ...errors import ArgumentError, InputError, refuse_unknown, shown

TRUNCATION = ("longest_first", "only_first", "only_second", "do_not_truncate")
PADDING = ("longest", "max_length", "do_not_pad")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """The arguments that all encoding methods share."""

    add_special_tokens: bool = True
    padding: bool | str = False  # True or "longest": to the longest row; "max_length"; False or "do_not_pad"
    truncation: bool | str | None = None  # True is "longest_first"; "only_first", "only_second"; False
    max_length: int | None = None  # None: the model's own limit
    pad_to_max_length: bool = False  # what padding="max_length" was called; without a max_length, to the longest row
    stride: int = 0  # how many tokens a window repeats of the window before it
    is_split_into_words: bool = False
    pad_to_multiple_of: int | None = None
    padding_side: str | None = None  # None: the tokenizer's own
    return_tensors: str | None = None  # "pt", "np"
    return_token_type_ids: bool | None = None
    return_attention_mask: bool | None = None
    return_overflowing_tokens: bool = False  # what does not fit becomes further rows
    return_special_tokens_mask: bool = False
    return_offsets_mapping: bool = False
    return_length: bool = False
    split_special_tokens: bool = False  # read "[MASK]" in a text as plain characters
    verbose: bool = True  # warn of texts beyond the model's limit

    def __post_init__(self) -> None:
        check_choice("padding", self.padding, (True, False, *PADDING))
        check_choice("truncation", self.truncation, (True, False, None, *TRUNCATION))
        check_choice("pad_to_max_length", self.pad_to_max_length, (True, False))
        check_choice("padding_side", self.padding_side, (None, "left", "right"))
        check_choice("return_tensors", self.return_tensors, (None, "pt", "np"))
        check_whole_number("max_length", self.max_length, 0)
        check_whole_number("stride", self.stride, 0)
        check_whole_number("pad_to_multiple_of", self.pad_to_multiple_of, 1)

    @property
    def pads_to(self) -> str:
        """One of PADDING."""
        if self.pad_to_max_length and self.padding is False:
            return "longest" if self.max_length is None else "max_length"
        if isinstance(self.padding, bool):
            return "longest" if self.padding else "do_not_pad"
        return self.padding

    @property
    def truncates(self) -> str:
        """One of TRUNCATION. A `max_length` alone requests truncation, unless it is there for the padding."""
        if self.truncation is None:
            requested = self.max_length is not None and self.padding in (False, "do_not_pad")
            return "longest_first" if requested else "do_not_truncate"
        if isinstance(self.truncation, bool):
            return "longest_first" if self.truncation else "do_not_truncate"
        return self.truncation


def check_choice(name: str, value: object, valid: tuple) -> None:
    """Refuse a value that is not among the valid ones; 1 is not True here."""
    if not any(value is v or (isinstance(value, str) and value == v) for v in valid):
        raise InputError(f"{name} must be one of {', '.join(map(repr, valid))}, got {value!r}")


def check_whole_number(name: str, value: object, least: int) -> None:
    """Refuse what is neither None nor a whole number of at least `least`."""
    if value is None and name != "stride":
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def check_range(name: str, value: Any, low: float, high: float = math.inf) -> None:
    """Refuse what is no number from `low` to `high`, or one that no float holds.

    >>> check_range("recall_sharpness", 10**400, 0.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    glassformer.errors.InputError: recall_sharpness must be a number of at least 0, got ...
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high or not abs(value) <= sys.float_info.max:
        reach = f"from {low:g} to {high:g}" if high < math.inf else f"of at least {low:g}"
        raise InputError(f"{name} must be a number {reach}, got {shown(value)}")


class Side:
    """An attribute such as `tokenizer.padding_side`: "left" or "right", refused when anything else is assigned."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tokenizer: Any, owner: type) -> Any:
        return self if tokenizer is None else tokenizer.__dict__[self.name]

    def __set__(self, tokenizer: Any, value: str) -> None:
        check_choice(self.name, value, ("left", "right"))
        tokenizer.__dict__[self.name] = value


def takes_options(method: Callable) -> Callable:
    """Decorate a method whose last parameter is an `Options`, so that callers pass its fields as keywords.

    The method's signature, for `help()` and editors, shows all of them.
    """
    own = list(inspect.signature(method).parameters.values())[:-1]
    shared = [
        inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
        for field in fields(Options)
    ]
    names = [parameter.name for parameter in (*own, *shared)]
    option_names = {parameter.name for parameter in shared}

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        refuse_unknown(kwargs, names[1:], method.__qualname__)
        given = {name: kwargs.pop(name) for name in list(kwargs) if name in option_names}
        if len(args) > len(own):
            raise ArgumentError(f"{method.__qualname__} takes {len(own) - 1} positional arguments; name the others")
        return method(*args, **kwargs, options=Options(**given))

    checked.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    return checked
