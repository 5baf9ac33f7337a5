"""XLNet's tokenizer: SentencePiece, with the special tokens at the end and padding at the beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from .albert_tokenizer import PreparesText
from .base.special_tokens import AddedToken
from .base.template import cls_and_sep
from .encoding import Slot
from .sentencepiece.normalizer import SPACE
from .sentencepiece.sentencepiece_files import SentencePieceFile
from .tokenizer import Token, shares_settings

CLS_SEGMENT, PAD_SEGMENT = 2, 3


class XLNetTokenizer(PreparesText):
    """Text to ids as XLNet does it.

    >>> tokenizer = XLNetTokenizer.from_pretrained("./xlnet-base-cased/")   # doctest: +SKIP
    >>> tokenizer("Hello world")                                            # doctest: +SKIP
    {'input_ids': [17, 11368, 19, 4, 3], 'token_type_ids': [0, 0, 0, 0, 2], 'attention_mask': [1, 1, 1, 1, 1]}
    """

    pad_token_type_id = PAD_SEGMENT

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        do_lower_case: bool | None = None,  # None: what tokenizer.json says, or False
        remove_space: bool = True,
        keep_accents: bool | None = None,  # None: what tokenizer.json says, or False
        bos_token: Token | None = "<s>",
        eos_token: Token | None = "</s>",
        unk_token: Token = "<unk>",
        sep_token: Token | None = "<sep>",
        pad_token: Token | None = "<pad>",
        cls_token: Token | None = "<cls>",
        mask_token: Token | None = "<mask>",
        additional_special_tokens: Iterable[Token] = ("<eop>", "<eod>"),
        padding_side: str = "left",
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
                "do_lower_case": vocabulary.resolve("do_lower_case", do_lower_case, False),
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
            additional_special_tokens=additional_special_tokens,
            padding_side=padding_side,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`A <sep> <cls>`, or `A <sep> B <sep> <cls>`: B is segment 1, `<cls>` segment 2."""
        cls, sep = cls_and_sep(self)
        texts = [slot for number in range(1 + pair) for slot in (Slot(None, number, number), Slot(sep, number, number))]
        return (*texts, Slot(cls, int(pair), CLS_SEGMENT))

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put pieces together to text: a space where a word begins."""
        return "".join(tokens).replace(SPACE, " ").strip()


XLNetTokenizerFast = XLNetTokenizer
__all__ = ["XLNetTokenizer", "XLNetTokenizerFast"]
