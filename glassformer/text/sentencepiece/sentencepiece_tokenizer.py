"""What tokenizers with a SentencePiece vocabulary share: ALBERT's, XLM-RoBERTa's, DeBERTa's and others.

A kind of it adds its special tokens and `template`, and where it differs: `_layout` (the ids of the pieces),
`_prepared` (what it does to a text before the model reads it), `_adjusted` (what it does to the pieces).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ...errors import TokenizerError
from ..base.settings import read_vocabulary
from ..base.template import template_processing
from ..base.tokenizer_files import ENGINE
from ..encoding import Details, Offsets, Pieces, join_pieces
from ..tokenizer import PreTrainedTokenizer
from .decoding import PieceDecoder
from .model_file import BPE, USER_DEFINED, Piece, SentencePieceModel, byte_piece, read_model, write_model
from .normalizer import SPACE, Normalizer
from .scored_bpe import ScoredBpe
from .sentencepiece_files import MODEL_FILES, EngineFile, SentencePieceFile, engine_text, read_engine
from .unigram import Unigram

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from ..explanation.explain_wordpiece import Explanation

Self = TypeVar("Self", bound="SentencePieceTokenizer")


class Cut(NamedTuple):
    """A text as ids, with the pieces themselves where they are not the vocabulary's names of the ids."""

    ids: list[int]
    tokens: Callable[[], list[str]] | None = None


class Reading(NamedTuple):
    """A text as the model reads it, with its pieces; an unknown character is a piece."""

    normalized: str
    ids: list[int]
    surfaces: list[str]
    spans: Offsets


