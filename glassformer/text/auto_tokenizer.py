"""Find out which tokenizer a folder or a hub name needs."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import TokenizerError, refuse_unknown
from ..json_fields import JsonFields, is_string
from ..registry import ARCHITECTURES, TOKENIZERS, import_class
from .base.tokenizer_files import ADDED, CONFIG, ENGINE, HUB, SPECIAL, find, read_fields, read_json
from .bert_tokenizer import BertTokenizer
from .bpe.bpe_tokenizer import BpeTokenizer
from .gpt2_tokenizer import GPT2Tokenizer
from .openai_gpt_tokenizer import OpenAIGPTTokenizer
from .roberta_tokenizer import RobertaTokenizer
from .sentencepiece.sentencepiece_files import MODEL_FILES
from .tokenizer import PreTrainedTokenizer

CLASSES: dict[str, type[PreTrainedTokenizer]] = {
    name + suffix: import_class(f"text.{path}") for name, path in TOKENIZERS.items() for suffix in ("", "Fast")
}
# Tokenizers of models that are not in the registry, where the files alone do not decide it.
TOKENIZER_OF = {
    "albert": "AlbertTokenizer",
    "deberta": "DebertaTokenizer",
    "deberta-v2": "DebertaV2Tokenizer",
    "funnel": "FunnelTokenizer",
    "longt5": "T5Tokenizer",
    "mt5": "T5Tokenizer",
    "nystromformer": "AlbertTokenizer",
    "pix2struct": "T5Tokenizer",
    "retribert": "RetriBertTokenizer",
    "switch_transformers": "T5Tokenizer",
    "t5": "T5Tokenizer",
    "xlm-roberta-xl": "XLMRobertaTokenizer",
    "xlnet": "XLNetTokenizer",
    "xmod": "XLMRobertaTokenizer",
    "yoso": "AlbertTokenizer",
}
MODEL_TYPES = {model_type: CLASSES[name] for model_type, name in TOKENIZER_OF.items()} | {
    each.model_type: CLASSES[each.tokenizer] for each in ARCHITECTURES.values() if each.tokenizer
}
# Models whose tokenizers read files like ours, but give other ids: the class that each needs. Those that need none of
# the classes here, nor their files, are refused by their files.
OTHER_CLASSES = {
    "biogpt": "BioGptTokenizer",
    "blenderbot": "BlenderbotTokenizer",
    "blenderbot-small": "BlenderbotSmallTokenizer",
    "clip": "CLIPTokenizer",
    "clipseg": "CLIPTokenizer",
    "cpmant": "CpmAntTokenizer",
    "ctrl": "CTRLTokenizer",
    "esm": "EsmTokenizer",
    "flaubert": "FlaubertTokenizer",
    "gpt_neox_japanese": "GPTNeoXJapaneseTokenizer",
    "groupvit": "CLIPTokenizer",
    "herbert": "HerbertTokenizer",
    "layoutlmv2": "LayoutLMv2Tokenizer",
    "layoutlmv3": "LayoutLMv3Tokenizer",
    "luke": "LukeTokenizer",
    "mpnet": "MPNetTokenizer",
    "oneformer": "CLIPTokenizer",
    "owlvit": "CLIPTokenizer",
    "phobert": "PhobertTokenizer",
    "prophetnet": "ProphetNetTokenizer",
    "roc_bert": "RoCBertTokenizer",
    "roformer": "RoFormerTokenizer",
    "splinter": "SplinterTokenizer",
    "tapas": "TapasTokenizer",
    "tapex": "TapexTokenizer",
    "xclip": "CLIPTokenizer",
    "xlm": "XLMTokenizer",
}
WRAPPERS = ("PreTrainedTokenizerFast", "TokenizersBackend", "PreTrainedTokenizer")  # names that say nothing


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
        from ..checkpoints.ignored_arguments import IGNORED_BY_TOKENIZERS, resolve_ignored_arguments

        owner = "AutoTokenizer.from_pretrained"
        settings["token"] = resolve_ignored_arguments(settings, owner, settings.get("token"), IGNORED_BY_TOKENIZERS)
        hub = {name: settings[name] for name in HUB if name in settings}
        names = {name for kind in set(CLASSES.values()) for name in kind.vocab_files_names.values()} | {*MODEL_FILES}
        path = find(
            pretrained_model_name_or_path, (*sorted(names), ENGINE, CONFIG, SPECIAL, ADDED, "config.json"), **hub
        )
        kind = class_of(path)
        refuse_unknown(settings, [*kind._settings(), *HUB, *IGNORED_BY_TOKENIZERS], owner)
        own = {name: value for name, value in settings.items() if name not in HUB}
        made = kind.from_pretrained(path, **own)
        made.name_or_path = str(pretrained_model_name_or_path)
        return made


def class_of(path: Path) -> type[PreTrainedTokenizer]:
    """The class that a folder's files name."""
    known = "; supported are " + ", ".join(sorted({kind.__name__ for kind in CLASSES.values()}))
    if path.is_dir():
        config = read_json(path / "config.json", missing={})
        for file, read in ((CONFIG, read_json(path / CONFIG, missing={})), ("config.json", config)):
            name = read.get("tokenizer_class")
            if isinstance(name, str) and name not in WRAPPERS:
                if name not in CLASSES:
                    raise TokenizerError(f"{path / file} names {name}, which is not supported yet{known}")
                return CLASSES[name]
        model_type = config.get("model_type")
        if isinstance(model_type, str) and model_type in MODEL_TYPES:
            return MODEL_TYPES[model_type]
        if isinstance(model_type, str) and model_type in OTHER_CLASSES:
            other = OTHER_CLASSES[model_type]
            raise TokenizerError(f"{path}: a {model_type!r} model needs a {other}, which is not supported yet{known}")
        kind = class_of_files(path)
        if kind is not None:
            return kind
        if (path / ENGINE).is_file():
            named = read_fields(path / ENGINE).section("model").read("type", is_string)
            raise TokenizerError(f"{path / ENGINE} is a {named} tokenizer, not supported yet{known}")
        models = [name for name in MODEL_FILES if (path / name).is_file()]
        if models:
            raise TokenizerError(
                f"{path / models[0]} is a SentencePiece model, and nothing says which tokenizer reads it; name it as "
                f"tokenizer_class in {CONFIG}, or use its class"
            )
        if model_type is not None:
            raise TokenizerError(f"{path}: the tokenizer of a {model_type!r} model is not supported yet{known}")
        present = ", ".join(sorted(file.name for file in path.iterdir())[:8]) or "nothing"
        if any(path.glob("checkpoint-*")):
            raise TokenizerError(f"{path} holds a run that is not finished: its command with --resume finishes it")
        raise TokenizerError(f"{path} holds no tokenizer that can be recognised (it has {present}){known}")
    return class_of_files(path.parent, path.name) or BertTokenizer


