"""BigBird's tokenizer: SentencePiece on text as it is, with BERT's special tokens."""

from __future__ import annotations

from os import PathLike
from typing import Any

from .base.special_tokens import AddedToken
from .base.template import template_with_segments
from .encoding import Slot
from .sentencepiece.sentencepiece_files import SentencePieceFile
from .sentencepiece.sentencepiece_tokenizer import SentencePieceTokenizer
from .tokenizer import Token, shares_settings


class BigBirdTokenizer(SentencePieceTokenizer):
    """Text to ids as BigBird does it.

    >>> tokenizer = BigBirdTokenizer.from_pretrained("./bigbird-roberta-base/")     # doctest: +SKIP
    >>> tokenizer("Paris is the [MASK] of France.")["input_ids"]                    # doctest: +SKIP
    [65, 5493, 419, 358, 67, 387, 4673, 126, 66]
    """

    model_input_names = ["input_ids", "attention_mask"]

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        unk_token: Token = "<unk>",
        bos_token: Token | None = "<s>",
        eos_token: Token | None = "</s>",
        pad_token: Token | None = "<pad>",
        sep_token: Token | None = "[SEP]",
        mask_token: Token | None = "[MASK]",
        cls_token: Token | None = "[CLS]",
        *,
        vocab: SentencePieceFile | None = None,
        **shared: Any,
    ) -> None:
        if isinstance(mask_token, str):
            mask_token = AddedToken(mask_token, lstrip=True)
        super().__init__(
            self._vocabulary(vocab_file, vocab),
            {},
            unk_token=unk_token,
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            sep_token=sep_token,
            mask_token=mask_token,
            cls_token=cls_token,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with segment 1 from B on."""
        return template_with_segments(self, pair)


BigBirdTokenizerFast = BigBirdTokenizer
__all__ = ["BigBirdTokenizer", "BigBirdTokenizerFast"]
