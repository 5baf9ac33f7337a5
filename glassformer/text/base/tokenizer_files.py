"""A tokenizer's files: finding them, reading the settings they share, writing them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from ...errors import CheckpointError, TokenizerError, refuse_unknown, shown
from ...json_fields import JsonFields, is_string, is_table, json_text
from .settings import SETTINGS, check_settings, read_token_id
from .special_tokens import ADDITIONAL, NAMES, SpecialTokens
from .vocabulary_checks import warn_if_shifted

Self = TypeVar("Self", bound="PretrainedFiles")
CONFIG, SPECIAL, ADDED, ENGINE = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "tokenizer.json",
)
EXTRA = "extra_special_tokens"
HUB = ("cache_dir", "revision", "token", "local_files_only", "endpoint")
INTERNAL = ("self", "vocab", "merges", "kept_settings", "added_tokens", "name_or_path")


def setting(name: str) -> property:
    """A setting that is fixed when the tokenizer is made; another value needs another tokenizer."""
    return property(lambda tokenizer: tokenizer._own_settings[name])


@dataclass(frozen=True, slots=True)
class VocabularyFile:
    """What a vocabulary file says: tokens and ids, tokens added later, and (tokenizer.json) settings."""

    vocab: dict[str, int]
    name: str
    added: dict[int, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def resolve(self, name: str, given: Any, default: Any = None) -> Any:
        """A setting: as given, else as the file has it, else its default."""
        return next((value for value in (given, self.settings.get(name)) if value is not None), default)


class PretrainedFiles(SpecialTokens):
    """The part of a tokenizer that comes from a folder and goes into one."""

    vocab_files_names: dict[str, str] = {}

    @classmethod
    def from_pretrained(
        cls: type[Self],
        pretrained_model_name_or_path: str | PathLike[str],
        *,
        cache_dir: str | PathLike[str] | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        local_files_only: bool = False,
        endpoint: str | None = None,
        **settings: Any,
    ) -> Self:
        """Read a tokenizer from a folder, one of its files, or by a name on the hub.

        Settings given here win over those in the files: `from_pretrained(folder, do_lower_case=False)`.
        """
        from ...checkpoints.ignored_arguments import IGNORED_BY_TOKENIZERS, resolve_ignored_arguments

        owner, valid = f"{cls.__name__}.from_pretrained", cls._settings()
        token = resolve_ignored_arguments(settings, owner, token, IGNORED_BY_TOKENIZERS)
        refuse_unknown(settings, [*valid, *HUB, *IGNORED_BY_TOKENIZERS], owner)
        path = find(
            pretrained_model_name_or_path,
            (*cls.vocab_files_names.values(), ENGINE, CONFIG, SPECIAL, ADDED),
            cache_dir=cache_dir,
            revision=revision,
            token=token,
            local_files_only=local_files_only,
            endpoint=endpoint,
        )
        read, kept = ({}, {}) if path.is_file() else read_settings(path, valid)
        if path.is_dir():
            resolve_named_files(path, read, cls.vocab_files_names, settings)
        tokenizer = cls._from_files(path, read | settings, kept, name_or_path=str(pretrained_model_name_or_path))
        warn_if_shifted(tokenizer, rows_of_model(path))
        return tokenizer

    @classmethod
    def _settings(cls) -> list[str]:
        """The names of the settings a caller or a file may give."""
        return [name for name in inspect.signature(cls.__init__).parameters if name not in INTERNAL]

    @classmethod
    def _from_files(cls: type[Self], path: Path, settings: dict, kept: dict, name_or_path: str) -> Self:
        """Make the tokenizer from a folder or one file, and the settings read."""
        raise NotImplementedError

    def _saved_settings(self) -> dict[str, Any]:
        """Settings of this kind of tokenizer, for tokenizer_config.json."""
        raise NotImplementedError

    def _vocabulary_files(self) -> dict[str, str]:
        """File name -> text, for the files that hold the vocabulary."""
        raise NotImplementedError

    def _saved_special_tokens(self) -> dict[str, Any]:
        """What special_tokens_map.json will say."""
        return self.special_tokens_map

    @property
    def init_kwargs(self) -> dict[str, Any]:
        """All settings, those of others that are only kept included: what tokenizer_config.json will say."""
        return {
            **self.kept_settings,
            **self._saved_settings(),
            "model_max_length": self.model_max_length,
            "padding_side": self.padding_side,
            "truncation_side": self.truncation_side,
            "clean_up_tokenization_spaces": self.clean_up_tokenization_spaces,
            **self._unset_special_tokens(),
            **self.special_tokens_map,
            **({EXTRA: dict(self._extra)} if self._extra else {}),
        }

    def _unset_special_tokens(self) -> dict[str, None]:
        """Special tokens that are unset here, but would have a default if the files did not mention them."""
        usual = inspect.signature(type(self).__init__).parameters
        return {name: None for name in NAMES if self._special[name] is None and name in usual and usual[name].default}

    def save_vocabulary(
        self, save_directory: str | PathLike[str], filename_prefix: str | None = None
    ) -> tuple[str, ...]:
        """Write the vocabulary alone, and return the paths."""
        from ...checkpoints.files import write_atomically

        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        names = set(self.vocab_files_names.values())
        written = {folder / (prefix + n): text for n, text in self._vocabulary_files().items() if n in names}
        for path, text in written.items():
            write_atomically(path, text)
        return tuple(map(str, written))

    def save_pretrained(self, save_directory: str | PathLike[str]) -> tuple[str, ...]:
        """Write all files into a folder, made if it is not there, and return their paths."""
        from ...checkpoints.files import write_atomically
        from ...checkpoints.folder_save import saved_together

        folder = Path(save_directory)
        if folder.is_file():
            raise TokenizerError(f"{folder} is a file, a tokenizer is saved into a folder")
        files = self._vocabulary_files()
        added = {str(index): token.to_dict() for index, token in self.added_tokens_decoder.items()}
        files[CONFIG] = json_text(
            {"added_tokens_decoder": added, **self.init_kwargs, "tokenizer_class": type(self).__name__}
        )
        files[SPECIAL] = json_text(self._saved_special_tokens())
        if self.added_tokens_encoder:
            files[ADDED] = json_text(self.added_tokens_encoder)
        with saved_together(folder) as staged:
            for name, text in files.items():
                write_atomically(staged / name, text)
        return tuple(str(folder / name) for name in files)


def find(name_or_path: str | PathLike[str], files: tuple[str, ...], **hub: Any) -> Path:
    """The folder or file that is meant; the hub is queried only when nothing of that name is here."""
    path = Path(name_or_path).expanduser()
    if path.exists():
        from ...checkpoints.folder_save import finish_save

        finish_save(path)
        return path
    from ...checkpoints.hub import find_folder

    return find_folder(name_or_path, files=files, **hub)


def rows_of_model(path: Path) -> int:
    """How many tokens the model beside a tokenizer knows; 0 if there is none, or its config cannot be read."""
    try:
        rows = {} if path.is_file() else read_json(path / "config.json", missing={})
    except TokenizerError:  # reading the model reports it
        return 0
    size = rows.get("vocab_size")
    return size if isinstance(size, int) else 0


def read_settings(folder: Path, valid: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings that a tokenizer takes, from its three small files; and the keys that are only kept."""
    config = read_json(folder / CONFIG, missing={})
    decoder = JsonFields(config, folder / CONFIG, TokenizerError).read("added_tokens_decoder", is_table)
    config.pop("added_tokens_decoder", None)
    listed = read_added(folder, decoder)
    if isinstance(config.get(EXTRA), list) and not config.get(ADDITIONAL):
        config[ADDITIONAL] = config.pop(EXTRA)
    if "max_len" in config:  # the name of the setting in files of 2019
        config.setdefault("model_max_length", config.pop("max_len"))
    special = read_json(folder / SPECIAL, missing={})
    config |= {name: value for name, value in special.items() if name in (*NAMES, ADDITIONAL) and value is not None}
    own = {name: value for name, value in {**config, **special}.items() if is_own_special_token(name, value, valid)}
    config = {name: value for name, value in config.items() if name not in own}
    named = check_settings({EXTRA: config.pop(EXTRA, None)}, f"{folder / CONFIG}: ")[EXTRA]
    if own or named:
        config[EXTRA] = {**(named if isinstance(named, Mapping) else {}), **own}
    read = {name: value for name, value in config.items() if name in valid}
    read = {name: value for name, value in read.items() if value is not None or name not in SETTINGS}
    read = check_settings(read, f"{folder / CONFIG}: ")
    kept = {name: value for name, value in config.items() if name not in valid and name not in INTERNAL}
    return read | {"added_tokens": listed}, kept


