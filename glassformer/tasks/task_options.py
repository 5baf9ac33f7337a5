"""The options of tasks: checked when they are given; an unknown name raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..text.base.encoding_options import TRUNCATION, check_whole_number, one_of


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every task."""

    num_workers: Any = None  # accepted out of habit, and ignored: rows are read by the calling process


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """The options of every task that reads texts."""

    split_special_tokens: bool = False  # read "[MASK]" in a text as plain characters

    def __post_init__(self) -> None:
        one_of("split_special_tokens", self.split_special_tokens, (True, False))


@dataclass(frozen=True, kw_only=True)
class TruncationOptions(TextOptions):
    """What to do with a text that is longer than the model: it is refused unless truncation is requested."""

    truncation: bool | str = False  # True is "longest_first"; "only_first", "only_second"
    max_length: int | None = None  # None: the model's own limit
    padding: Any = None  # accepted out of habit, and ignored: padding is never computed and changes no answer

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("truncation", self.truncation, (True, False, *TRUNCATION))
        check_whole_number("max_length", self.max_length, 1)

    @property
    def cut(self) -> bool | str:
        """How to cut, False for not at all."""
        return False if self.truncation == "do_not_truncate" else self.truncation


def switch(name: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    one_of(name, value, (True, False))


def some(name: str, value: object, least: int = 1) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if value is None:
        raise InputError(f"{name} must be a whole number of at least {least}, got None")
    check_whole_number(name, value, least)


def texts(name: str, value: object) -> None:
    """Refuse what is not a list of texts with at least one in it."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) for each in value):
        raise InputError(f"{name} must be a list of one text or more, got {value!r:.80}")