class SentencePieceTokenizer(PreTrainedTokenizer):
    """A tokenizer whose pieces are found by a SentencePiece model."""

    vocab_files_names = {"vocab_file": "spiece.model"}
    model: SentencePieceModel
    engine_steps: tuple[str, ...] = ()  # what a tokenizer.json of this kind may do to texts beside the usual
    _prepend_scheme = "always"  # which stretches between special tokens get a space before them

    def __init__(self, vocabulary: SentencePieceFile, settings: dict[str, Any], **shared: Any) -> None:
        self.model = vocabulary.model
        self._own_settings = settings
        super().__init__(vocabulary, **shared)

    # --- what a kind of tokenizer adds -------------------------------------------------------------------------

    @classmethod
    def _layout(cls, model: SentencePieceModel) -> dict[str, int]:
        """The tokens with their ids. A piece that is not among them under its text is found by `_piece_ids`."""
        return {piece.text: number for number, piece in enumerate(model.pieces)}

    def _piece_ids(self) -> list[int]:
        """For each piece of the model its id."""
        return list(range(len(self.model.pieces)))

    def _prepared(self, text: str) -> str:
        """A text as the model reads it."""
        return text

    def _prepared_with_origins(self, text: str) -> tuple[str, Sequence[int]]:
        """The same, and for each character the place of the one that it came from."""
        return text, range(len(text))

    def _stretches(self, prepared: str) -> list[tuple[int, int]]:
        """The parts of a prepared text that the model reads one by one."""
        return [(0, len(prepared))]

    def _adjusted(self, cut: Cut, spans: Offsets | None) -> tuple[Cut, Offsets | None]:
        """The pieces of a text after changes that some kinds make to them; their spans change along."""
        return cut, spans

    # --- text to pieces ----------------------------------------------------------------------------------------

    @cached_property
    def _normalizer(self) -> Normalizer:
        symbols = [piece.text for piece in self.model.pieces if piece.kind == USER_DEFINED]
        return Normalizer(self.model.normalization, symbols, self.model.where)

    @cached_property
    def _segmenter(self) -> Unigram | ScoredBpe:
        kind = ScoredBpe if self.model.algorithm == BPE else Unigram
        ids = self._piece_ids()
        return kind(self.model.pieces, ids, ids[self.model.unknown])

    @cached_property
    def _unknown_piece(self) -> int:
        """The id of a character that no piece has."""
        return self._piece_ids()[self.model.unknown]

    @cached_property
    def _byte_ids(self) -> list[int]:
        ids = dict(zip((piece.text for piece in self.model.pieces), self._piece_ids(), strict=True))
        return [ids[byte_piece(byte)] for byte in range(256)] if self.model.byte_fallback else []

    def _gets_prefix(self, start: int) -> bool:
        """Whether the model puts its space before a stretch between special tokens that begins here."""
        return True

    def _pieces(self, texts: list[str], split_special_tokens: bool = False) -> list[Pieces]:
        made = []
        for text in texts:
            cuts = [(0, len(text), None)] if split_special_tokens else self._split_at_special_tokens(text)
            parts = [
                (start, self._special_piece(token))
                if token
                else (start, self._pieces_of_stretch(text[start:end], self._gets_prefix(start)))
                for start, end, token in cuts
            ]
            made.append(parts[0][1] if len(parts) == 1 and not parts[0][0] else join_pieces(parts, self.ids_to_tokens))
        return made

    def _pieces_of_stretch(self, text: str, prefix: bool) -> Pieces:
        """The pieces of a text without special tokens; without `prefix`, it gets no space before it."""
        prepared = self._prepared(text)
        stretches = self._stretches(prepared)
        if len(stretches) == 1:
            cut = self._segment(self._normalizer(prepared, prefix))
        else:
            cut = joined(
                [self._segment(self._normalizer(prepared[start:end], prefix)) for start, end in stretches], self
            )
        cut, _ = self._adjusted(cut, None)
        return Pieces(cut.ids, lambda: self._details(text, prefix), cut.tokens)

    def _segment(self, normalized: str) -> Cut:
        """A normalised text as ids; unknown characters side by side are one piece, or their bytes."""
        ids = self._segmenter.segment(normalized)
        unknown = self._unknown_piece
        if unknown not in ids:
            return Cut(ids)

        def tokens() -> list[str]:
            return self._with_unknown(ids, self._surfaces(ids, normalized))[1]

        if self._byte_ids:
            return Cut(self._with_unknown(ids, self._surfaces(ids, normalized))[0], tokens)
        pairs = zip(ids, [-1, *ids], strict=False)
        return Cut([index for index, before in pairs if index != unknown or before != unknown], tokens)

    def _surfaces(self, ids: Sequence[int], normalized: str) -> list[str]:
        """The part of a normalised text that each id stands for."""
        lengths = self._segmenter.lengths
        surfaces = []
        place = 0
        for index in ids:
            end = place + lengths[index]
            surfaces.append(normalized[place:end])
            place = end
        return surfaces

    def _with_unknown(
        self, ids: Sequence[int], surfaces: Sequence[str], spans: Sequence[tuple[int, int]] | None = None
    ) -> tuple[list[int], list[str], Offsets]:
        """The ids and pieces with unknown characters joined, or spelt in bytes; and their spans, if these are given."""
        unknown = self._unknown_piece
        joined_ids: list[int] = []
        tokens: list[str] = []
        kept: Offsets = []
        was_unknown = False
        for index, surface, span in zip(ids, surfaces, spans or [(0, 0)] * len(ids), strict=True):
            is_unknown = index == unknown
            if is_unknown and self._byte_ids:
                raw = surface.encode("utf-8", "surrogatepass")
                joined_ids += [self._byte_ids[byte] for byte in raw]
                tokens += map(byte_piece, raw)
                kept += [span] * len(raw)
            elif is_unknown and was_unknown:
                tokens[-1] += surface
                kept[-1] = kept[-1][0], span[1]
            else:
                joined_ids.append(index)
                tokens.append(surface)
                kept.append(span)
            was_unknown = is_unknown
        return joined_ids, tokens, kept

    def _details(self, text: str, prefix: bool) -> Details:
        """Offsets and word numbers of the pieces of a text."""
        cut, spans = self._joined_readings(self._readings(text, prefix))
        cut, adjusted = self._adjusted(cut, spans)
        words: list[int] = []
        for token in self._tokens_of(cut):
            words.append((words[-1] + token.startswith(SPACE)) if words else 0)
        return adjusted or [], words

    def _tokens_of(self, cut: Cut) -> list[str]:
        return cut.tokens() if cut.tokens else [self.ids_to_tokens[index] for index in cut.ids]

    def _joined_readings(self, readings: Iterable[Reading]) -> tuple[Cut, Offsets]:
        """The pieces of several readings one after the other, unknown characters joined, and their spans."""
        ids: list[int] = []
        tokens: list[str] = []
        spans: Offsets = []
        for reading in readings:
            for all_of_them, own in zip((ids, tokens, spans), self._with_unknown(*reading[1:]), strict=True):
                all_of_them += own  # type: ignore[operator]
        return Cut(ids, lambda: tokens), spans

    def _readings(
        self, text: str, prefix: bool, segment: Callable[[str], list[int]] | None = None
    ) -> Iterator[Reading]:
        """What the model reads one by one, each with its pieces and where they stand in the text."""
        prepared, origins = self._prepared_with_origins(text)
        for begin, stop in self._stretches(prepared):
            normalized, aligned = self._normalizer.aligned(prepared[begin:stop], prefix)
            ids = (segment or self._segmenter.segment)(normalized)
            surfaces = self._surfaces(ids, normalized)
            places = [(origins[begin + start], origins[begin + end - 1] + 1) for start, end in aligned]
            yield Reading(normalized, ids, surfaces, spans_of(surfaces, places))

    # --- back to text ------------------------------------------------------------------------------------------

    @cached_property
    def _decoder(self) -> PieceDecoder:
        return PieceDecoder(self.model)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put pieces together to text; special tokens are text as they stand, with a space before the first."""
        special = set(self.all_special_tokens)
        text = ""
        pieces: list[str] = []
        after_special = False
        for token in tokens:
            if token in special:
                text += ("" if after_special else " ") + self._decoder(pieces) + token
                pieces = []
                after_special = True
            else:
                pieces.append(token)
                after_special = False
        return (text + self._decoder(pieces)).strip()

    def explain(self, text: str) -> Explanation:
        """How a text becomes ids, step by step: print it, or read its fields."""
        from ..explanation.explain_sentencepiece import explain_sentencepiece

        return explain_sentencepiece(self, text)

    # --- files -------------------------------------------------------------------------------------------------

    @classmethod
    def _vocabulary(
        cls, vocab_file: str | PathLike[str] | None, vocab: SentencePieceFile | SentencePieceModel | None
    ) -> SentencePieceFile:
        """The vocabulary, in whichever way it was given."""
        if isinstance(vocab, SentencePieceFile):
            return vocab
        if isinstance(vocab, SentencePieceModel):
            return cls._file_of(vocab)
        if vocab is None and vocab_file is not None:
            return cls._in_folder(Path(vocab_file))
        raise TokenizerError(
            f"a {cls.__name__} needs a vocabulary: the path of a {cls.vocab_files_names['vocab_file']} or of a "
            "tokenizer.json"
        )

    @classmethod
    def _file_of(
        cls,
        model: SentencePieceModel,
        added: Mapping[int, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> SentencePieceFile:
        vocab = read_vocabulary(cls._layout(model), model.where)
        return SentencePieceFile(vocab, model.where, dict(added or {}), settings or {}, model)

    @classmethod
    def _in_folder(cls, path: Path) -> SentencePieceFile:
        """The vocabulary of a file, or the one that a folder has."""
        if path.name == ENGINE:
            return cls._read_engine(path)
        if not path.is_dir():
            return cls._file_of(read_model(path))
        own = cls.vocab_files_names["vocab_file"]
        names = [name for name in dict.fromkeys((own, *MODEL_FILES)) if (path / name).is_file()]
        engine = path / ENGINE
        if not names and not engine.is_file():
            raise TokenizerError(f"{path} has neither {own} nor {ENGINE}, so it holds no {cls.__name__}")
        if not names:
            return cls._read_engine(engine)
        read = cls._file_of(read_model(path / names[0]))
        if not engine.is_file():
            return read
        try:
            other = cls._read_engine(engine)
        except TokenizerError as error:
            warnings.warn(f"{engine.name} is not used, {names[0]} is: {error}", stacklevel=5)
            return read
        if not read.vocab.items() <= other.vocab.items() and not other.vocab.items() <= read.vocab.items():
            warnings.warn(f"{read.name} and {ENGINE} hold different vocabularies; the former is used", stacklevel=5)
        return SentencePieceFile(read.vocab, read.name, other.added, other.settings, read.model)

    @classmethod
    def _read_engine(cls, path: Path) -> SentencePieceFile:
        """The vocabulary and the settings of a tokenizer.json."""
        read = read_engine(path, cls.engine_steps, cls.__name__)
        model = dataclasses.replace(read.model, pieces=tuple(cls._pieces_of_engine(read.model.pieces, str(path))))
        return cls._file_of(model, read.added, cls._settings_of_engine(read))

    @classmethod
    def _pieces_of_engine(cls, pieces: Sequence[Piece], where: str) -> Sequence[Piece]:
        """The pieces of the model, from those that a tokenizer.json lists in the order of their ids."""
        return pieces

    @classmethod
    def _settings_of_engine(cls, read: EngineFile) -> dict[str, Any]:
        """The settings that follow from a tokenizer.json."""
        return {}

    @classmethod
    def _from_files(cls: type[Self], path: Path, settings: dict, kept: dict, name_or_path: str) -> Self:
        given = settings.pop("vocab_file", None)
        read = cls._in_folder(Path(given) if given else path)
        return cls(vocab=read, **settings, kept_settings=kept, name_or_path=name_or_path)

    def _saved_settings(self) -> dict[str, Any]:
        return dict(self._own_settings)

    def _vocabulary_files(self) -> dict[str, str | bytes]:  # type: ignore[override]
        files: dict[str, str | bytes] = {self.vocab_files_names["vocab_file"]: write_model(self.model)}
        text = self._engine_text()
        return files | ({ENGINE: text} if text is not None else {})

    def _engine_text(self) -> str | None:
        """The text of a tokenizer.json; None where it could not say what this tokenizer does."""
        normalization = self.model.normalization
        plain = normalization.add_dummy_prefix and normalization.escape_whitespaces
        if self.model.algorithm == BPE or not plain or normalization.whitespace_as_suffix:
            return None
        return engine_text(self)

    def _engine_scores(self) -> list[tuple[str, float]]:
        """The tokens in the order of their ids, each with the score that a tokenizer.json gives it."""
        scores = {piece.text: piece.score for piece in self.model.pieces}
        return [(token, scores.get(token, 0.0)) for token, _ in sorted(self.vocab.items(), key=lambda item: item[1])]

    def _engine_normalizers(self) -> list[Any]:
        """The steps of a tokenizer.json's normaliser before the rules of the model."""
        return []

    def _engine_splitters(self) -> list[Any]:
        """How a tokenizer.json cuts texts before it cuts them at spaces."""
        return []

    def _finish_engine(self, engine: Tokenizer) -> None:
        """Give an engine that is to be saved its template."""
        engine.post_processor = template_processing(self)


def spans_of(surfaces: Sequence[str], places: Offsets) -> Offsets:
    """Where pieces stand, from the places of characters: without the space beside a word, unless a piece is only that.

    >>> spans_of(["\u2581", "\u2581a"], [(0, 1), (1, 2), (2, 3)])
    [(0, 1), (2, 3)]
    """
    spans = []
    done = 0
    for surface in surfaces:
        first, last = done, done + len(surface) - 1
        while first < last and surface[first - done] == SPACE:
            first += 1
        while first < last and surface[last - done] == SPACE:
            last -= 1
        spans.append((places[first][0], places[last][1]))
        done += len(surface)
    return spans


def joined(cuts: Sequence[Cut], tokenizer: SentencePieceTokenizer) -> Cut:
    """The cuts of neighbouring stretches as one."""
    ids = [index for cut in cuts for index in cut.ids]
    if not any(cut.tokens for cut in cuts):
        return Cut(ids)
    return Cut(ids, lambda: [token for cut in cuts for token in tokenizer._tokens_of(cut)])
