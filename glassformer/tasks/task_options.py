"""The options of tasks: checked when they are given; an unknown name raises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..field_docs import inherit_field_docs
from ..text.base.encoding_options import TRUNCATION, check_choice, check_whole_number


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every task.

    Attributes:
        num_workers: Accepted for compatibility and ignored: rows are read by the calling process.
    """

    num_workers: Any = None

    def __init_subclass__(cls) -> None:
        inherit_field_docs(cls)

    def __post_init__(self) -> None:
        """Check the values."""


@dataclass(frozen=True, kw_only=True)
class TextOptions(Options):
    """The options of every task that reads texts.

    Attributes:
        split_special_tokens: Read "[MASK]" and the like in a text as plain characters.
    """

    split_special_tokens: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("split_special_tokens", self.split_special_tokens)


@dataclass(frozen=True, kw_only=True)
class TruncationOptions(TextOptions):
    """How to handle a text that is longer than the model accepts: it raises unless truncation is requested.

    Attributes:
        truncation: Cut a text that is longer than the model accepts, and report it; it is an error otherwise. Of a
            pair, True and "longest_first" cut the longer text, "only_first" and "only_second" that one.
        max_length: The length to cut to, in tokens; None: the longest that the model accepts.
        padding: Accepted for compatibility and ignored: padding is never computed and changes no result.
    """

    truncation: bool | str = False
    max_length: int | None = None
    padding: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("truncation", self.truncation, (True, False, *TRUNCATION))
        check_whole_number("max_length", self.max_length, 1)

    @property
    def truncation_strategy(self) -> bool | str:
        """The tokenizer's `truncation` argument."""
        return False if self.truncation == "do_not_truncate" else self.truncation


def check_bool(name: str, value: object) -> None:
    """Raise unless a value is True or False."""
    check_choice(name, value, (True, False))


def check_at_least(name: str, value: object, least: int = 1) -> None:
    """Raise unless a value is a whole number of at least `least`."""
    if value is None:
        raise InputError(f"{name} must be a whole number of at least {least}, got None")
    check_whole_number(name, value, least)


def check_texts(name: str, value: object) -> None:
    """Raise unless a value is a list of at least one text."""
    if not isinstance(value, list | tuple) or not value or not all(isinstance(each, str) for each in value):
        raise InputError(f"{name} must be a list of one text or more, got {value!r:.80}")