def class_of_files(folder: Path, only: str | None = None) -> type[PreTrainedTokenizer] | None:
    """The class whose files a folder has, judged by their contents; None if these do not decide it."""
    if only in (None, ENGINE) and (folder / ENGINE).is_file():
        kind = class_of_engine(read_fields(folder / ENGINE))
        if kind is not None:
            return kind
    if only in (None, "vocab.txt") and (folder / "vocab.txt").is_file():
        return BertTokenizer
    for kind in (OpenAIGPTTokenizer, GPT2Tokenizer):
        for names in kind.other_file_names:
            if all((folder / name).is_file() for name in names) and only in (None, *names):
                return kind
    both = BpeTokenizer.vocab_files_names.values()
    if all((folder / name).is_file() for name in both) and only in (None, *both):
        vocab = read_json(folder / "vocab.json")
        if any(token.endswith(OpenAIGPTTokenizer.end_of_word) and token != "</w>" for token in vocab):
            return OpenAIGPTTokenizer
        return RobertaTokenizer if {"<s>", "</s>", "<mask>"} <= vocab.keys() else GPT2Tokenizer
    return None


def class_of_engine(parsed: JsonFields) -> type[PreTrainedTokenizer] | None:
    """The class that does what a tokenizer.json describes, as far as the types of its sections decide it."""
    sections = {name: parsed.section(name) for name in ("model", "pre_tokenizer", "post_processor")}
    kinds = {name: section.read("type", is_string) for name, section in sections.items()}
    model = sections["model"].values
    if kinds["model"] is None and "model" in parsed.values:  # files of 2020 do not name it
        kinds["model"] = "BPE" if "merges" in model else "WordPiece"
    if kinds["model"] == "WordPiece":
        return BertTokenizer
    if kinds["model"] == "BPE":
        if kinds["pre_tokenizer"] == "ByteLevel":
            return RobertaTokenizer if kinds["post_processor"] == "RobertaProcessing" else GPT2Tokenizer
        if model.get("end_of_word_suffix") == OpenAIGPTTokenizer.end_of_word:
            return OpenAIGPTTokenizer
    return None
