"""What tokenizers with byte-pair encoding share: their files, and how unknown symbols are treated."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import InputError, TokenizerError
from ..base.settings import read_vocabulary
from ..base.tokenizer_files import ENGINE
from ..encoding import Offsets, Pieces
from ..engine.rust_engine import EngineWithFallback
from ..tokenizer import PreTrainedTokenizer
from .bpe import Merges, Pair
from .bpe_files import BpeFile, engine_for, fits_engine, pair_of, read_pair, vocabulary_files

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..explanation.explain_wordpiece import Explanation

Self = TypeVar("Self", bound="BpeTokenizer")


class BpeTokenizer(EngineWithFallback, PreTrainedTokenizer):
    """A tokenizer whose pieces are made by joining pairs of symbols.

    A kind of it adds `_parts` (a text -> the parts that are never joined, as symbols with their places), `_read_engine`
    (what its tokenizer.json must say) and `_finish_engine` (what goes into one).
    """

    vocab_files_names = {"vocab_file": "vocab.json", "merges_file": "merges.txt"}
    other_file_names: tuple[tuple[str, str], ...] = ()  # names that the two files had elsewhere
    model_input_names = ["input_ids", "attention_mask"]
    end_of_word = ""  # what marks the last symbol of a word
    _has_every_symbol = False  # whether every symbol that can come up is in the vocabulary

    def __init__(self, vocabulary: BpeFile, **shared: Any) -> None:
        self.merges = Merges(vocabulary.merges)
        self._file_drops_unknown = vocabulary.drops_unknown
        super().__init__(vocabulary, **shared)

    # --- what a kind of tokenizer adds -------------------------------------------------------------------------

    def _parts(self, text: str) -> list[tuple[Sequence[str], Sequence[int]]]:
        """The parts of a text: the symbols of each, and for each symbol where its character stands."""
        raise NotImplementedError

    @classmethod
    def _read_engine(cls, path: Path) -> BpeFile:
        """The vocabulary and the settings of a tokenizer.json."""
        raise NotImplementedError

    def _finish_engine(self, engine: Tokenizer) -> None:
        """Give an engine that is to be saved its template and decoder."""
        raise NotImplementedError

    # --- files -------------------------------------------------------------------------------------------------

    @classmethod
    def _vocabulary(
        cls,
        vocab_file: str | PathLike[str] | None,
        merges_file: str | PathLike[str] | None,
        vocab: BpeFile | Mapping[str, int] | None,
        merges: Sequence[Pair] | None,
    ) -> BpeFile:
        """The vocabulary, in whichever way it was given."""
        if isinstance(vocab, BpeFile):
            return vocab
        if vocab is not None and merges is not None and vocab_file is None and merges_file is None:
            pairs = [pair_of(list(pair) if isinstance(pair, tuple) else pair, "merges") for pair in merges]
            return BpeFile(read_vocabulary(vocab, "the vocabulary"), "the vocabulary", merges=pairs)
        if vocab is None and merges is None and vocab_file is not None:
            path = Path(vocab_file)
            if merges_file is not None:
                return read_pair(path, Path(merges_file))
            if path.name == ENGINE or path.is_dir():
                return cls._in_folder(path)
        raise TokenizerError(
            f"a {cls.__name__} needs a vocabulary and its merges: the paths of a vocab.json and a merges.txt, the path "
            "of a tokenizer.json, or vocab={token: id} and merges=[(left, right), ...]"
        )

    @classmethod
    def _in_folder(cls, path: Path) -> BpeFile:
        """The vocabulary of a folder, or of the folder of one of its files."""
        if path.is_file() and path.name == ENGINE:
            return cls._read_engine(path)
        folder = path if path.is_dir() else path.parent
        engine = folder / ENGINE
        names = (tuple(cls.vocab_files_names.values()), *cls.other_file_names)
        for vocab, merges in names:
            if (folder / vocab).is_file() and (folder / merges).is_file() and path.name in (vocab, merges, folder.name):
                read = read_pair(folder / vocab, folder / merges)
                break
        else:
            if engine.is_file():
                return cls._read_engine(engine)
            raise TokenizerError(
                f"{path} has neither {' and '.join(names[0])} nor {ENGINE}, so it holds no {cls.__name__}"
            )
        if engine.is_file():
            other = cls._read_engine(engine)
            if other.vocab != read.vocab or list(other.merges) != list(read.merges):
                warnings.warn(f"{read.name} and {ENGINE} hold different vocabularies; the former is used", stacklevel=5)
            read = BpeFile(read.vocab, read.name, other.added, other.settings, merges=read.merges)
        return read

    @classmethod
    def _from_files(cls: type[Self], path: Path, settings: dict, kept: dict, name_or_path: str) -> Self:
        given = [settings.pop(name, None) for name in cls.vocab_files_names]
        read = read_pair(Path(given[0]), Path(given[1])) if all(given) else cls._in_folder(path)
        return cls(vocab=read, **settings, kept_settings=kept, name_or_path=name_or_path)

    def _vocabulary_files(self) -> dict[str, str]:
        return vocabulary_files(self)

    # --- the engine and its fallback ---------------------------------------------------------------------------

    @property
    def _drops_unknown(self) -> bool:
        """Whether symbols that the vocabulary lacks are left out, and not read as the unknown token."""
        return not self._has_every_symbol and (self._file_drops_unknown or self.unk_token is None)

    @cached_property
    def _fits_engine(self) -> bool:
        return fits_engine(self)

    def _build_engine(self) -> Tokenizer:
        return engine_for(self)

    def _set_special(self, name: str, value: Any) -> None:
        super()._set_special(name, value)
        if name == "unk_token":
            self.__dict__.pop("_engine", None)

    def _encode_plain(self, texts: list[str], split_special_tokens: bool) -> list[Pieces]:
        made = super()._encode_plain(texts, split_special_tokens)
        if self._has_every_symbol:
            return made
        unknown = self.unk_token_id
        return [  # the engine forgets what an unknown symbol was
            self._reference_pieces(text, split_special_tokens) if each.tokens is None and unknown in each.ids else each
            for text, each in zip(texts, made, strict=True)
        ]

    def _reference_pieces(self, text: str, split_special_tokens: bool) -> Pieces:
        tokens: list[str] = []
        offsets: Offsets = []
        words: list[int] = []
        for number, (symbols, origins) in enumerate(self._parts(text)):
            if self._drops_unknown:
                symbols, origins = self._known(symbols, origins)
            part_tokens = self.merges.tokens(symbols)
            tokens += part_tokens
            offsets += self._offsets_of(part_tokens, origins)
            words += [number] * len(part_tokens)
        return Pieces([self._id_or_unknown(token) for token in tokens], (offsets, words), tokens)

    def _known(self, symbols: Sequence[str], origins: Sequence[int]) -> tuple[list[str], list[int]]:
        """The symbols that the vocabulary has, with their places; it is logged once that there are others."""
        kept = [(symbol, origin) for symbol, origin in zip(symbols, origins, strict=True) if symbol in self.vocab]
        if len(kept) < len(symbols):
            lost = next(symbol for symbol in symbols if symbol not in self.vocab)
            self._warn_once(
                f"the vocabulary lacks the symbol {lost!r} and names no unknown token: it is left out, as in the "
                "original, and so may be others",
                key="unknown symbols",
            )
        return [symbol for symbol, _ in kept], [origin for _, origin in kept]

    def _offsets_of(self, tokens: list[str], origins: Sequence[int]) -> Offsets:
        """Where the tokens of a part stand in the text."""
        places: Offsets = []
        done = 0
        for token in tokens:
            start, done = done, min(done + len(token), len(origins))
            places.append((origins[start], origins[done - 1] + 1))
        return places

    def _id_or_unknown(self, token: str) -> int:
        index = self.vocab.get(token)
        if index is not None:
            return index
        if self.unk_token is None:
            raise InputError(f"the text needs the symbol {token!r}, which the vocabulary lacks, and unk_token is None")
        return self.unk_token_id

    def _prepared(self, text: str) -> str:
        """A text as it is cut into parts: some tokenizers put a space before it."""
        return text

    def _with_original_offsets(self, pieces: Pieces, length: int, added: int) -> Pieces:
        """Pieces of a prepared text, with offsets that count in the text as it was, `added` characters shorter."""
        return pieces

    def explain(self, text: str) -> Explanation:
        """How a text becomes ids, step by step: print it, or read its fields."""
        from ..explanation.explain_bpe import explain_bpe

        return explain_bpe(self, text)
