"""ALBERT's tokenizer: SentencePiece on text without accents, lower-cased, with BERT's special tokens."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from os import PathLike
from typing import Any

from .base.special_tokens import AddedToken
from .base.template import template_with_segments
from .base.tokenizer_files import setting
from .encoding import Offsets, Slot
from .engine.rust_engine import LowerCasing
from .sentencepiece.model_file import NORMAL, USER_DEFINED, Piece
from .sentencepiece.normalizer import SPACE
from .sentencepiece.sentencepiece_files import EngineFile, SentencePieceFile
from .sentencepiece.sentencepiece_tokenizer import Cut, SentencePieceTokenizer
from .tokenizer import Token, shares_settings
from .wordpiece.wordpiece import lower, lower_text

QUOTES = {"``": '"', "''": '"'}
DOWNGRADE = 100.0  # how much lower a tokenizer.json scores pieces such as `9,`, which are cut again


class PreparesText(LowerCasing, SentencePieceTokenizer):
    """What ALBERT's and XLNet's tokenizers do beside the model.

    Before it: white space is collapsed, quotes in LaTeX's form become plain ones, accents go, letters become small.
    After it: a piece that ends with a digit and a comma is cut again without the comma, which becomes a piece.
    """

    engine_steps = ("Replace '``' by '\"'", "Replace \"''\" by '\"'", "NFKD", "StripAccents", "Lowercase")

    do_lower_case = setting("do_lower_case")
    remove_space = setting("remove_space")
    keep_accents = setting("keep_accents")

    @property
    def _is_lower_casing(self) -> bool:
        return self.do_lower_case

    def _prepared(self, text: str) -> str:
        if self.do_lower_case:
            text = lower_text(text)
        if self.remove_space:
            text = " ".join(text.split())
        for quote, plain in QUOTES.items():
            text = text.replace(quote, plain)
        if not self.keep_accents and not text.isascii():
            text = "".join([char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char)])
        return text.lower() if self.do_lower_case else text  # once more: NFKD makes capitals of letter-like signs

    def _prepared_with_origins(self, text: str) -> tuple[str, Sequence[int]]:
        origins: Sequence[int] = range(len(text))
        if self.do_lower_case:
            text, origins = lower(text, origins)
        chars = list(zip(origins, text, strict=True))
        if self.remove_space:
            kept: list[tuple[int, str]] = []
            place = 0
            for word in text.split():
                start = text.index(word, place)
                if kept:
                    kept.append((chars[start - 1][0], " "))
                kept += chars[start : start + len(word)]
                place = start + len(word)
            chars = kept
        for quote, plain in QUOTES.items():
            chars = replace_pair(chars, quote, plain)
        if not self.keep_accents:
            chars = [
                (place, part)
                for place, char in chars
                for part in unicodedata.normalize("NFKD", char)
                if not unicodedata.combining(part)
            ]
        prepared = "".join([char for _, char in chars])
        if self.do_lower_case:
            return prepared.lower(), [place for place, char in chars for _ in char.lower()]
        return prepared, [place for place, _ in chars]

    def _adjusted(self, cut: Cut, spans: Offsets | None) -> tuple[Cut, Offsets | None]:
        # An unknown piece ends with a comma only where the vocabulary has none.
        if self._digits_and_comma.isdisjoint(cut.ids) and (cut.tokens is None or "," in self.vocab):
            return cut, spans
        tokens = self._tokens_of(cut)
        ids: list[int] = []
        new_tokens: list[str] = []
        new_spans: Offsets = []
        for number, (index, token) in enumerate(zip(cut.ids, tokens, strict=True)):
            if not ends_with_digit_and_comma(token):
                ids.append(index)
                new_tokens.append(token)
                if spans is not None:
                    new_spans.append(spans[number])
                continue
            parts = self._without_comma(token)
            ids += [self.vocab.get(part, self._unknown_piece) for part in parts]
            new_tokens += parts
            if spans is not None:
                new_spans += spread(spans[number], [part.lstrip(SPACE) or SPACE for part in parts])
        is_known = cut.tokens is None and all(token in self.vocab for token in new_tokens)
        changed = Cut(ids, None if is_known else lambda: new_tokens)
        return changed, None if spans is None else new_spans

    def _without_comma(self, token: str) -> list[str]:
        """A piece such as `9,` as other pieces."""
        known: dict[str, list[str]] = self.__dict__.setdefault("_cut_commas", {})
        if token not in known:
            first, *others = self._tokens_of(self._segment(self._normalizer(token[:-1].replace(SPACE, ""))))
            if token[0] != SPACE and first[0] == SPACE:
                first = first[1:]
            known[token] = [each for each in (first, *others, token[-1]) if each]
        return known[token]

    @property
    def _digits_and_comma(self) -> frozenset[int]:
        """The ids of pieces that end with a digit and a comma."""
        found = self.__dict__.get("_comma_ids")
        if found is None:
            found = frozenset(index for token, index in self.vocab.items() if ends_with_digit_and_comma(token))
            self.__dict__["_comma_ids"] = found
        return found

    @classmethod
    def _pieces_of_engine(cls, pieces: Sequence[Piece], where: str) -> Sequence[Piece]:
        return [
            piece._replace(score=piece.score + DOWNGRADE)
            if piece.kind in (NORMAL, USER_DEFINED) and ends_with_digit_and_comma(piece.text)
            else piece
            for piece in pieces
        ]

    @classmethod
    def _settings_of_engine(cls, read: EngineFile) -> dict[str, Any]:
        return {"do_lower_case": "Lowercase" in read.steps, "keep_accents": "StripAccents" not in read.steps}

    def _engine_scores(self) -> list[tuple[str, float]]:
        return [
            (token, score - DOWNGRADE if ends_with_digit_and_comma(token) else score)
            for token, score in super()._engine_scores()
        ]

    def _engine_normalizers(self) -> list[Any]:
        from tokenizers import normalizers

        steps: list[Any] = [normalizers.Replace(quote, plain) for quote, plain in QUOTES.items()]
        if not self.keep_accents:
            steps += [normalizers.NFKD(), normalizers.StripAccents()]
        return [*steps, *([normalizers.Lowercase()] if self.do_lower_case else [])]


class AlbertTokenizer(PreparesText):
    """Text to ids as ALBERT does it.

    >>> tokenizer = AlbertTokenizer.from_pretrained("./albert-base-v2/")    # doctest: +SKIP
    >>> tokenizer.tokenize("Unaffable, 9,500 times!")                       # doctest: +SKIP
    ['▁un', 'aff', 'able', ',', '▁9', ',', '500', '▁times', '!']
    """

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        do_lower_case: bool | None = None,  # None: what tokenizer.json says, or True
        remove_space: bool = True,
        keep_accents: bool | None = None,  # None: what tokenizer.json says, or False
        bos_token: Token | None = "[CLS]",
        eos_token: Token | None = "[SEP]",
        unk_token: Token = "<unk>",
        sep_token: Token | None = "[SEP]",
        pad_token: Token | None = "<pad>",
        cls_token: Token | None = "[CLS]",
        mask_token: Token | None = "[MASK]",
        *,
        vocab: SentencePieceFile | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, vocab)
        if isinstance(mask_token, str):
            mask_token = AddedToken(mask_token, lstrip=True)
        super().__init__(
            vocabulary,
            {
                "do_lower_case": vocabulary.resolve("do_lower_case", do_lower_case, True),
                "remove_space": remove_space,
                "keep_accents": vocabulary.resolve("keep_accents", keep_accents, False),
            },
            bos_token=bos_token,
            eos_token=eos_token,
            unk_token=unk_token,
            sep_token=sep_token,
            pad_token=pad_token,
            cls_token=cls_token,
            mask_token=mask_token,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with segment 1 from B on."""
        return template_with_segments(self, pair)


def ends_with_digit_and_comma(token: str) -> bool:
    return len(token) > 1 and token[-1] == "," and token[-2].isdigit()


def replace_pair(chars: list[tuple[int, str]], pair: str, by: str) -> list[tuple[int, str]]:
    """Characters with their places, two of them replaced by one wherever they stand side by side."""
    replaced = []
    place = 0
    while place < len(chars):
        is_pair = "".join([char for _, char in chars[place : place + 2]]) == pair
        replaced.append((chars[place][0], by if is_pair else chars[place][1]))
        place += 2 if is_pair else 1
    return replaced


def spread(span: tuple[int, int], parts: Sequence[str]) -> Offsets:
    """The spans of the parts of a piece; the last character of the piece is the last part."""
    start, end = span
    spans = []
    for part in parts[:-1]:
        stop = min(start + len(part), end - 1)
        spans.append((start, stop))
        start = stop
    return [*spans, (end - 1, end)]


AlbertTokenizerFast = AlbertTokenizer
__all__ = ["AlbertTokenizer", "AlbertTokenizerFast"]
