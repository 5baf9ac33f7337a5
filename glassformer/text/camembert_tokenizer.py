"""CamemBERT's tokenizer: SentencePiece, with ids in the order that fairseq gave them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from .sentencepiece.model_file import SentencePieceModel
from .sentencepiece.sentencepiece_files import SentencePieceFile
from .tokenizer import Token, shares_settings
from .xlm_roberta_tokenizer import MASK, FairseqTokenizer

UNUSED = ("<s>NOTUSED", "</s>NOTUSED")  # fairseq's own, beside those of the model
UNUSED_UNKNOWN, DOWNGRADE = "<unk>NOTUSED", -100.0  # the unknown piece of the model, and its score in a tokenizer.json


class CamembertTokenizer(FairseqTokenizer):
    """Text to ids as CamemBERT does it.

    >>> tokenizer = CamembertTokenizer.from_pretrained("./camembert-base/")         # doctest: +SKIP
    >>> tokenizer("J'aime le <mask>")["input_ids"]                                  # doctest: +SKIP
    [5, 121, 11, 660, 16, 32004, 6]
    """

    first_tokens = {UNUSED[0]: 0, "<pad>": 1, UNUSED[1]: 2, "<unk>": 3}
    shift = 4

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
        additional_special_tokens: Iterable[Token] = UNUSED,
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
            additional_special_tokens=additional_special_tokens,
            **shared,
        )

    @classmethod
    def _layout(cls, model: SentencePieceModel) -> dict[str, int]:
        return {**super()._layout(model), UNUSED_UNKNOWN: model.unknown + cls.shift}

    def _engine_scores(self) -> list[tuple[str, float]]:
        return [(token, DOWNGRADE if token == UNUSED_UNKNOWN else score) for token, score in super()._engine_scores()]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put pieces together to text; special tokens are text as they stand, with a space before the first."""
        return super(FairseqTokenizer, self).convert_tokens_to_string(tokens)


CamembertTokenizerFast = CamembertTokenizer
__all__ = ["CamembertTokenizer", "CamembertTokenizerFast"]
