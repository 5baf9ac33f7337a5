"""GPT-2's tokenizer: byte-pair encoding of bytes, so that every text goes in and comes out as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TokenizerError
from ..json_fields import JsonFields, is_list, is_string
from .base.tokenizer_files import setting
from .bpe.bpe import Pair
from .bpe.bpe_files import BpeFile
from .bpe.byte_level_tokenizer import ByteLevelTokenizer
from .encoding import Slot
from .tokenizer import Token, shares_settings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "<|endoftext|>"


class GPT2Tokenizer(ByteLevelTokenizer):
    """Text to ids as GPT-2 does it.

    >>> tokenizer = GPT2Tokenizer("vocab.json", "merges.txt")       # doctest: +SKIP
    >>> tokenizer("Hello world")["input_ids"]                       # doctest: +SKIP
    [15496, 995]

    A word is another token with a space before it: `" Hello"` is 18435. There is no padding token; to pad, set
    `tokenizer.pad_token = tokenizer.eos_token`. `decode` takes out the spaces that English does not put before
    punctuation, as the original does; with `clean_up_tokenization_spaces=False`, here or when the tokenizer is made,
    it gives back the very text that was encoded.
    """

    add_bos_token = setting("add_bos_token")

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        merges_file: str | PathLike[str] | None = None,
        errors: str = "replace",  # what becomes of bytes that make no character, as for bytes.decode
        unk_token: Token | None = END,
        bos_token: Token | None = END,
        eos_token: Token | None = END,
        pad_token: Token | None = None,
        add_prefix_space: bool | None = None,  # None: what tokenizer.json says, or False
        add_bos_token: bool | None = None,  # None: what tokenizer.json says, or False
        *,
        vocab: BpeFile | Mapping[str, int] | None = None,
        merges: Sequence[Pair] | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, merges_file, vocab, merges)
        super().__init__(
            vocabulary,
            {
                "errors": errors,
                "add_prefix_space": vocabulary.resolve("add_prefix_space", add_prefix_space, False),
                "add_bos_token": vocabulary.resolve("add_bos_token", add_bos_token, False),
            },
            unk_token=unk_token,
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """The texts as they are, or each with the beginning-of-text token before it (`add_bos_token`)."""
        texts = [Slot(None, number, number) for number in range(1 + pair)]
        if not self.add_bos_token:
            return tuple(texts)
        if self.bos_token is None:
            raise TokenizerError("special tokens were requested (add_bos_token), but bos_token is None")
        bos = self.bos_token_id
        return tuple(slot for text in texts for slot in (Slot(bos, text.sequence, text.type_id), text))

    @classmethod
    def _read_template(cls, parsed: JsonFields, path: Path) -> dict[str, Any]:
        post_processor = parsed.section("post_processor")
        kind = post_processor.read("type", is_string)
        if not post_processor.values or kind == "ByteLevel":
            return {}
        steps = [each if isinstance(each, dict) else {} for each in post_processor.read("single", is_list, ())]
        shape = [next(iter(each), None) for each in steps]
        if shape not in (["Sequence"], ["SpecialToken", "Sequence"]):
            raise TokenizerError(
                f"{path} has a {kind} that a {cls.__name__} does not support; it knows only a beginning-of-text token"
            )
        return {"add_bos_token": len(shape) == 2}

    def _finish_engine(self, engine: Tokenizer) -> None:
        from tokenizers.processors import ByteLevel, TemplateProcessing

        super()._finish_engine(engine)
        engine.post_processor = ByteLevel(trim_offsets=False)
        if self.add_bos_token and self.bos_token is not None:
            bos = self.bos_token
            engine.post_processor = TemplateProcessing(
                single=[f"{bos}:0", "$A:0"],
                pair=[f"{bos}:0", "$A:0", f"{bos}:1", "$B:1"],
                special_tokens=[(bos, self.bos_token_id)],
            )


GPT2TokenizerFast = GPT2Tokenizer
__all__ = ["GPT2Tokenizer", "GPT2TokenizerFast"]
