"""The tokenizer of the first GPT: words as BERT cuts them, lower-cased, then byte-pair encoding of their letters.

The published code repaired texts with ftfy and cut them with spaCy; without these two it cuts them as BERT does, and
that is the tokenizer one meets in practice and the one written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TokenizerError
from ..json_fields import is_boolean, is_string
from .bpe.bpe import Pair
from .bpe.bpe_files import BpeFile, engine_for, read_engine_file
from .bpe.bpe_tokenizer import BpeTokenizer
from .encoding import Slot
from .engine.engine_exceptions import engine_may_differ
from .engine.rust_engine import LowerCasing
from .tokenizer import Token, shares_settings
from .wordpiece.wordpiece import BasicTokenizer, lower

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class OpenAIGPTTokenizer(LowerCasing, BpeTokenizer):
    """Text to ids as the first GPT does it.

    >>> tokenizer = OpenAIGPTTokenizer.from_pretrained("./openai-gpt/")      # doctest: +SKIP
    >>> tokenizer.tokenize("Bachelorettes!")                                 # doctest: +SKIP
    ['bachel', 'ore', 'ttes</w>', '!</w>']
    """

    other_file_names = (("encoder_bpe_40000.json", "vocab_40000.bpe"),)  # as OpenAI published them
    end_of_word = "</w>"
    do_lower_case = True

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        merges_file: str | PathLike[str] | None = None,
        unk_token: Token = "<unk>",
        *,
        vocab: BpeFile | Mapping[str, int] | None = None,
        merges: Sequence[Pair] | None = None,
        **shared: Any,
    ) -> None:
        if unk_token is None:
            raise TokenizerError("an OpenAIGPTTokenizer needs an unk_token, got None")
        self.basic_tokenizer = BasicTokenizer(do_lower_case=True)
        super().__init__(
            self._vocabulary(vocab_file, merges_file, vocab, merges),
            unk_token=unk_token,
            **shared,
        )

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """The texts as they are."""
        return tuple(Slot(None, number, number) for number in range(1 + pair))

    def _set_special(self, name: str, value: Any) -> None:
        if name == "unk_token" and value is None:
            raise TokenizerError("an OpenAIGPTTokenizer needs an unk_token, got None")
        super()._set_special(name, value)

    def _engine_agrees(self, text: str, split_special_tokens: bool) -> bool:
        return self._fits_engine and not engine_may_differ(text)

    def _parts(self, text: str) -> list[tuple[Sequence[str], Sequence[int]]]:
        words = self.basic_tokenizer.words(*lower(text, range(len(text))))
        return [([*word.text[:-1], word.text[-1] + self.end_of_word], word.origins) for word in words]

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put pieces together: a space where a word ends."""
        return "".join(tokens).replace(self.end_of_word, " ").strip()

    @classmethod
    def _read_engine(cls, path: Path) -> BpeFile:
        read, parsed = read_engine_file(path, suffix=cls.end_of_word)
        normalizer, splitter = parsed.section("normalizer"), parsed.section("pre_tokenizer").read("type", is_string)
        kind, lowercase = normalizer.read("type", is_string), normalizer.read("lowercase", is_boolean)
        if kind != "BertNormalizer" or not lowercase or splitter != "BertPreTokenizer":
            raise TokenizerError(
                f"{path} uses {kind} and {splitter}; an {cls.__name__} does what BertNormalizer (with "
                "lowercase) and BertPreTokenizer describe"
            )
        return read

    def _build_engine(self) -> Tokenizer:
        from tokenizers.normalizers import BertNormalizer
        from tokenizers.pre_tokenizers import BertPreTokenizer

        engine = engine_for(self)
        engine.normalizer = BertNormalizer(lowercase=True)
        engine.pre_tokenizer = BertPreTokenizer()
        return engine

    def _finish_engine(self, engine: Tokenizer) -> None:
        from tokenizers.decoders import BPEDecoder

        engine.decoder = BPEDecoder(suffix=self.end_of_word)

    def _saved_settings(self) -> dict[str, Any]:
        return {}


OpenAIGPTTokenizerFast = OpenAIGPTTokenizer
__all__ = ["OpenAIGPTTokenizer", "OpenAIGPTTokenizerFast"]
