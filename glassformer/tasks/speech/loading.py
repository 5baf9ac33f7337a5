"""A model of speech with its vocabulary and its feature extractor, from wherever they are."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from ...audio.whisper_feature_extractor import FILE, PROCESSOR_FILE, WhisperFeatureExtractor
from ...checkpoints.hub import find_folder
from ...errors import InputError
from ...models.whisper_heads import WhisperForConditionalGeneration
from ...models.whisper_openai import openai_file
from ...text.whisper_tokenizer import WhisperTokenizer
from .transcription import Transcriber

Source = str | PathLike[str]


def load_transcriber(
    name_or_path: Source,
    tokenizer: WhisperTokenizer | Source | None = None,
    feature_extractor: WhisperFeatureExtractor | Source | None = None,
    *,
    hub: Mapping[str, Any] | None = None,
    model_arguments: Mapping[str, Any] | None = None,
) -> Transcriber:
    """The parts of a folder, a hub name, or one of OpenAI's `.pt` files, which have no vocabulary."""
    where = dict(hub or {})
    model = WhisperForConditionalGeneration.from_pretrained(name_or_path, **where, **(model_arguments or {}))
    return Transcriber(model, *parts_for(model, name_or_path, tokenizer, feature_extractor, where))


def parts_for(
    model: WhisperForConditionalGeneration,
    name_or_path: Source,
    tokenizer: WhisperTokenizer | Source | None,
    feature_extractor: WhisperFeatureExtractor | Source | None,
    where: dict[str, Any],
) -> tuple[WhisperTokenizer, WhisperFeatureExtractor]:
    """The tokenizer and the feature extractor: as given, or as they stand beside the model."""
    if not isinstance(model, WhisperForConditionalGeneration):
        raise InputError(f"speech is recognised by a WhisperForConditionalGeneration, not a {type(model).__name__}")
    file = openai_file(name_or_path)
    if not isinstance(tokenizer, WhisperTokenizer):
        if tokenizer is None and file is not None:
            tokenizer = vocabulary_beside(file, model)
        languages = {"num_languages": 100} if model.config.vocab_size > 51865 else {}
        tokenizer = WhisperTokenizer.from_pretrained(name_or_path if tokenizer is None else tokenizer, **languages)
    beside = None if file is not None else name_or_path
    return tokenizer, extractor_for(model.config, beside, feature_extractor, where)


def extractor_for(
    config: Any,
    beside: Source | None,
    given: WhisperFeatureExtractor | Source | None,
    where: dict[str, Any],
) -> WhisperFeatureExtractor:
    """The feature extractor: as given, or as it stands beside the model; the original's where there is none."""
    if isinstance(given, WhisperFeatureExtractor):
        return given
    source = given or beside
    if source is None or not has_settings(source, where):
        return WhisperFeatureExtractor(feature_size=config.num_mel_bins)
    return WhisperFeatureExtractor.from_pretrained(source, **where)


def has_settings(source: Source, where: dict[str, Any]) -> bool:
    """Whether there is a file that says how sound becomes features; without it they are the original's."""
    folder = find_folder(source, files=(FILE, PROCESSOR_FILE), **where)
    return any((folder / name).is_file() for name in (FILE, PROCESSOR_FILE))


def vocabulary_beside(file: Path, model: WhisperForConditionalGeneration) -> Path:
    """The vocabulary in the folder of one of OpenAI's files."""
    named = "multilingual.tiktoken" if model.generation_config.extra["is_multilingual"] else "gpt2.tiktoken"
    if (file.parent / named).is_file():
        return file.parent / named
    if any((file.parent / name).is_file() for name in ("vocab.json", "tokenizer.json")):
        return file.parent
    raise InputError(
        f"{file} holds no vocabulary: put {named} or a vocab.json with its merges.txt beside it, or name one as "
        "tokenizer (English models have GPT-2's)"
    )
