"""The tokenizer of the Funnel Transformer: BERT's, with other special tokens and a segment of its own for the first."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any

from .base.tokenizer_files import VocabularyFile
from .bert_tokenizer import BertTokenizer
from .encoding import Slot
from .tokenizer import Token, shares_settings

CLS_SEGMENT = 2


class FunnelTokenizer(BertTokenizer):
    """Text to ids as the Funnel Transformer does it: `<cls>` is segment 2.

    >>> tokenizer = FunnelTokenizer.from_pretrained("./funnel-small/")      # doctest: +SKIP
    >>> tokenizer("so good")["token_type_ids"]                              # doctest: +SKIP
    [2, 0, 0, 0]
    """

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        do_lower_case: bool | None = None,  # None: what tokenizer.json says, or True
        do_basic_tokenize: bool = True,
        never_split: Collection[str] | None = None,
        unk_token: Token = "<unk>",
        sep_token: Token | None = "<sep>",
        pad_token: Token | None = "<pad>",
        cls_token: Token | None = "<cls>",
        mask_token: Token | None = "<mask>",
        bos_token: Token | None = "<s>",
        eos_token: Token | None = "</s>",
        tokenize_chinese_chars: bool | None = None,  # None: what tokenizer.json says, or True
        strip_accents: bool | None = None,  # None: as do_lower_case
        *,
        vocab: VocabularyFile | Mapping[str, int] | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(
            vocab_file,
            do_lower_case,
            do_basic_tokenize,
            never_split,
            unk_token=unk_token,
            sep_token=sep_token,
            pad_token=pad_token,
            cls_token=cls_token,
            mask_token=mask_token,
            bos_token=bos_token,
            eos_token=eos_token,
            tokenize_chinese_chars=tokenize_chinese_chars,
            strip_accents=strip_accents,
            vocab=vocab,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`<cls> A <sep>`, or `<cls> A <sep> B <sep>` with segment 1 from B on; `<cls>` is segment 2."""
        first, *others = super().template(pair)
        return first if first.token_id is None else first._replace(type_id=CLS_SEGMENT), *others


FunnelTokenizerFast = FunnelTokenizer
__all__ = ["FunnelTokenizer", "FunnelTokenizerFast"]
