"""The tokenizer of DeBERTa v2 and v3: SentencePiece with BERT's special tokens."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

from .base.special_tokens import AddedToken
from .base.template import template_with_segments
from .base.tokenizer_files import setting
from .encoding import Slot
from .engine.rust_engine import LowerCasing
from .sentencepiece.sentencepiece_files import EngineFile, SentencePieceFile
from .sentencepiece.sentencepiece_tokenizer import SentencePieceTokenizer
from .tokenizer import Token, shares_settings
from .wordpiece.wordpiece import is_punctuation, lower, lower_text

MASK = "[MASK]"


class DebertaV2Tokenizer(LowerCasing, SentencePieceTokenizer):
    """Text to ids as DeBERTa v2 and v3 do it.

    >>> tokenizer = DebertaV2Tokenizer.from_pretrained("./deberta-v3-base/")        # doctest: +SKIP
    >>> tokenizer.tokenize("Hello world")                                           # doctest: +SKIP
    ['▁Hello', '▁world']

    The mask is no piece of the model: where the files give it no id, it gets the first one behind the vocabulary.
    """

    vocab_files_names = {"vocab_file": "spm.model"}
    engine_steps = ("Lowercase", "Punctuation")

    do_lower_case = setting("do_lower_case")
    split_by_punct = setting("split_by_punct")

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        do_lower_case: bool | None = None,  # None: what tokenizer.json says, or False
        split_by_punct: bool | None = None,  # whether the model reads the parts between punctuation one by one
        bos_token: Token | None = "[CLS]",
        eos_token: Token | None = "[SEP]",
        unk_token: Token = "[UNK]",
        sep_token: Token | None = "[SEP]",
        pad_token: Token | None = "[PAD]",
        cls_token: Token | None = "[CLS]",
        mask_token: Token | None = MASK,
        *,
        vocab: SentencePieceFile | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, vocab)
        added = dict(vocabulary.added) | dict(shared.pop("added_tokens", None) or {})
        known = {AddedToken.read(each, special=False, where=vocabulary.name).content for each in added.values()}
        if mask_token is not None and str(mask_token) not in vocabulary.vocab and str(mask_token) not in known:
            added[max([*vocabulary.vocab.values(), *added]) + 1] = str(mask_token)
        super().__init__(
            vocabulary,
            {
                "do_lower_case": vocabulary.resolve("do_lower_case", do_lower_case, False),
                "split_by_punct": vocabulary.resolve("split_by_punct", split_by_punct, False),
            },
            bos_token=bos_token,
            eos_token=eos_token,
            unk_token=unk_token,
            sep_token=sep_token,
            pad_token=pad_token,
            cls_token=cls_token,
            mask_token=mask_token,
            added_tokens=added,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with segment 1 from B on."""
        return template_with_segments(self, pair)

    @property
    def _is_lower_casing(self) -> bool:
        return self.do_lower_case

    def _prepared(self, text: str) -> str:
        return lower_text(text) if self.do_lower_case else text

    def _prepared_with_origins(self, text: str) -> tuple[str, Sequence[int]]:
        return lower(text, range(len(text))) if self.do_lower_case else (text, range(len(text)))

    def _stretches(self, prepared: str) -> list[tuple[int, int]]:
        if not self.split_by_punct:
            return [(0, len(prepared))]
        stretches: list[tuple[int, int]] = []
        after_mark = True
        for place, char in enumerate(prepared):
            is_mark = is_punctuation(char)
            if is_mark or after_mark:
                stretches.append((place, place + 1))
            else:
                stretches[-1] = stretches[-1][0], place + 1
            after_mark = is_mark
        return stretches

    @classmethod
    def _settings_of_engine(cls, read: EngineFile) -> dict[str, Any]:
        return {"do_lower_case": "Lowercase" in read.steps, "split_by_punct": "Punctuation" in read.steps}

    def _engine_normalizers(self) -> list[Any]:
        from tokenizers import normalizers

        return [*([normalizers.Lowercase()] if self.do_lower_case else []), normalizers.Strip()]

    def _engine_splitters(self) -> list[Any]:
        from tokenizers import pre_tokenizers

        return [pre_tokenizers.Punctuation("isolated")] if self.split_by_punct else []


DebertaV2TokenizerFast = DebertaV2Tokenizer
__all__ = ["DebertaV2Tokenizer", "DebertaV2TokenizerFast"]
