"""BERT's tokenization as one can read it: text -> words -> word pieces, each with its place in the text.

This is the original algorithm, step by step. The Rust engine does the same for ordinary text and is faster; this one is
its oracle, explains itself, and takes over wherever the two would differ (see `engine_exceptions.py`).

Every character carries its *origin*, the position of the character of the original text it came from. Lower-casing and
decomposition may turn one character into several; they share one origin. So offsets never have to be guessed back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

NOT_SPACE = re.compile(r"\S+")  # the same white space that str.split() splits at
CHINESE = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def is_chinese(char: str) -> bool:
    """Whether BERT makes this character a word of its own: the ideograph blocks known in 2018."""
    point = ord(char)
    return point >= 0x3400 and any(first <= point <= last for first, last in CHINESE)


def is_removed(char: str) -> bool:
    """Whether cleaning drops this character: control and format characters, unassigned ones, U+FFFD."""
    if char in "\t\n\r":
        return False
    return char == "\ufffd" or unicodedata.category(char)[0] == "C"


def is_space(char: str) -> bool:
    """Whether cleaning turns this character into a plain space."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_punctuation(char: str) -> bool:
    """Whether words are cut around this character; ASCII symbols such as `$` and `^` count as well."""
    point = ord(char)
    if point < 128:
        return 33 <= point <= 47 or 58 <= point <= 64 or 91 <= point <= 96 or 123 <= point <= 126
    return unicodedata.category(char)[0] == "P"


@dataclass(frozen=True, slots=True)
class Word:
    """A run of characters that WordPiece cuts on its own."""

    text: str
    origins: Sequence[int]
    is_kept: bool = False  # never to be cut into pieces (`never_split`)

    @property
    def start(self) -> int:
        return self.origins[0]

    @property
    def end(self) -> int:
        return self.origins[-1] + 1


@dataclass(frozen=True, slots=True)
class Piece:
    """A token of the result, with its place in the original text."""

    token: str
    start: int
    end: int


def lower_text(text: str) -> str:
    """Lower-case character by character, without regard to what stands beside each.

    >>> lower_text("ΟΔΟΣ")
    'οδοσ'
    """
    return "".join([char.lower() for char in text]) if "Σ" in text else text.lower()


def lower(text: str, origins: Sequence[int]) -> tuple[str, Sequence[int]]:
    """Lower-case character by character, so that a final Greek sigma is written as any other.

    >>> lower("ΟΔΟΣ", range(4))[0]
    'οδοσ'
    """
    lowered = [char.lower() for char in text]
    joined = "".join(lowered)
    if len(joined) == len(text):
        return joined, origins
    return joined, [origin for part, origin in zip(lowered, origins, strict=True) for _ in part]


def strip_accents(text: str, origins: Sequence[int]) -> tuple[str, Sequence[int]]:
    """Decompose (NFD) and drop the combining marks, `é` -> `e`.

    Works character by character and then sorts each run of marks, which is what NFD is, but keeps the origins and stays
    fast on a run of a million marks.
    """
    if text.isascii():
        return text, origins
    kept: list[tuple[str, int]] = []
    marks: list[tuple[int, str, int]] = []
    for char, origin in zip(text, origins, strict=True):
        for part in unicodedata.normalize("NFD", char):
            order = unicodedata.combining(part)
            if order:
                marks.append((order, part, origin))
                continue
            if marks:
                kept.extend(sorted_marks(marks))
                marks = []
            if unicodedata.category(part) != "Mn":
                kept.append((part, origin))
    kept.extend(sorted_marks(marks))
    return "".join([char for char, _ in kept]), [origin for _, origin in kept]


def sorted_marks(marks: list[tuple[int, str, int]]) -> list[tuple[str, int]]:
    """The few combining characters that stay (spacing ones), in canonical order."""
    return [
        (char, origin)
        for _, char, origin in sorted(marks, key=lambda mark: mark[0])
        if unicodedata.category(char) != "Mn"
    ]


