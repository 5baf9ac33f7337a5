"""Transformer-XL's tokenizer: whole words, cut by the rules of Moses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, TokenizerError, shown
from .base.settings import read_vocabulary
from .base.text_inputs import describe
from .base.tokenizer_files import VocabularyFile, setting
from .encoding import Details, Pieces, Slot
from .moses import cut_words, join_moses_words, normalize_punctuation, split_numbers
from .tokenizer import PreTrainedTokenizer, Token, shares_settings
from .transfo_xl_vocabulary import PICKLE, TEXT, TORCH, read_words

if TYPE_CHECKING:
    import torch

FORMULA, LINE_END = "<formula>", "<eos>"
SENTENCE = "<S>"  # around the sentences of the One Billion Word benchmark


class TransfoXLTokenizer(PreTrainedTokenizer):
    """Text to ids as Transformer-XL does it: a word of the vocabulary is one token, and any other is unknown.

    >>> tokenizer = TransfoXLTokenizer.from_pretrained("./transfo-xl-wt103/")   # doctest: +SKIP
    >>> tokenizer.tokenize("23,000 people are 1.80 m tall")                     # doctest: +SKIP
    ['23', '@,@', '000', 'people', 'are', '1', '@.@', '80', 'm', 'tall']
    """

    vocab_files_names = {"pretrained_vocab_file": PICKLE, "vocab_file": TEXT}
    model_input_names = ["input_ids"]
    is_fast = False

    lower_case = setting("lower_case")
    delimiter = setting("delimiter")
    never_split = setting("never_split")

    @shares_settings
    def __init__(
        self,
        special: Iterable[str] | None = None,
        min_freq: int = 0,
        max_size: int | None = None,
        lower_case: bool = False,
        delimiter: str | None = None,  # "": a text is cut into its characters
        vocab_file: str | PathLike[str] | None = None,
        pretrained_vocab_file: str | PathLike[str] | None = None,
        never_split: Iterable[str] | None = None,
        unk_token: Token | None = None,  # None: <unk>, or <UNK> if the vocabulary has only that
        eos_token: Token | None = LINE_END,
        additional_special_tokens: Iterable[Token] = (FORMULA,),
        language: str = "en",
        *,
        vocab: VocabularyFile | Mapping[str, int] | None = None,
        **shared: Any,
    ) -> None:
        if language != "en":
            raise TokenizerError(f"language must be 'en', the one whose rules are known; got {shown(language)}")
        if not isinstance(lower_case, bool):
            raise TokenizerError(f"lower_case must be true or false, got {shown(lower_case)}")
        if not isinstance(delimiter, str | None):
            raise TokenizerError(f"delimiter must be a string or None, got {shown(delimiter)}")
        vocabulary = self._vocabulary(vocab_file, pretrained_vocab_file, vocab)
        words = vocabulary.vocab
        if sorted(words.values()) != list(range(len(words))):
            raise TokenizerError(f"{vocabulary.name}: words must be numbered from 0 on, without gaps")
        if unk_token is None:
            unk_token = next((each for each in ("<unk>", "<UNK>") if each in words), None)
        if unk_token is None or str(unk_token) not in words:
            raise TokenizerError(f"{vocabulary.name} has no token for unknown words: <unk>, or the unk_token given")
        additional = [each for each in additional_special_tokens or () if str(each) != FORMULA or FORMULA in words]
        if str(eos_token) == LINE_END and LINE_END not in words:  # files name both, whether the vocabulary has them
            eos_token = None
        super().__init__(
            vocabulary,
            unk_token=unk_token,
            eos_token=eos_token,
            additional_special_tokens=additional,
            **shared,
        )
        kept = [str(each) for each in (self.all_special_tokens if never_split is None else never_split)]
        self._own_settings: dict[str, Any] = {
            "special": list(special or ()),
            "min_freq": min_freq,
            "max_size": max_size,
            "lower_case": lower_case,
            "delimiter": delimiter,
            "never_split": kept,
            "language": language,
        }

    @staticmethod
    def _vocabulary(
        text: str | PathLike[str] | None,
        pickle: str | PathLike[str] | None,
        given: VocabularyFile | Mapping[str, int] | None,
    ) -> VocabularyFile:
        """The vocabulary, in whichever way it was given; a list of words is preferred to a pickle."""
        if isinstance(given, VocabularyFile):
            return given
        if given is not None:
            return VocabularyFile(read_vocabulary(given, "the vocabulary"), "the vocabulary")
        path = next((Path(each) for each in (text, pickle) if each is not None), None)
        if path is None:
            raise TokenizerError(
                f"a TransfoXLTokenizer needs a vocabulary: the path of a {TEXT} or {PICKLE}, or vocab={{word: id}}"
            )
        return read_words(path)

    @classmethod
    def _from_files(cls, path: Path, settings: dict, kept: dict, name_or_path: str) -> TransfoXLTokenizer:
        named = [settings.pop(name, None) for name in ("vocab_file", "pretrained_vocab_file")]
        if path.is_file():
            found = path
        else:
            candidates = [*(Path(each) for each in named if each is not None), path / TEXT, path / PICKLE]
            found = next((each for each in candidates if each.is_file()), path)
        if found is path and path.is_dir():
            hint = f"; {TORCH} is not read: load and save it once with the library that wrote it"
            raise TokenizerError(
                f"{path} has neither {TEXT} nor {PICKLE}, so it holds no Transformer-XL tokenizer"
                + (hint if (path / TORCH).exists() else "")
            )
        return cls(vocab=read_words(found), **settings, kept_settings=kept, name_or_path=name_or_path)

    def _saved_settings(self) -> dict[str, Any]:
        return dict(self._own_settings)

    def _vocabulary_files(self) -> dict[str, str]:
        words = [self.ids_to_tokens[number] for number in range(len(self.vocab))]
        wrong = next((word for word in words if [word] != word.split()), None)
        if wrong is not None:
            raise TokenizerError(f"{TEXT} holds a word in each line, and cannot hold {wrong!r}")
        return {TEXT: "".join(f"{word}\n" for word in words)}

    # --- encoding ----------------------------------------------------------------------------------------------

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """The texts as they are."""
        return tuple(Slot(None, number, number) for number in range(1 + pair))

    def words(self, text: str) -> list[str]:
        """The words of a text, whether the vocabulary has them or not."""
        text = text.strip().lower() if self.lower_case else text.strip()
        if self.delimiter == "":
            return list(text)
        cut = cut_words(normalize_punctuation(text), self.never_split)
        return [part for word in cut for part in split_numbers(word)]

    def _encode_plain(self, texts: list[str], split_special_tokens: bool) -> list[Pieces]:
        unknown = self.vocab[str(self.unk_token)]
        found = []
        for text in texts:
            words = self.words(text)
            ids = [self.vocab.get(word, unknown) for word in words]

            def details(text: str = text, words: list[str] = words) -> Details:
                return places_of(words, text), list(range(len(words)))

            found.append(Pieces(ids, details, words))
        return found

    def tokenize(
        self,
        text: str,
        pair: str | None = None,
        add_special_tokens: bool = False,
        split_special_tokens: bool = False,
        add_eos: bool = False,
        add_double_eos: bool = False,
    ) -> list[str]:
        """The words of a text; with `add_eos` a line ends in `<eos>`, with `add_double_eos` it is between two `<S>`."""
        words = super().tokenize(text, pair, add_special_tokens, split_special_tokens)
        if add_double_eos:
            return [SENTENCE, *words, SENTENCE]
        return [*words, LINE_END] if add_eos else words

    def encode_file(
        self, path: str | PathLike[str], ordered: bool = False, add_eos: bool = True, add_double_eos: bool = False
    ) -> torch.Tensor | list[torch.Tensor]:
        """The ids of a file line by line, each line with its end; `ordered` puts them into one tensor."""
        import torch

        try:
            lines = Path(path).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError, TypeError) as error:
            raise InputError(f"encode_file reads a text file in UTF-8, got {describe(path)}: {error}") from None
        words = [self.tokenize(line, add_eos=add_eos, add_double_eos=add_double_eos) for line in lines]
        encoded = [torch.tensor(self.convert_tokens_to_ids(each)).long() for each in words]
        return torch.cat(encoded) if ordered and encoded else encoded

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put words together to a text, numbers and quotation marks included."""
        return join_moses_words(tokens)


def places_of(words: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Where words stand in a text; one whose characters were normalised stands between its neighbours.

    >>> places_of(["well", "@-@", "known"], "well-known")
    [(0, 4), (4, 5), (5, 10)]
    """
    places, end = [], 0
    for word in words:
        bare = word[1:-1] if len(word) == 3 and word[0] == word[2] == "@" else word
        start = text.find(bare, end, end + len(bare) + 8)
        if start < 0:
            start = end + len(text[end:]) - len(text[end:].lstrip())
        end = min(len(text), start + len(bare))
        places.append((start, end))
    return places


TransfoXLTokenizerFast = TransfoXLTokenizer
__all__ = ["TransfoXLTokenizer", "TransfoXLTokenizerFast"]
