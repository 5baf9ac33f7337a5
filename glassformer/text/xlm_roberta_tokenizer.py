"""XLM-RoBERTa's tokenizer: SentencePiece, with ids in the order that fairseq gave them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

from ..errors import TokenizerError, shown
from .base.special_tokens import AddedToken
from .base.template import template_with_two_separators
from .encoding import Slot
from .sentencepiece.model_file import CONTROL, UNKNOWN, Piece, SentencePieceModel
from .sentencepiece.normalizer import SPACE
from .sentencepiece.sentencepiece_files import SentencePieceFile
from .sentencepiece.sentencepiece_tokenizer import SentencePieceTokenizer
from .tokenizer import Token, shares_settings

MASK = "<mask>"


class FairseqTokenizer(SentencePieceTokenizer):
    """A tokenizer whose ids begin with tokens of fairseq's; the pieces of the model follow, and a mask."""

    vocab_files_names = {"vocab_file": "sentencepiece.bpe.model"}
    model_input_names = ["input_ids", "attention_mask"]
    first_tokens: ClassVar[Mapping[str, int]] = {}  # with their ids
    shift: ClassVar[int] = 0  # how much higher the id of a piece is than its number in the model

    def __init__(self, vocabulary: SentencePieceFile, mask_token: Token | None, **shared: Any) -> None:
        if isinstance(mask_token, str):
            mask_token = AddedToken(mask_token, lstrip=True)
        super().__init__(vocabulary, {}, mask_token=mask_token, **shared)

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`<s> A </s>`, or `<s> A </s></s> B </s>`; there are no segments."""
        return template_with_two_separators(self, pair)

    @classmethod
    def _layout(cls, model: SentencePieceModel) -> dict[str, int]:
        if model.unknown != 0:
            raise TokenizerError(f"{model.where}: a {cls.__name__} needs a model whose piece 0 is the unknown one")
        layout = dict(cls.first_tokens)
        for number, piece in enumerate(model.pieces):
            if piece.text not in cls.first_tokens:
                layout[piece.text] = number + cls.shift
        layout[MASK] = len(model.pieces) + cls.shift
        return layout

    def _piece_ids(self) -> list[int]:
        unknown = self.first_tokens[self._unknown_text]
        return [
            unknown if piece.kind == UNKNOWN else self.first_tokens.get(piece.text, number + self.shift)
            for number, piece in enumerate(self.model.pieces)
        ]

    _unknown_text: ClassVar[str] = "<unk>"

    @classmethod
    def _pieces_of_engine(cls, pieces: Sequence[Piece], where: str) -> Sequence[Piece]:
        names = [piece.text for piece in pieces]
        expected = dict.fromkeys(cls.first_tokens) | ({} if cls.shift == 1 else {f"{cls._unknown_text}NOTUSED": None})
        if names[: len(expected)] != list(expected) or names[-1] != MASK:
            raise TokenizerError(
                f"{where}: the vocabulary of a {cls.__name__} begins with {', '.join(expected)} and ends with {MASK}, "
                f"this one begins with {shown(names[: len(expected)])} and ends with {shown(names[-1])}"
            )
        return [Piece(cls._unknown_text, 0.0, UNKNOWN), *cls._control_pieces(pieces[len(expected) : -1])]

    @classmethod
    def _control_pieces(cls, pieces: Sequence[Piece]) -> list[Piece]:
        return list(pieces)

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put pieces together to text: a space where a word begins."""
        return "".join(tokens).replace(SPACE, " ").strip()


class XLMRobertaTokenizer(FairseqTokenizer):
    """Text to ids as XLM-RoBERTa does it.

    >>> tokenizer = XLMRobertaTokenizer.from_pretrained("./xlm-roberta-base/")      # doctest: +SKIP
    >>> tokenizer("Hello <mask> world")["input_ids"]                                # doctest: +SKIP
    [0, 35378, 250001, 8999, 2]
    """

    first_tokens = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    shift = 1

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        bos_token: Token | None = "<s>",
        eos_token: Token | None = "</s>",
        sep_token: Token | None = "</s>",
        cls_token: Token | None = "<s>",
        unk_token: Token = "<unk>",
        pad_token: Token | None = "<pad>",
        mask_token: Token | None = MASK,
        *,
        vocab: SentencePieceFile | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(
            self._vocabulary(vocab_file, vocab),
            mask_token,
            bos_token=bos_token,
            eos_token=eos_token,
            sep_token=sep_token,
            cls_token=cls_token,
            unk_token=unk_token,
            pad_token=pad_token,
            **shared,
        )

    @classmethod
    def _control_pieces(cls, pieces: Sequence[Piece]) -> list[Piece]:
        return [Piece("<s>", 0.0, CONTROL), Piece("</s>", 0.0, CONTROL), *pieces]


XLMRobertaTokenizerFast = XLMRobertaTokenizer
__all__ = ["XLMRobertaTokenizer", "XLMRobertaTokenizerFast"]
