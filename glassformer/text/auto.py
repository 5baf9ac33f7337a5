"""Find out which tokenizer a folder or a hub name needs."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import TokenizerError, refuse_unknown
from .bert import BertTokenizer
from .folder import ADDED, CONFIG, ENGINE, HUB, SPECIAL, find, read_json
from .tokenizer import PreTrainedTokenizer

CLASSES: dict[str, type[PreTrainedTokenizer]] = {"BertTokenizer": BertTokenizer, "BertTokenizerFast": BertTokenizer}
MODEL_TYPES: dict[str, type[PreTrainedTokenizer]] = {"bert": BertTokenizer}
WRAPPERS = ("PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizer")  # names that say nothing


def register(name: str, kind: type[PreTrainedTokenizer], model_types: tuple[str, ...] = ()) -> None:
    """Make a tokenizer class known by its name in files, and by the models that use it."""
    CLASSES[name] = CLASSES[f"{name}Fast"] = kind
    MODEL_TYPES.update(dict.fromkeys(model_types, kind))


class AutoTokenizer:
    """Reads whichever tokenizer a folder holds.

    `tokenizer_class` in tokenizer_config.json or config.json decides, then the model type, then the files.
    """

    def __init__(self) -> None:
        raise TokenizerError("AutoTokenizer is not built directly; use AutoTokenizer.from_pretrained(folder or name)")

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str], **settings: Any
    ) -> PreTrainedTokenizer:
        """The tokenizer of a folder or a hub name; settings as for the class it turns out to be."""
        hub = {name: settings[name] for name in HUB if name in settings}
        names = {name for kind in set(CLASSES.values()) for name in kind.vocab_files_names.values()}
        path = find(
            pretrained_model_name_or_path, (*sorted(names), ENGINE, CONFIG, SPECIAL, ADDED, "config.json"), **hub
        )
        kind = class_of(path)
        refuse_unknown(settings, [*kind._settings(), *HUB], "AutoTokenizer.from_pretrained")
        own = {name: value for name, value in settings.items() if name not in HUB}
        made = kind.from_pretrained(path, **own)
        made.name_or_path = str(pretrained_model_name_or_path)
        return made


def class_of(path: Path) -> type[PreTrainedTokenizer]:
    """The class that a folder's files ask for."""
    known = "; supported are " + ", ".join(sorted({kind.__name__ for kind in CLASSES.values()}))
    if path.is_dir():
        config = read_json(path / "config.json", missing={})
        for file, read in ((CONFIG, read_json(path / CONFIG, missing={})), ("config.json", config)):
            name = read.get("tokenizer_class")
            if isinstance(name, str) and name not in WRAPPERS:
                if name not in CLASSES:
                    raise TokenizerError(f"{path / file} asks for {name}, which is not supported yet{known}")
                return CLASSES[name]
        model_type = config.get("model_type")
        if isinstance(model_type, str) and model_type in MODEL_TYPES:
            return MODEL_TYPES[model_type]
        if (path / ENGINE).is_file():
            model = read_json(path / ENGINE).get("model")
            if isinstance(model, dict) and model.get("type") == "WordPiece":
                return BertTokenizer
            if isinstance(model, dict) and not (path / "vocab.txt").is_file():
                raise TokenizerError(f"{path / ENGINE} is a {model.get('type')} tokenizer, not supported yet{known}")
        if (path / "vocab.txt").is_file():
            return BertTokenizer
        if model_type is not None:
            raise TokenizerError(f"{path}: the tokenizer of a {model_type!r} model is not supported yet{known}")
        present = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
        raise TokenizerError(f"{path} holds no tokenizer that can be recognised (it has {present}){known}")
    return BertTokenizer
