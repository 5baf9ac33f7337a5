"""BERT's tokenizer: basic tokenization, then WordPiece.

The Rust engine does the work; texts for which it would differ from the original use the readable algorithm in
`wordpiece/wordpiece.py`, which gives the same kind of result more slowly.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TokenizerError
from .base.settings import read_vocabulary as read_ids
from .base.special_tokens import any_of
from .base.template import template_with_segments
from .base.tokenizer_files import ENGINE, VocabularyFile, setting
from .base.windows import template_without_special_tokens
from .encoding import Pieces, Slot
from .engine.engine_exceptions import engine_may_differ
from .engine.rust_engine import EngineWithFallback, LowerCasing
from .tokenizer import PreTrainedTokenizer, Token, shares_settings
from .wordpiece.spacing import join_word_pieces
from .wordpiece.wordpiece import NOT_SPACE, BasicTokenizer, Word, WordpieceTokenizer, lower
from .wordpiece.wordpiece_files import engine_for, engine_text, read_vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from .explanation.explain_wordpiece import Explanation


class BertTokenizer(LowerCasing, EngineWithFallback, PreTrainedTokenizer):
    """Text to ids as BERT does it.

    >>> tokenizer = BertTokenizer("vocab.txt")                      # doctest: +SKIP
    >>> tokenizer.tokenize("unaffable!")                            # doctest: +SKIP
    ['una', '##ffa', '##ble', '!']
    """

    vocab_files_names = {"vocab_file": "vocab.txt"}

    do_lower_case = setting("do_lower_case")
    do_basic_tokenize = setting("do_basic_tokenize")
    never_split = setting("never_split")
    tokenize_chinese_chars = setting("tokenize_chinese_chars")
    strip_accents = setting("strip_accents")
    max_input_chars_per_word = setting("max_input_chars_per_word")

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        do_lower_case: bool | None = None,  # None: what tokenizer.json says, or True
        do_basic_tokenize: bool = True,
        never_split: Collection[str] | None = None,
        unk_token: Token = "[UNK]",
        sep_token: Token | None = "[SEP]",
        pad_token: Token | None = "[PAD]",
        cls_token: Token | None = "[CLS]",
        mask_token: Token | None = "[MASK]",
        tokenize_chinese_chars: bool | None = None,  # None: what tokenizer.json says, or True
        strip_accents: bool | None = None,  # None: as do_lower_case
        max_input_chars_per_word: int | None = None,  # a longer word is unknown; None: what tokenizer.json says, or 100
        *,
        vocab: VocabularyFile | Mapping[str, int] | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, vocab)
        if unk_token is None:
            raise TokenizerError("a BertTokenizer needs an unk_token, got None")
        resolve = vocabulary.resolve
        self._own_settings = {
            "do_lower_case": resolve("do_lower_case", do_lower_case, True),
            "do_basic_tokenize": do_basic_tokenize,
            "never_split": list(never_split or ()),
            "tokenize_chinese_chars": resolve("tokenize_chinese_chars", tokenize_chinese_chars, True),
            "strip_accents": resolve("strip_accents", strip_accents),
            "max_input_chars_per_word": resolve("max_input_chars_per_word", max_input_chars_per_word, 100),
        }
        self.basic_tokenizer = BasicTokenizer(
            self.do_lower_case, self.never_split, self.tokenize_chinese_chars, self.strip_accents
        )
        super().__init__(
            vocabulary,
            unk_token=unk_token,
            sep_token=sep_token,
            pad_token=pad_token,
            cls_token=cls_token,
            mask_token=mask_token,
            **shared,
        )

    @staticmethod
    def _vocabulary(
        vocab_file: str | PathLike[str] | None, vocab: VocabularyFile | Mapping[str, int] | None
    ) -> VocabularyFile:
        """The vocabulary, in whichever way it was given."""
        if vocab_file is not None and vocab is None:
            return read_vocabulary(Path(vocab_file))
        if vocab is None or vocab_file is not None:
            raise TokenizerError("a BertTokenizer needs a vocabulary: the path of a vocab.txt, or vocab={token: id}")
        return (
            vocab
            if isinstance(vocab, VocabularyFile)
            else VocabularyFile(read_ids(vocab, "the vocabulary"), "the vocabulary")
        )

    @classmethod
    def _from_files(cls, path: Path, settings: dict, kept: dict, name_or_path: str) -> BertTokenizer:
        if path.is_file():
            return cls(vocab=read_vocabulary(path), **settings, kept_settings=kept, name_or_path=name_or_path)
        given = settings.pop("vocab_file", None)
        text, engine = Path(given) if given else path / "vocab.txt", path / ENGINE
        if not text.is_file() and not engine.is_file():
            raise TokenizerError(f"{path} has neither vocab.txt nor tokenizer.json, so it holds no BERT tokenizer")
        vocab = read_vocabulary(text if text.is_file() else engine)
        if text.is_file() and engine.is_file():
            other = read_vocabulary(engine)
            if other.vocab != vocab.vocab:
                warnings.warn(f"{text} and {engine.name} hold different vocabularies; the former is used", stacklevel=4)
            vocab = VocabularyFile(vocab.vocab, vocab.name, other.added, other.settings)
        return cls(vocab=vocab, **settings, kept_settings=kept, name_or_path=name_or_path)

    # --- special tokens ----------------------------------------------------------------------------------------

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """`[CLS] A [SEP]`, or `[CLS] A [SEP] B [SEP]` with segment 1 from B on; bare texts without such tokens."""
        if self.cls_token is None and self.sep_token is None:
            return template_without_special_tokens(2 if pair else 1)
        return template_with_segments(self, pair)

    def _set_special(self, name: str, value: Any) -> None:
        if name == "unk_token" and value is None:
            raise TokenizerError("a BertTokenizer needs an unk_token, got None")
        super()._set_special(name, value)

    @property
    def _is_lower_casing(self) -> bool:
        return self.do_lower_case and self.do_basic_tokenize

    def _compile_token_patterns(self) -> None:
        super()._compile_token_patterns()
        names = [token.content if token.is_exact else token.content.lower() for token in self._added_tokens.values()]
        # Special tokens that could still come to light when characters are dropped from a text, "[MA\\u200dSK]".
        hidden = (
            [name for name in names if not self._is_lower_casing or name == name.lower()]
            if self.do_basic_tokenize
            else []
        )
        self._hidden_pattern = any_of(hidden, re.IGNORECASE)
        self._hidden_starts = {start for name in hidden for start in (name[0].lower(), name[0].upper())}
        self._special_words = frozenset(self.all_special_tokens)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab, self.unk_token, self.max_input_chars_per_word)
        if "_engine" in self.__dict__ and self._engine.model.unk_token != self.unk_token:
            del self._engine

    # --- the engine and its fallback ---------------------------------------------------------------------------

    def _build_engine(self) -> Tokenizer:
        return engine_for(self, {self.unk_token: self.unk_token_id, **self.vocab})  # it may be an added token

    def _engine_agrees(self, text: str, split_special_tokens: bool) -> bool:
        if self.never_split or not self.do_basic_tokenize or engine_may_differ(text):
            return False
        if split_special_tokens or self._hidden_pattern is None or (text.isascii() and text.isprintable()):
            return True
        if self._hidden_starts.isdisjoint(text):
            return True
        if self.basic_tokenizer.strip_accents and not text.isascii():
            return False
        return not self._hidden_pattern.search("".join([char for char in text if char.isprintable()]))

    def _reference_pieces(self, text: str, split_special_tokens: bool) -> Pieces:
        if not self.do_basic_tokenize:
            words = NOT_SPACE.findall(text)
            longest = self.max_input_chars_per_word
            if all(word in self.vocab and len(word) <= longest for word in words):  # nothing to cut
                return Pieces(
                    [self.vocab[word] for word in words], lambda: self._cut_words(text, split_special_tokens).details()
                )
        return self._cut_words(text, split_special_tokens)

    def _cut_words(self, text: str, split_special_tokens: bool) -> Pieces:
        tokens: list[str] = []
        offsets: list[tuple[int, int]] = []
        words: list[int] = []
        for number, word in enumerate(self._words(text, split_special_tokens)):
            for piece in self.wordpiece_tokenizer.pieces(word):
                tokens.append(piece.token)
                offsets.append((piece.start, piece.end))
                words.append(number)
        unknown = self.unk_token_id
        return Pieces([self.vocab.get(token, unknown) for token in tokens], (offsets, words), tokens)

    def _words(self, text: str, split_special_tokens: bool = False) -> Iterable[Word]:
        """What WordPiece gets to cut."""
        origins: Sequence[int] = range(len(text))
        if not self.do_basic_tokenize:
            return [Word(m.group(), origins[m.start() : m.end()]) for m in NOT_SPACE.finditer(text)]
        if self.do_lower_case:
            text, origins = lower(text, origins)
        kept = frozenset() if split_special_tokens else self._special_words
        return self.basic_tokenizer.words(text, origins, kept)

    def explain(self, text: str) -> Explanation:
        """How a text becomes ids, step by step: print it, or read its fields."""
        from .explanation.explain_wordpiece import explain_bert

        return explain_bert(self, text)

    # --- back to text, and to files ----------------------------------------------------------------------------

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put pieces together to words, and words to text; no spaces between Chinese characters."""
        return join_word_pieces(tokens, self._special_words)

    def _saved_settings(self) -> dict[str, Any]:
        return {
            "do_lower_case": self.do_lower_case,
            "do_basic_tokenize": self.do_basic_tokenize,
            "never_split": self.never_split or None,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
            "strip_accents": self.strip_accents,
            **(
                {}
                if self.max_input_chars_per_word == 100
                else {"max_input_chars_per_word": self.max_input_chars_per_word}
            ),
        }

    def _vocabulary_files(self) -> dict[str, str]:
        # A line that was lost because its token came again later is filled with the last token: read again, the last
        # one wins, and every id stays in its place.
        names = {index: token for token, index in self.vocab.items()}
        last = max(names)
        lines = [names.get(index, names[last]) for index in range(last + 1)]
        return {"vocab.txt": "\n".join(lines) + "\n", ENGINE: engine_text(self)}

    @classmethod
    def train(cls, files: Any, **settings: Any) -> BertTokenizer:
        """Make a new vocabulary from text files or an iterator of strings; see `train_vocabulary`."""
        from .training.vocabulary_training import train_bert

        return train_bert(cls, files, **settings)


BertTokenizerFast = BertTokenizer
# Models whose tokenizer is the same under a name of their own.
ElectraTokenizer = ElectraTokenizerFast = BertTokenizer
ConvBertTokenizer = ConvBertTokenizerFast = BertTokenizer
LayoutLMTokenizer = LayoutLMTokenizerFast = BertTokenizer
LxmertTokenizer = LxmertTokenizerFast = BertTokenizer
MobileBertTokenizer = MobileBertTokenizerFast = BertTokenizer
SqueezeBertTokenizer = SqueezeBertTokenizerFast = BertTokenizer
__all__ = [
    "BertTokenizer",
    "BertTokenizerFast",
    "ConvBertTokenizer",
    "ConvBertTokenizerFast",
    "ElectraTokenizer",
    "ElectraTokenizerFast",
    "LayoutLMTokenizer",
    "LayoutLMTokenizerFast",
    "LxmertTokenizer",
    "LxmertTokenizerFast",
    "MobileBertTokenizer",
    "MobileBertTokenizerFast",
    "SqueezeBertTokenizer",
    "SqueezeBertTokenizerFast",
]
