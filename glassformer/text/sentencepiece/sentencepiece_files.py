"""Folders of tokenizers with a SentencePiece vocabulary: the model file, or a tokenizer.json in its place."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import TokenizerError, shown
from ...json_fields import JsonFields, is_boolean, is_integer, is_list, is_string, json_text
from ..base.settings import read_token
from ..base.special_tokens import AddedToken
from ..base.tokenizer_files import VocabularyFile, read_fields
from ..wordpiece.wordpiece_files import put_added_tokens, read_added_tokens
from .model_file import BYTE, CONTROL, NORMAL, UNIGRAM, UNKNOWN, Normalization, Piece, SentencePieceModel, byte_piece
from .normalizer import SPACE

if TYPE_CHECKING:
    from .sentencepiece_tokenizer import SentencePieceTokenizer

MODEL_FILES = ("spiece.model", "spm.model", "sentencepiece.bpe.model", "tokenizer.model")


LARGEST_SCORE = 1e30  # far beyond any; a whole number may be larger than floating-point numbers are
USUAL_STEPS = ("Replace ' {2,}' by ' '", f"Replace ' {{2,}}' by {SPACE!r}", "Strip")


@dataclass(frozen=True, slots=True)
class EngineFile:
    """What a tokenizer.json says: the model, added tokens, and the names of the steps that change and cut text."""

    model: SentencePieceModel
    added: dict[int, Any]
    steps: list[str]
    prepend_scheme: str
    parsed: JsonFields


@dataclass(frozen=True, slots=True)
class SentencePieceFile(VocabularyFile):
    """What the files of a SentencePiece vocabulary say: the tokens with their ids, and the model."""

    model: SentencePieceModel = field(default_factory=lambda: SentencePieceModel(()))


def read_engine_model(path: Path) -> tuple[SentencePieceModel, dict[int, Any], JsonFields]:
    """The pieces of a tokenizer.json in the order of their ids, its added tokens, and all that the file says."""
    parsed = read_fields(path)
    model = parsed.section("model")
    kind = model.read("type", is_string)
    if kind != "Unigram":
        raise TokenizerError(f"{path} describes a {kind} tokenizer, not one with Unigram pieces")
    added = read_added_tokens(parsed, path)
    unknown = model.read("unk_id", is_integer(0))
    byte_fallback = model.read("byte_fallback", is_boolean, False)
    tokens = [AddedToken.read(token, special=False, where=str(path)) for token in added.values()]
    special = {token.content for token in tokens if token.special}
    pieces = []
    for number, entry in enumerate(model.read("vocab", is_list, ())):
        text, score = read_entry(entry, f"{path}, entry {number} of the vocabulary")
        if number == unknown:
            piece_kind = UNKNOWN
        elif byte_fallback and text in BYTE_PIECES:
            piece_kind = BYTE
        else:  # special tokens are cut out of texts before
            piece_kind = CONTROL if text in special else NORMAL
        pieces.append(Piece(text, score, piece_kind))
    if unknown is None or unknown >= len(pieces):
        raise TokenizerError(f"{path}: unk_id must be the id of a piece, got {shown(unknown)}")
    return (
        SentencePieceModel(tuple(pieces), UNIGRAM, byte_fallback=byte_fallback, where=str(path)),
        added,
        parsed,
    )


BYTE_PIECES = frozenset(byte_piece(byte) for byte in range(256))


def read_entry(entry: Any, where: str) -> tuple[str, float]:
    """A piece with its score."""
    if not isinstance(entry, list) or len(entry) != 2:
        raise TokenizerError(f"{where} must be a piece and its score, got {shown(entry)}")
    text, score = entry
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= LARGEST_SCORE:
        raise TokenizerError(f"{where}: the score must be a number, got {shown(score)}")
    return read_token(text, where), float(score)


def read_engine(path: Path, known_steps: Collection[str], class_name: str) -> EngineFile:
    """What a tokenizer.json says, if a tokenizer that knows these steps of normalisers does the same."""
    pieces, added, parsed = read_engine_model(path)
    charsmap = b""
    steps = []
    for step in steps_of(parsed.section("normalizer"), "normalizers"):
        kind = step.read("type", is_string, "")
        if kind == "Precompiled" and not charsmap:
            charsmap = read_base64(step.read("precompiled_charsmap", is_string, ""), path)
        else:
            steps.append(describe_step(step))
    splitters = steps_of(parsed.section("pre_tokenizer"), "pretokenizers")
    cuts = [each.read("type", is_string, "") for each in splitters]
    foreign = [step for step in steps if step not in (*USUAL_STEPS, *known_steps)]
    foreign += [kind for kind in cuts if kind not in ("Metaspace", "WhitespaceSplit", *known_steps)]
    if foreign or "Metaspace" not in cuts:
        raise TokenizerError(
            f"{path} changes or cuts text by {', '.join([*steps, *cuts]) or 'nothing'}; a {class_name} knows "
            f"{', '.join(['Precompiled', *USUAL_STEPS, *known_steps, 'Metaspace'])}"
        )
    metaspace = splitters[cuts.index("Metaspace")]
    scheme = metaspace.read("prepend_scheme", is_string)
    if scheme is None:
        scheme = "always" if metaspace.read("add_prefix_space", is_boolean, True) else "never"
    normalization = Normalization(charsmap, add_dummy_prefix=scheme != "never")
    model = dataclasses.replace(pieces, normalization=normalization)
    return EngineFile(model, added, [*steps, *cuts], scheme, parsed)


def steps_of(section: JsonFields, name: str) -> list[JsonFields]:
    """The steps of a section, those of lists in it one after the other."""
    if section.read("type", is_string) != "Sequence":
        return [section] if section.values else []
    return [step for each in section.items(name) for step in steps_of(each, name)]


def describe_step(step: JsonFields) -> str:
    """A step by its kind; of a replacement, what is replaced by what."""
    kind = step.read("type", is_string, "")
    if kind != "Replace":
        return kind
    pattern = step.section("pattern").values
    return f"Replace {next(iter(pattern.values()), '')!r} by {step.values.get('content')!r}"


def read_base64(text: str, path: Path) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise TokenizerError(f"{path}: precompiled_charsmap is not base64") from None


def engine_text(tokenizer: SentencePieceTokenizer) -> str:
    """The text of a tokenizer.json, for other programs."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    model = tokenizer.model
    vocab = tokenizer._engine_scores()
    engine = Tokenizer(models.Unigram(vocab, tokenizer._unknown_piece, model.byte_fallback))
    steps = tokenizer._engine_normalizers()
    if model.normalization.charsmap:
        steps.append(normalizers.Precompiled(model.normalization.charsmap))
    if model.normalization.remove_extra_whitespaces:
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    engine.normalizer = normalizers.Sequence(steps)
    scheme = tokenizer._prepend_scheme
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [*tokenizer._engine_splitters(), pre_tokenizers.Metaspace(SPACE, prepend_scheme=scheme)]
    )
    engine.decoder = decoders.Metaspace(SPACE, prepend_scheme=scheme)
    put_added_tokens(engine, tokenizer)
    tokenizer._finish_engine(engine)
    return json_text(with_prefix_flags(json.loads(engine.to_str())))


def with_prefix_flags(value: Any) -> Any:
    """The same JSON, with the flag that older programs read in place of `prepend_scheme`."""
    if isinstance(value, dict):
        changed = {name: with_prefix_flags(each) for name, each in value.items()}
        if value.get("type") == "Metaspace":
            changed["add_prefix_space"] = value.get("prepend_scheme") != "never"
        return changed
    return [with_prefix_flags(each) for each in value] if isinstance(value, list) else value
