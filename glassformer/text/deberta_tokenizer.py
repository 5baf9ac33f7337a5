"""The tokenizer of the first DeBERTa: GPT-2's bytes, with BERT's special tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TokenizerError
from ..json_fields import JsonFields, is_string
from .base.template import template_processing, template_with_segments
from .bpe.bpe import Pair
from .bpe.bpe_files import BpeFile
from .encoding import Slot
from .roberta_tokenizer import RobertaTokenizer
from .tokenizer import Token, shares_settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class DebertaTokenizer(RobertaTokenizer):
    """Text to ids as the first DeBERTa does it.

    >>> tokenizer = DebertaTokenizer.from_pretrained("./deberta-base/")      # doctest: +SKIP
    >>> tokenizer("Hello world")["input_ids"]                                # doctest: +SKIP
    [1, 31414, 232, 2]
    """

    model_input_names = ["input_ids", "attention_mask", "token_type_ids"]

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        merges_file: str | PathLike[str] | None = None,
        errors: str = "replace",  # what becomes of bytes that make no character, as for bytes.decode
        bos_token: Token | None = "[CLS]",
        eos_token: Token | None = "[SEP]",
        sep_token: Token | None = "[SEP]",
        cls_token: Token | None = "[CLS]",
        unk_token: Token | None = "[UNK]",
        pad_token: Token | None = "[PAD]",
        mask_token: Token | None = "[MASK]",
        add_prefix_space: bool | None = None,  # None: what tokenizer.json says, or False
        *,
        vocab: BpeFile | Mapping[str, int] | None = None,
        merges: Sequence[Pair] | None = None,
        **shared: Any,
    ) -> None:
        super().__init__(
            vocab_file,
            merges_file,
            errors,
            bos_token,
            eos_token,
            sep_token,
            cls_token,
            unk_token,
            pad_token,
            mask_token,
            add_prefix_space,
            trim_offsets=False,
            vocab=vocab,
            merges=merges,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with segment 1 from B on."""
        return template_with_segments(self, pair)

    @classmethod
    def _read_template(cls, parsed: JsonFields, path: Path) -> dict[str, Any]:
        kind = parsed.section("post_processor").read("type", is_string)
        if kind != "TemplateProcessing":
            raise TokenizerError(
                f"{path} puts special tokens around texts as {kind} says, a {cls.__name__} as TemplateProcessing does"
            )
        return {}

    def _finish_engine(self, engine: Tokenizer) -> None:
        super()._finish_engine(engine)
        engine.post_processor = template_processing(self)


DebertaTokenizerFast = DebertaTokenizer
__all__ = ["DebertaTokenizer", "DebertaTokenizerFast"]
