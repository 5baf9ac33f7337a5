"""A configuration that is one JSON file of a checkpoint: `config.json`, `generation_config.json`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import ConfigError
from .files import read_json
from .hub import find_folder
from .ignored_arguments import resolve_ignored_arguments

if TYPE_CHECKING:
    from typing_extensions import Self


class ConfigFile:
    """What the configurations of all files have in common: the names of their fields, and how the file is found."""

    FILE: ClassVar[str]
    if_missing: ClassVar[str] = ""  # added to the error if a checkpoint has no such file

    @classmethod
    def field_names(cls) -> list[str]:
        return list(_field_names_of(cls))  # type: ignore[arg-type]  # it looks at __hash__ of the instances

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **fields: Any) -> Self:
        raise NotImplementedError

    def update(self, fields: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def record_source(self, name_or_path: str | Path) -> None:
        """Remember the checkpoint that the configuration was read from."""

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | Path,
        *,
        cache_dir: str | Path | None = None,
        revision: str | None = None,
        token: str | bool | None = None,
        local_files_only: bool = False,
        endpoint: str | list[str] | None = None,
        **fields: Any,
    ) -> Self:
        """Read the configuration of a folder or a hub name; further keywords are fields to set.

        >>> BertConfig.from_pretrained("./bert-base-uncased/", output_attentions=True)  # doctest: +SKIP
        """
        token = resolve_ignored_arguments(fields, f"{cls.__name__}.from_pretrained", token)
        folder = find_folder(
            name_or_path,
            files=((cls.FILE,),),
            cache_dir=cache_dir,
            revision=revision,
            token=token,
            local_files_only=local_files_only,
            endpoint=endpoint,
        )
        path = folder / cls.FILE
        if not path.exists():
            raise ConfigError(f"{folder} holds no {cls.FILE}{cls.if_missing}")
        try:
            config = cls.from_dict(read_json(path, cls.FILE))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
        config.record_source(name_or_path)
        config.update(fields)
        return config


@functools.cache
def _field_names_of(cls: Any) -> tuple[str, ...]:
    return tuple(spec.name for spec in dataclasses.fields(cls))
