"""Tokenizers whose symbols are bytes: GPT-2's and RoBERTa's. No text is unknown to them, and none is changed."""

from __future__ import annotations

import codecs
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InputError, TokenizerError, shown
from ...json_fields import JsonFields, is_boolean, is_string
from ..base.tokenizer_files import setting
from ..encoding import Offsets, Pieces
from ..engine.unicode_classes import engine_may_pre_tokenize_differently
from .bpe import SYMBOLS, byte_origins, bytes_of, parts, symbols_of
from .bpe_files import BpeFile, engine_for, has_every_byte, read_engine_file
from .bpe_tokenizer import BpeTokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class ByteLevelTokenizer(BpeTokenizer):
    """A tokenizer with byte-pair encoding of bytes."""

    other_file_names = (("encoder.json", "vocab.bpe"),)  # as OpenAI published them

    errors = setting("errors")
    add_prefix_space = setting("add_prefix_space")

    def __init__(self, vocabulary: BpeFile, settings: dict[str, Any], **shared: Any) -> None:
        try:
            codecs.lookup_error(settings["errors"])
        except (LookupError, TypeError, ValueError):
            raise TokenizerError(
                "errors must be 'replace', 'strict', 'ignore' or another way of decoding, got "
                + shown(settings["errors"])
            ) from None
        self._own_settings = settings
        self._has_every_symbol = has_every_byte(vocabulary.vocab)
        self._known_bytes = bytes(byte for byte, symbol in enumerate(SYMBOLS) if symbol in vocabulary.vocab)
        super().__init__(vocabulary, **shared)

    # --- text to pieces ----------------------------------------------------------------------------------------

    def _with_prefix_space(self, text: str) -> str:
        """A text with a space put before it, so that its first word is a word like any other."""
        return " " + text

    def _pieces(self, texts: list[str], split_special_tokens: bool = False) -> list[Pieces]:
        return self._pieces_with(texts, self.add_prefix_space, split_special_tokens)

    def _pieces_of_words(self, words: list[str], split_special_tokens: bool) -> list[Pieces]:
        return self._pieces_with(words, True, split_special_tokens)

    def _pieces_with(self, texts: list[str], prefix: bool, split_special_tokens: bool) -> list[Pieces]:
        given = [self._with_prefix_space(text) for text in texts] if prefix else texts
        try:
            made = super()._pieces(given, split_special_tokens)
        except UnicodeEncodeError:
            raise lone_surrogate(texts) from None
        return [
            self._with_original_offsets(each, len(text), len(prefixed) - len(text))
            for each, text, prefixed in zip(made, texts, given, strict=True)
        ]

    def _prepared(self, text: str) -> str:
        return self._with_prefix_space(text) if self.add_prefix_space else text

    def _with_original_offsets(self, pieces: Pieces, length: int, added: int) -> Pieces:
        if not added:
            return pieces
        return Pieces(pieces.ids, lambda: (shifted(pieces.offsets, length), pieces.words), pieces.tokens)

    def _engine_agrees(self, text: str, split_special_tokens: bool) -> bool:
        if not self._fits_engine:
            return False
        if self._drops_unknown and text.encode("utf-8", "surrogatepass").translate(None, self._known_bytes):
            return False
        return not engine_may_pre_tokenize_differently(text)

    def _parts(self, text: str) -> list[tuple[Sequence[str], Sequence[int]]]:
        return [(symbols_of(text[start:end]), byte_origins(text[start:end], start)) for start, end in parts(text)]

    # --- back to text ------------------------------------------------------------------------------------------

    def convert_tokens_to_bytes(self, tokens: Sequence[str]) -> bytes:
        """The bytes that tokens stand for: a token may end in the middle of a character."""
        return bytes_of(tokens)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put tokens together to text; bytes that make no character are treated as `errors` says."""
        raw = bytes_of(tokens)
        try:
            return raw.decode("utf-8", self.errors)
        except UnicodeDecodeError as error:
            raise InputError(
                f"the tokens make no text: {error.reason} at byte {error.start}; with errors='replace' they would"
            ) from None

    # --- files -------------------------------------------------------------------------------------------------

    @classmethod
    def _read_engine(cls, path: Path) -> BpeFile:
        read, parsed = read_engine_file(path, suffix="")
        normalizer, splitter = parsed.section("normalizer"), parsed.section("pre_tokenizer")
        kind = splitter.read("type", is_string)
        if normalizer.values or kind != "ByteLevel" or not splitter.read("use_regex", is_boolean, True):
            raise TokenizerError(
                f"{path} uses {normalizer.read('type', is_string)} and {kind}; a "
                f"{cls.__name__} does what ByteLevel (with its own pattern) describes, and changes nothing before"
            )
        settings = {"add_prefix_space": splitter.read("add_prefix_space", is_boolean)}
        return dataclasses.replace(read, settings=settings | cls._read_template(parsed, path))

    @classmethod
    def _read_template(cls, parsed: JsonFields, path: Path) -> dict[str, Any]:
        """Settings that follow from the special tokens which a tokenizer.json puts around texts."""
        return {}

    def _build_engine(self) -> Tokenizer:
        from tokenizers.pre_tokenizers import ByteLevel

        engine = engine_for(self)
        engine.pre_tokenizer = ByteLevel(add_prefix_space=False)
        return engine

    def _finish_engine(self, engine: Tokenizer) -> None:
        from tokenizers.decoders import ByteLevel as Decoder
        from tokenizers.pre_tokenizers import ByteLevel

        engine.pre_tokenizer = ByteLevel(add_prefix_space=self.add_prefix_space)
        engine.decoder = Decoder()

    def _saved_special_tokens(self) -> dict[str, Any]:
        # With their flags: older programs take a bare name to mean that the spaces around the token go.
        flags = ("content", "lstrip", "normalized", "rstrip", "single_word")
        flagged = {
            name: self._added_tokens[token].to_dict() for name, token in self._special.items() if token is not None
        }
        return self.special_tokens_map | {name: {f: token[f] for f in flags} for name, token in flagged.items()}

    def _saved_settings(self) -> dict[str, Any]:
        return dict(self._own_settings)


def shifted(offsets: Offsets, length: int) -> Offsets:
    """Offsets one to the left; a space that was added counts as part of the first character."""
    least = min(1, length)
    return [(max(start - 1, 0), max(end - 1, least)) for start, end in offsets]


def lone_surrogate(texts: Sequence[str]) -> InputError:
    """The error for a text that has no bytes."""
    for number, text in enumerate(texts):
        for position, char in enumerate(text):
            if "\ud800" <= char <= "\udfff":
                which = f"text {number}, " if len(texts) > 1 else ""
                return InputError(
                    f"{which}position {position}: U+{ord(char):04X} is half of a character (a lone surrogate) and has "
                    "no bytes; text.encode('utf-8', 'replace').decode() makes it a question mark"
                )
    return InputError("a text has no bytes in UTF-8")