def resolve_named_files(folder: Path, read: dict[str, Any], names: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Replace names of files in the settings that were read by paths; only a call may name files outside of a folder.

    `names` are the settings that name files, with the usual name of each; those that a call gave are not looked at.
    """
    from ...checkpoints.named_files import is_inside, leads_elsewhere

    for name, usual in names.items():
        where = folder / CONFIG
        remedy = f"only a call may name such a file: from_pretrained(folder, {name}=...)"
        named = JsonFields(read, where, TokenizerError).read(name, is_string)
        if name in given:
            continue
        if named is not None:
            read[name] = folder / named
            if "\0" in named or not is_inside(folder / named, folder, where):
                raise TokenizerError(f"{where}: {name} {shown(named)} is outside of the checkpoint; {remedy}")
        elif leads_elsewhere(folder / usual, folder):
            raise TokenizerError(f"{folder / usual} is a link out of the checkpoint, to another file; {remedy}")


def read_added(folder: Path, decoder: Mapping[str, Any] | None) -> dict[int, Any]:
    """Added tokens by id: those of tokenizer_config.json, or in folders from before 2023 those of added_tokens.json."""
    path = folder / ADDED
    older = {read_token_id(index, path): content for content, index in read_json(path, missing={}).items()}
    if not decoder:
        return older
    listed = {read_token_id(index, folder / CONFIG): value for index, value in decoder.items()}
    texts = {index: value.get("content") if isinstance(value, Mapping) else value for index, value in listed.items()}
    other = next((f"{content!r} {index}" for index, content in older.items() if texts.get(index) != content), None)
    if other is not None:
        warnings.warn(f"{path} gives {other}, unlike added_tokens_decoder in {CONFIG}, which is used", stacklevel=5)
    return listed


def is_own_special_token(name: str, value: Any, valid: Collection[str]) -> bool:
    """Whether a key of a file names a special token of this tokenizer alone, such as "noi_token": "[NOI]"."""
    is_token = (isinstance(value, str) and value) or (isinstance(value, Mapping) and "content" in value)
    return name.endswith("_token") and name not in valid and name not in NAMES and bool(is_token)


def read_json(path: Path, missing: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A JSON object from a file; `missing` stands in for a file that is not there."""
    from ...checkpoints import files

    if missing is not None and not path.exists():
        return dict(missing)
    try:
        return files.read_json(path, path.name)
    except CheckpointError as error:
        raise TokenizerError(str(error)) from None


def read_fields(path: Path) -> JsonFields:
    """A JSON file whose fields are read one by one."""
    return JsonFields(read_json(path), path, TokenizerError)
