"""RoBERTa's tokenizer: GPT-2's bytes, with special tokens around the texts and a mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TokenizerError
from ..json_fields import JsonFields, is_boolean, is_string
from .base.special_tokens import AddedToken
from .base.template import template_with_two_separators
from .base.tokenizer_files import setting
from .bpe.bpe import SYMBOLS, Pair
from .bpe.bpe_files import BpeFile
from .bpe.byte_level_tokenizer import ByteLevelTokenizer
from .encoding import Offsets, Pieces, Slot
from .tokenizer import Token, shares_settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPACE = SYMBOLS[0x20]


class RobertaTokenizer(ByteLevelTokenizer):
    """Text to ids as RoBERTa does it.

    >>> tokenizer = RobertaTokenizer.from_pretrained("./roberta-base/")      # doctest: +SKIP
    >>> tokenizer("Hello <mask> world")["input_ids"]                         # doctest: +SKIP
    [0, 31414, 50264, 232, 2]

    The mask stands for a word together with the space before it, so it takes that space away.
    """

    trim_offsets = setting("trim_offsets")

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        merges_file: str | PathLike[str] | None = None,
        errors: str = "replace",  # what becomes of bytes that make no character, as for bytes.decode
        bos_token: Token | None = "<s>",
        eos_token: Token | None = "</s>",
        sep_token: Token | None = "</s>",
        cls_token: Token | None = "<s>",
        unk_token: Token | None = "<unk>",
        pad_token: Token | None = "<pad>",
        mask_token: Token | None = "<mask>",
        add_prefix_space: bool | None = None,  # None: what tokenizer.json says, or False
        trim_offsets: bool | None = None,  # whether offsets leave out the space before a word; None: as the file says
        *,
        vocab: BpeFile | Mapping[str, int] | None = None,
        merges: Sequence[Pair] | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, merges_file, vocab, merges)
        if isinstance(mask_token, str):
            mask_token = AddedToken(mask_token, lstrip=True)
        super().__init__(
            vocabulary,
            {
                "errors": errors,
                "add_prefix_space": vocabulary.resolve("add_prefix_space", add_prefix_space, False),
                "trim_offsets": vocabulary.resolve("trim_offsets", trim_offsets, True),
            },
            bos_token=bos_token,
            eos_token=eos_token,
            sep_token=sep_token,
            cls_token=cls_token,
            unk_token=unk_token,
            pad_token=pad_token,
            mask_token=mask_token,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`<s> A </s>`, or `<s> A </s></s> B </s>`; there are no segments."""
        return template_with_two_separators(self, pair)

    def _with_prefix_space(self, text: str) -> str:
        return text if not text or text[0].isspace() else " " + text

    def _with_original_offsets(self, pieces: Pieces, length: int, added: int) -> Pieces:
        pieces = super()._with_original_offsets(pieces, length, added)
        if not self.trim_offsets:
            return pieces
        return Pieces(pieces.ids, lambda: (self._trimmed(pieces, added), pieces.words), pieces.tokens)

    def _trimmed(self, pieces: Pieces, added: int) -> Offsets:
        """Offsets without the spaces at the borders of a token, unless it is one that was put there."""
        trimmed: Offsets = []
        for index, (start, end) in zip(pieces.ids, pieces.offsets, strict=True):
            token = self.ids_to_tokens[index]
            if token[0] == SPACE or token[-1] == SPACE:
                leading = len(token) - len(token.lstrip(SPACE)) - (start == 0 and bool(added or self.add_prefix_space))
                trailing = len(token) - len(token.rstrip(SPACE))
                start = min(start + max(leading, 0), end)
                end = max(end - trailing, start) if end >= trailing else end
            trimmed.append((start, end))
        return trimmed

    @classmethod
    def _read_template(cls, parsed: JsonFields, path: Path) -> dict[str, Any]:
        post_processor = parsed.section("post_processor")
        kind = post_processor.read("type", is_string)
        if kind != "RobertaProcessing":
            raise TokenizerError(
                f"{path} puts special tokens around texts as {kind} says, a {cls.__name__} as RobertaProcessing does"
            )
        return {"trim_offsets": post_processor.read("trim_offsets", is_boolean)}

    def _finish_engine(self, engine: Tokenizer) -> None:
        from tokenizers.processors import RobertaProcessing

        super()._finish_engine(engine)
        if self.cls_token is not None and self.sep_token is not None:
            engine.post_processor = RobertaProcessing(
                (self.sep_token, self.sep_token_id),
                (self.cls_token, self.cls_token_id),
                trim_offsets=self.trim_offsets,
                add_prefix_space=self.add_prefix_space,
            )


RobertaTokenizerFast = RobertaTokenizer
# Models whose tokenizer is the same under a name of their own.
BartTokenizer = BartTokenizerFast = RobertaTokenizer
LEDTokenizer = LEDTokenizerFast = RobertaTokenizer
LongformerTokenizer = LongformerTokenizerFast = RobertaTokenizer
__all__ = [
    "BartTokenizer",
    "BartTokenizerFast",
    "LEDTokenizer",
    "LEDTokenizerFast",
    "LongformerTokenizer",
    "LongformerTokenizerFast",
    "RobertaTokenizer",
    "RobertaTokenizerFast",
]
