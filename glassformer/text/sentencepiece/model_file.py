"""SentencePiece model files (`spiece.model`, `spm.model`, `sentencepiece.bpe.model`): read, checked, written."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...errors import CheckpointError, TokenizerError, shown
from ..base.settings import LARGEST_ID
from .protobuf import BYTES, FLOAT, Field, decode, expect, read_float, read_message, read_number, read_text, write_field

UNIGRAM, BPE = "unigram", "bpe"
MODEL_TYPES = {1: UNIGRAM, 2: BPE, 3: "word", 4: "char"}
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
KINDS = ("normal", "unknown", "control", "user-defined", "unused", "byte")
LONGEST_PIECE = 8000  # bytes, as the library has it
LARGEST_FILE = 2**28  # bytes
UNKNOWN_SURFACE = " \u2047 "  # what the library writes for an unknown piece


class Piece(NamedTuple):
    """One entry of the vocabulary: its text, the logarithm of its probability (or its rank), and what it is."""

    text: str
    score: float
    kind: int = NORMAL


@dataclass(frozen=True, slots=True)
class Normalization:
    """How text is changed before it is cut."""

    charsmap: bytes = b""  # compiled replacement rules
    add_dummy_prefix: bool = True  # a space before the text, so that its first word is a word like any other
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True
    whitespace_as_suffix: bool = False
    name: str = ""


@dataclass(frozen=True, slots=True)
class SentencePieceModel:
    """What a model file says."""

    pieces: tuple[Piece, ...]
    algorithm: str = UNIGRAM
    normalization: Normalization = field(default_factory=Normalization)
    byte_fallback: bool = False
    unknown_surface: str = UNKNOWN_SURFACE
    where: str = "the model"
    raw: bytes | None = None  # the file as it was read, written back as it was

    @property
    def unknown(self) -> int:
        """The number of the unknown piece."""
        return next(number for number, piece in enumerate(self.pieces) if piece.kind == UNKNOWN)


def read_model(path: Path) -> SentencePieceModel:
    """Read a model file."""
    from ...checkpoints.files import open_regular

    try:
        with open_regular(path) as file:
            data = file.read(LARGEST_FILE + 1)
    except CheckpointError as error:
        raise TokenizerError(str(error)) from None
    if len(data) > LARGEST_FILE:
        raise TokenizerError(f"{path} is larger than {LARGEST_FILE >> 20} MB, so it is no SentencePiece model")
    return parse_model(data, str(path))


def parse_model(data: bytes, where: str) -> SentencePieceModel:
    """The model that the bytes of a file describe."""
    pieces: list[Piece] = []
    trainer = normalizer = b""
    for each in read_message(data, where):
        if each.number == 1:
            pieces.append(parse_piece(each, len(pieces), where))
        elif each.number == 2:
            trainer += expect(each, BYTES, where, "trainer_spec")  # type: ignore[operator]
        elif each.number == 3:
            normalizer += expect(each, BYTES, where, "normalizer_spec")  # type: ignore[operator]
        elif each.number == 5:
            refuse_denormalizer(each, where)
    settings = parse_trainer(trainer, where)
    algorithm = MODEL_TYPES.get(int(settings["model_type"]), shown(settings["model_type"]))
    if algorithm not in (UNIGRAM, BPE):
        raise TokenizerError(f"{where} is a {algorithm} model; supported are {UNIGRAM} and {BPE} models")
    model = SentencePieceModel(
        tuple(pieces),
        algorithm,
        parse_normalizer(normalizer, bool(settings["treat_whitespace_as_suffix"]), where),
        bool(settings["byte_fallback"]),
        str(settings["unk_surface"]),
        where,
        data,
    )
    check_model(model)
    return model


def parse_piece(message: Field, number: int, where: str) -> Piece:
    name = f"piece {number}"
    data = expect(message, BYTES, where, name)
    assert isinstance(data, bytes)
    size = len(data) - 7
    if (
        0 < size < 0x80 and data[0] == 0x0A and data[1] == size and data[2 + size] == 0x15
    ):  # text, then score: the usual
        return Piece(decode(data[2 : 2 + size], where, name), FLOAT.unpack_from(data, 3 + size)[0])
    text, score, kind = "", 0.0, NORMAL
    for each in read_message(data, where):
        if each.number == 1:
            text = read_text(each, where, name)
        elif each.number == 2:
            score = read_float(each, where, f"the score of {name}")
        elif each.number == 3:
            kind = read_number(each, where, f"the type of {name}")
    return Piece(text, score, kind)


def parse_trainer(data: bytes, where: str) -> dict[str, int | str]:
    """The settings of training that matter for reading text."""
    numbers = {3: "model_type", 24: "treat_whitespace_as_suffix", 35: "byte_fallback"}
    settings: dict[str, int | str] = {"model_type": 1, "treat_whitespace_as_suffix": 0, "byte_fallback": 0}
    settings["unk_surface"] = UNKNOWN_SURFACE
    for each in read_message(data, where):
        if each.number in numbers:
            settings[numbers[each.number]] = read_number(each, where, numbers[each.number])
        elif each.number == 44:
            settings["unk_surface"] = read_text(each, where, "unk_surface")
    return settings


def parse_normalizer(data: bytes, suffix: bool, where: str) -> Normalization:
    flags = {3: "add_dummy_prefix", 4: "remove_extra_whitespaces", 5: "escape_whitespaces"}
    read = dict.fromkeys(flags.values(), True)
    charsmap, name = b"", ""
    for each in read_message(data, where):
        if each.number == 1:
            name = read_text(each, where, "the name of the normaliser")
        elif each.number == 2:
            value = expect(each, BYTES, where, "precompiled_charsmap")
            assert isinstance(value, bytes)
            charsmap = value
        elif each.number in flags:
            read[flags[each.number]] = bool(read_number(each, where, flags[each.number]))
    return Normalization(charsmap, **read, whitespace_as_suffix=suffix, name=name)


def refuse_denormalizer(message: Field, where: str) -> None:
    data = expect(message, BYTES, where, "denormalizer_spec")
    assert isinstance(data, bytes)
    if any(each.number == 2 and each.value for each in read_message(data, where)):
        raise TokenizerError(f"{where} has rules that change text when it is decoded, which is not supported")


def check_model(model: SentencePieceModel) -> None:
    """Refuse a vocabulary that the library would refuse too."""
    where = model.where
    if not 0 < len(model.pieces) < LARGEST_ID:
        raise TokenizerError(f"{where} is not a SentencePiece model or is damaged: it has {len(model.pieces)} pieces")
    for number, piece in enumerate(model.pieces):
        size = len(piece.text) if piece.text.isascii() else len(piece.text.encode())
        if not 0 < size < LONGEST_PIECE or "\0" in piece.text:
            raise TokenizerError(f"{where}: piece {number} must be text of 1 to {LONGEST_PIECE} bytes without NUL")
        if not math.isfinite(piece.score):
            raise TokenizerError(f"{where}: the score of piece {number}, {shown(piece.text)}, is {piece.score}")
        if not NORMAL <= piece.kind <= BYTE:
            raise TokenizerError(f"{where}: piece {number}, {shown(piece.text)}, is of type {piece.kind}, unknown here")
    twice = next((text for text, times in Counter(piece.text for piece in model.pieces).items() if times > 1), None)
    if twice is not None:
        raise TokenizerError(f"{where} has the piece {shown(twice)} twice")
    unknown = sum(piece.kind == UNKNOWN for piece in model.pieces)
    if unknown != 1:
        raise TokenizerError(f"{where} must have one unknown piece, it has {unknown}")
    if not any(piece.kind in (NORMAL, USER_DEFINED) for piece in model.pieces):
        raise TokenizerError(f"{where} has no piece that text could be cut into")
    bytes_there = {piece.text for piece in model.pieces if piece.kind == BYTE}
    wanted = {byte_piece(byte) for byte in range(256)} if model.byte_fallback else set()
    if bytes_there != wanted:
        raise TokenizerError(
            f"{where} has {len(bytes_there)} pieces for bytes; with byte_fallback there must be 256, else none"
        )


def byte_piece(byte: int) -> str:
    """The piece that stands for one byte.

    >>> byte_piece(10)
    '<0x0A>'
    """
    return f"<0x{byte:02X}>"


def write_model(model: SentencePieceModel) -> bytes:
    """The bytes of a model file: those that were read, or new ones."""
    if model.raw is not None:
        return model.raw
    written = []
    for piece in model.pieces:
        body = write_field(1, piece.text) + write_field(2, float(piece.score))
        written.append(write_field(1, body + (write_field(3, piece.kind) if piece.kind != NORMAL else b"")))
    algorithm = next(number for number, name in MODEL_TYPES.items() if name == model.algorithm)
    trainer = write_field(3, algorithm) + write_field(4, len(model.pieces))
    normal = model.normalization
    if normal.whitespace_as_suffix:
        trainer += write_field(24, 1)
    if model.byte_fallback:
        trainer += write_field(35, 1)
    numbers = {piece.text: number for number, piece in enumerate(model.pieces) if piece.kind in (UNKNOWN, CONTROL)}
    trainer += write_field(40, model.unknown)
    for number, name in ((41, "<s>"), (42, "</s>"), (43, "<pad>")):
        trainer += write_field(number, numbers.get(name, -1))
    trainer += write_field(44, model.unknown_surface) + write_field(45, model.pieces[model.unknown].text)
    normalizer = write_field(1, normal.name) + write_field(2, normal.charsmap)
    flags = (normal.add_dummy_prefix, normal.remove_extra_whitespaces, normal.escape_whitespaces)
    for number, flag in enumerate(flags, start=3):
        normalizer += write_field(number, int(flag))
    return b"".join([*written, write_field(2, trainer), write_field(3, normalizer)])
