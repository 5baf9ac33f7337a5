"""The settings of tokenizers: the type of each, checked alike in files and in calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import ConfigError, TokenizerError, shown
from ...json_fields import Check, is_boolean, is_integer, is_string, is_table, is_unicode
from .encoding_options import check_choice

LARGEST_ID = 2**24  # of a token: sixteen times what the largest vocabularies have


def is_list_of_tokens(name: str, value: Any) -> Any:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} must be a list of tokens, got {shown(value)}")
    return list(value)


def is_collection_of_words(name: str, value: Any) -> list[str]:
    is_collection = isinstance(value, list | tuple | set | frozenset)
    if not is_collection or not all(isinstance(word, str) for word in value):
        raise ConfigError(f"{name} must be a list of words, got {shown(value)}")
    return list(value)


def is_length(name: str, value: Any) -> int:
    """A whole number of tokens; files write 1e30 for no limit."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return is_integer(1, 10**40)(name, value)


def is_side(name: str, value: Any) -> str:
    check_choice(name, value, ("left", "right"))
    return value


def is_token_table(name: str, value: Any) -> Any:
    return is_table(name, value) if not isinstance(value, list) else value


SETTINGS: dict[str, Check] = {
    "do_lower_case": is_boolean,
    "do_basic_tokenize": is_boolean,
    "never_split": is_collection_of_words,
    "tokenize_chinese_chars": is_boolean,
    "strip_accents": is_boolean,
    "max_input_chars_per_word": is_integer(1),
    "add_prefix_space": is_boolean,
    "add_bos_token": is_boolean,
    "trim_offsets": is_boolean,
    "clean_up_tokenization_spaces": is_boolean,
    "errors": is_string,
    "padding_side": is_side,
    "truncation_side": is_side,
    "model_max_length": is_length,
    "additional_special_tokens": is_list_of_tokens,
    "extra_special_tokens": is_token_table,
}


def check_settings(settings: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Settings with the values to use; None stands for the default. `where` begins an error."""
    checked = dict(settings)
    for name, value in settings.items():
        if value is not None and name in SETTINGS:
            try:
                checked[name] = SETTINGS[name](name, value)
            except ConfigError as error:
                raise TokenizerError(f"{where}{error}") from None
    return checked


def read_vocabulary(listed: Any, where: object) -> dict[str, int]:
    """Tokens with their ids, from a file or a call."""
    if not isinstance(listed, Mapping) or not listed:
        raise TokenizerError(f"{where} has no vocabulary, it must hold tokens with their ids")
    vocab = {read_token(token, where): read_token_id(index, where) for token, index in listed.items()}
    if len(set(vocab.values())) != len(vocab):
        raise TokenizerError(f"{where} gives two tokens the same id")
    return vocab


def read_token(value: Any, where: object) -> str:
    """A token: a string that can be written to a file."""
    if not isinstance(value, str) or not is_unicode(value):
        raise TokenizerError(f"{where}: a token must be a string of whole characters, got {shown(value)}")
    return value


def read_token_id(value: Any, where: object) -> int:
    """An id as files write it, as a number or (a JSON key) as digits."""
    index = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 20 else value
    if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < LARGEST_ID:
        raise TokenizerError(f"{where}: an id must be a whole number below {LARGEST_ID}, got {shown(value)}")
    return index
