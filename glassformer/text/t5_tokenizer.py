"""T5's tokenizer: SentencePiece, with sentinels that stand for the spans which its pre-training leaves out."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

from ..errors import TokenizerError
from .base.encoding_options import Options
from .base.tokenizer_files import setting
from .encoding import BatchEncoding, Pieces, Slot
from .sentencepiece.model_file import Piece, SentencePieceModel
from .sentencepiece.sentencepiece_files import EngineFile, SentencePieceFile
from .sentencepiece.sentencepiece_tokenizer import SentencePieceTokenizer
from .tokenizer import Token, shares_settings

SENTINEL = re.compile(r"<extra_id_(\d+)>")


class T5Tokenizer(SentencePieceTokenizer):
    """Text to ids as T5 does it.

    >>> tokenizer = T5Tokenizer.from_pretrained("./t5-small/")              # doctest: +SKIP
    >>> tokenizer("The <extra_id_0> walks")["input_ids"]                    # doctest: +SKIP
    [37, 32099, 10681, 7, 1]

    `legacy` puts a space before every stretch of text between special tokens, as T5 was trained; without it only the
    first one gets a space.
    """

    model_input_names = ["input_ids", "attention_mask"]

    extra_ids = setting("extra_ids")
    legacy = setting("legacy")

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        eos_token: Token | None = "</s>",
        unk_token: Token = "<unk>",
        pad_token: Token | None = "<pad>",
        extra_ids: int | None = None,  # how many sentinels; None: as many as the vocabulary has, or 100
        additional_special_tokens: Iterable[Token] | None = None,  # None: the sentinels
        legacy: bool | None = None,  # None: what tokenizer.json says, or True
        *,
        vocab: SentencePieceFile | SentencePieceModel | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, vocab)
        extra_ids = vocabulary.resolve("extra_ids", extra_ids, 100)
        additional = None if additional_special_tokens is None else list(additional_special_tokens)
        if additional is None:
            additional = [sentinel(number) for number in range(extra_ids)]
        named = len({str(token) for token in additional if "extra_id" in str(token)})
        if extra_ids and named != extra_ids:
            raise TokenizerError(
                f"additional_special_tokens must have all {extra_ids} sentinels (extra_ids), they have {named}; leave "
                "them out of the call, or pass extra_ids=0"
            )
        last = len(vocabulary.vocab) + extra_ids - 1
        sentinels = {sentinel(number): last - number for number in reversed(range(extra_ids))}
        super().__init__(
            dataclasses.replace(vocabulary, vocab=vocabulary.vocab | sentinels),
            {"extra_ids": extra_ids, "legacy": vocabulary.resolve("legacy", legacy, True)},
            eos_token=eos_token,
            unk_token=unk_token,
            pad_token=pad_token,
            additional_special_tokens=additional,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`A </s>`, or `A </s> B </s>`; there are no segments. Without such a token, the texts as they are."""
        if self.eos_token is None:
            return tuple(Slot(None, number, 0) for number in range(1 + pair))
        eos = self.eos_token_id
        return tuple(slot for number in range(1 + pair) for slot in (Slot(None, number, 0), Slot(eos, number, 0)))

    def get_sentinel_tokens(self) -> list[str]:
        """The sentinels, `<extra_id_0>` first."""
        return [token for token in self.additional_special_tokens if SENTINEL.search(token)]

    def get_sentinel_token_ids(self) -> list[int]:
        return self.convert_tokens_to_ids(self.get_sentinel_tokens())

    # A text that ends with </s> already gets no second one.

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """Ids of one text or two, each with `</s>` behind it if it does not end so already."""
        texts = [text if text is None else self._without_end(Pieces(text)).ids for text in (token_ids_0, token_ids_1)]
        return super().build_inputs_with_special_tokens(texts[0] or [], texts[1])

    def _encode(
        self,
        firsts: list[Pieces],
        seconds: list[Pieces] | None,
        options: Options,
        single: bool,
        batch_axis: bool = True,
    ) -> BatchEncoding:
        if options.add_special_tokens:
            firsts = [self._without_end(text) for text in firsts]
            seconds = seconds and [self._without_end(text) for text in seconds]
        return super()._encode(firsts, seconds, options, single, batch_axis)

    def _without_end(self, text: Pieces) -> Pieces:
        if self.eos_token is None or text.ids[-1:] != [self.eos_token_id]:
            return text
        self._warn_once(f"a text ends with {self.eos_token} already; no second one is put behind it")
        return Pieces(
            text.ids[:-1],
            lambda: (text.offsets[:-1], text.words[:-1]),
            None if text.tokens is None else text.tokens[:-1],
        )

    # --- the spaces before texts, and files --------------------------------------------------------------------

    @property
    def _prepend_scheme(self) -> str:  # type: ignore[override]
        return "always" if self.legacy else "first"

    def _gets_prefix(self, start: int) -> bool:
        return self.legacy or start == 0

    @classmethod
    def _pieces_of_engine(cls, pieces: Sequence[Piece], where: str) -> Sequence[Piece]:
        end = len(pieces)
        while end and SENTINEL.fullmatch(pieces[end - 1].text):
            end -= 1
        return pieces[:end]

    @classmethod
    def _settings_of_engine(cls, read: EngineFile) -> dict[str, Any]:
        sentinels = len(read.model.pieces) - len(cls._pieces_of_engine(read.model.pieces, ""))
        return {"extra_ids": sentinels, "legacy": read.prepend_scheme == "always"}


def sentinel(number: int) -> str:
    return f"<extra_id_{number}>"


T5TokenizerFast = T5Tokenizer
# A model whose tokenizer is the same under a name of its own.
MT5Tokenizer = MT5TokenizerFast = T5Tokenizer
__all__ = ["MT5Tokenizer", "MT5TokenizerFast", "T5Tokenizer", "T5TokenizerFast"]