class BasicTokenizer:
    """Cuts text into words at white space, at punctuation and around every Chinese character."""

    def __init__(
        self,
        do_lower_case: bool = True,
        never_split: Collection[str] | None = None,
        tokenize_chinese_chars: bool = True,
        strip_accents: bool | None = None,
    ) -> None:
        self.do_lower_case = do_lower_case
        self.never_split = frozenset(never_split or ())
        self.tokenize_chinese_chars = tokenize_chinese_chars
        self.strip_accents = do_lower_case if strip_accents is None else strip_accents

    def tokenize(self, text: str, never_split: Collection[str] | None = None) -> list[str]:
        """The words of a text; those of `never_split` stay as they are.

        >>> BasicTokenizer().tokenize("Café, 北京 [MASK]!", never_split=["[MASK]"])
        ['cafe', ',', '北', '京', '[', 'mask', ']', '!']
        >>> BasicTokenizer().tokenize("Café, 北京 [MASK] !", never_split=["[MASK]"])
        ['cafe', ',', '北', '京', '[MASK]', '!']
        """
        kept = self.never_split.union(never_split or ())
        found: list[str] = []
        for word in NOT_SPACE.findall(self.clean(text, range(len(text)))[0]):
            if word not in kept:
                word = word.lower() if self.do_lower_case else word
                word = strip_accents(word, range(len(word)))[0] if self.strip_accents else word
            if word in kept:
                found.append(word)
            else:
                found += [part.text for part in self.cut_at_punctuation(word, range(len(word)))]
        return found

    def words_of_tokenizer(self, text: str) -> list[str]:
        """The words that a `BertTokenizer` makes of a text: it lower-cases first, see `words`."""
        origins: Sequence[int] = range(len(text))
        if self.do_lower_case:
            text, origins = lower(text, origins)
        return [word.text for word in self.words(text, origins)]

    def words(self, text: str, origins: Sequence[int], kept: Collection[str] = frozenset()) -> Iterator[Word]:
        """The words of a text that has been lower-cased already, if that is wanted.

        Lower-casing comes first, before special tokens are looked for: so a `never_split` word with capitals is never
        met by an uncased tokenizer. It is a trait of the original. Another: words in `kept`, the special tokens, are
        not cut at punctuation; they show up here when a character inside them has just been dropped.
        """
        text, origins = self.clean(text, origins)
        for found in NOT_SPACE.finditer(text):
            word, where = found.group(), origins[found.start() : found.end()]
            if self.strip_accents and word not in self.never_split and word not in kept:
                word, where = strip_accents(word, where)
            if word in self.never_split or word in kept:
                yield self.word(word, where)
            else:
                yield from self.cut_at_punctuation(word, where)

    def clean(self, text: str, origins: Sequence[int]) -> tuple[str, Sequence[int]]:
        """Drop control characters, make all white space plain, put spaces around Chinese characters."""
        if text.isascii() and text.isprintable():
            return text, origins
        chars: list[str] = []
        places: list[int] = []
        for char, origin in zip(text, origins, strict=True):
            if is_removed(char):
                continue
            if is_space(char):
                chars.append(" ")
            elif self.tokenize_chinese_chars and is_chinese(char):
                chars += (" ", char, " ")
                places += (origin, origin)
            else:
                chars.append(char)
            places.append(origin)
        return "".join(chars), places

    def cut_at_punctuation(self, word: str, origins: Sequence[int]) -> Iterator[Word]:
        """Make every punctuation character a word, and what stands between them."""
        start = 0
        for i, char in enumerate(word):
            if is_punctuation(char):
                if start < i:
                    yield self.word(word[start:i], origins[start:i])
                yield self.word(char, origins[i : i + 1])
                start = i + 1
        if start < len(word):
            yield self.word(word[start:], origins[start:])

    def word(self, text: str, origins: Sequence[int]) -> Word:
        return Word(text, origins, is_kept=text in self.never_split)


class WordpieceTokenizer:
    """Cuts a word into the longest pieces that the vocabulary has, from left to right."""

    def __init__(self, vocab: dict[str, int], unk_token: str, max_input_chars_per_word: int = 100) -> None:
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word

    def tokenize(self, text: str) -> list[str]:
        """The pieces of all words, which white space separates.

        >>> WordpieceTokenizer({"un": 0, "##aff": 1, "##able": 2}, unk_token="[UNK]").tokenize("unaffable able")
        ['un', '##aff', '##able', '[UNK]']
        """
        words = (Word(word, range(len(word))) for word in NOT_SPACE.findall(text))
        return [piece.token for word in words for piece in self.pieces(word)]

    def pieces(self, word: Word, attempts: list[tuple[str, bool]] | None = None) -> list[Piece]:
        """The pieces of a word, or the unknown token if some part of it cannot be matched.

        Each candidate that is tried is written into `attempts`, if a list is given, with whether it was found.
        """
        unknown = [Piece(self.unk_token, word.start, word.end)]
        if word.is_kept:
            return [Piece(word.text, word.start, word.end)]
        if len(word.text) > self.max_input_chars_per_word:
            return unknown
        pieces: list[Piece] = []
        start = 0
        while start < len(word.text):
            for end in range(len(word.text), start, -1):
                candidate = word.text[start:end] if start == 0 else "##" + word.text[start:end]
                found = candidate in self.vocab
                if attempts is not None:
                    attempts.append((candidate, found))
                if found:
                    break
            else:
                return unknown
            pieces.append(Piece(candidate, word.origins[start], word.origins[end - 1] + 1))
            start = end
        return pieces
