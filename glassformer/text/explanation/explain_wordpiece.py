"""How a text becomes ids, step by step, to print or to inspect.

Computed by the readable algorithm, and compared with the ids that the tokenizer itself gives.
"""

from __future__ import annotations

import textwrap
import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InputError, TokenizerError
from ..base.text_inputs import describe
from ..wordpiece.wordpiece import Word, is_chinese, is_punctuation, is_removed

if TYPE_CHECKING:
    from ..bert_tokenizer import BertTokenizer
    from ..tokenizer import PreTrainedTokenizer
    from .explain_bpe import PartSteps
    from .explain_sentencepiece import ModelSteps

WIDTH = 80


@dataclass(frozen=True, slots=True)
class Attempt:
    """A candidate that was looked up in the vocabulary."""

    candidate: str
    found: bool


@dataclass(frozen=True, slots=True)
class WordSteps:
    """One word: its place, the changes of basic tokenization, and its pieces."""

    source: str  # as the text has it
    word: str  # as WordPiece gets it
    start: int
    end: int
    changes: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]
    note: str = ""

    def lines(self) -> list[str]:
        """The word in lines of a report."""
        return report(self)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the text between special tokens, or a special token."""

    text: str
    start: int
    end: int
    special_id: int | None
    words: tuple[WordSteps | PartSteps | ModelSteps, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """All steps from a text to its tokens and ids, without the special tokens that are put around it."""

    text: str
    stretches: tuple[Stretch, ...]
    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    offsets: tuple[tuple[int, int], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and dictionaries, for JSON."""
        return to_plain_data(asdict(self))

    def __str__(self) -> str:
        lines = [f"text     {quote(self.text)}"]
        if len(self.stretches) > 1 or any(part.special_id is not None for part in self.stretches):
            parts = " | ".join(quote(part.text) for part in self.stretches)
            lines += wrap_lines("split    ", parts)
        for part in self.stretches:
            if part.special_id is not None:
                lines.append(f"special  {part.text} -> {part.special_id}")
            for word in part.words:
                lines += word.lines()
        lines += wrap_lines("tokens   ", " ".join(map(printable, self.tokens)) or "(none)")
        lines += wrap_lines("ids      ", " ".join(map(str, self.ids)) or "(none)")
        lines += wrap_lines("offsets  ", " ".join(f"{a}-{b}" for a, b in self.offsets) or "(none)")
        return "\n".join(lines)


def explain_bert(tokenizer: BertTokenizer, text: str) -> Explanation:
    """Explain BERT's tokenization of a text."""
    refuse_other_than_text(text)
    stretches = []
    for start, end, token in tokenizer._split_at_special_tokens(text):
        if token is not None:
            stretches.append(Stretch(text[start:end], start, end, tokenizer.convert_tokens_to_ids(token)))
        else:
            words = list(tokenizer._words(text[start:end]))
            steps = [
                explain_word(tokenizer, text, start, word, words[i - 1] if i else None, words[i + 1 : i + 2])
                for i, word in enumerate(words)
            ]
            stretches.append(Stretch(text[start:end], start, end, None, tuple(steps)))
    return build_explanation(tokenizer, text, stretches)


def refuse_other_than_text(text: Any) -> None:
    if not isinstance(text, str):
        raise InputError(f"text must be a string, got {describe(text)}")


def build_explanation(tokenizer: PreTrainedTokenizer, text: str, stretches: list[Stretch]) -> Explanation:
    """An explanation from its parts, compared with what the tokenizer itself gives."""
    tokens: list[str] = []
    ids: list[int] = []
    offsets: list[tuple[int, int]] = []
    for part in stretches:
        if part.special_id is not None:
            tokens.append(tokenizer.ids_to_tokens[part.special_id])
            ids.append(part.special_id)
            offsets.append((part.start, part.end))
        for word in part.words:
            tokens += word.tokens
            ids += word.ids
            offsets += word.offsets
    given = tokenizer._pieces([text])[0]
    if given.ids != ids or given.offsets != offsets:
        raise TokenizerError(f"the engine and the readable algorithm differ on {text!r}: {given.ids} and {ids}; a bug")
    return Explanation(text, tuple(stretches), tuple(tokens), tuple(ids), tuple(offsets))


def explain_word(
    tokenizer: BertTokenizer, text: str, base: int, word: Word, before: Word | None, after: list[Word]
) -> WordSteps:
    """The steps of one word. `base` is the start of its stretch in the text."""
    start, end = base + word.start, base + word.end
    limit = base + after[0].start if after else len(text)
    while tokenizer.do_basic_tokenize and end < limit and was_dropped(tokenizer, text[end]):
        end += 1  # dropped characters at the end belong to the word they followed
    source = text[start:end]
    attempts: list[tuple[str, bool]] = []
    pieces = tokenizer.wordpiece_tokenizer.pieces(word, attempts)
    ids = tokenizer.convert_tokens_to_ids([piece.token for piece in pieces])
    note = ""
    if word.is_kept:
        note = "kept whole (never_split)"
    elif len(word.text) > tokenizer.max_input_chars_per_word:
        note = f"{len(word.text)} characters, longer than {tokenizer.max_input_chars_per_word}: unknown"
    elif attempts and not attempts[-1][1]:
        note = "a part is not in the vocabulary: the whole word is unknown"
    return WordSteps(
        source,
        word.text,
        start,
        base + word.end,
        tuple(changes(tokenizer, source, word, before, after)),
        tuple(Attempt(*each) for each in attempts),
        tuple(piece.token for piece in pieces),
        tuple(ids),
        tuple((base + piece.start, base + piece.end) for piece in pieces),
        note,
    )


def was_dropped(tokenizer: BertTokenizer, char: str) -> bool:
    return is_removed(char) or (tokenizer.basic_tokenizer.strip_accents and unicodedata.category(char) == "Mn")


def changes(tokenizer: BertTokenizer, source: str, word: Word, before: Word | None, after: list[Word]) -> list[str]:
    """The changes of basic tokenization, in words."""
    if not tokenizer.do_basic_tokenize:
        return []
    steps = []
    if any(is_removed(char) for char in source):
        steps.append("control characters removed")
    if tokenizer.do_lower_case and source.lower() != source:
        steps.append("lower-cased")
    decomposed = unicodedata.normalize("NFD", source)
    if tokenizer.basic_tokenizer.strip_accents and not word.is_kept:
        if any(unicodedata.category(char) == "Mn" for char in decomposed):
            steps.append("accents stripped")
        elif decomposed != source:
            steps.append("decomposed")
    if tokenizer.tokenize_chinese_chars and len(word.text) == 1 and is_chinese(source[:1]):
        steps.append("Chinese character, a word of its own")
    elif is_punctuation(word.text[0]) and len(word.text) == 1:
        steps.append("punctuation, a word of its own")
    elif cut_beside(word, before) or (after and cut_beside(after[0], word)):
        steps.append("cut at punctuation")
    return steps


def cut_beside(word: Word, before: Word | None) -> bool:
    """Whether two words are adjacent in the text and split at punctuation."""
    return (
        before is not None
        and before.end == word.start
        and (is_punctuation(before.text[-1]) or is_punctuation(word.text[0]))
    )


def report(word: WordSteps) -> list[str]:
    """One word in lines."""
    arrow = "" if word.word == word.source else f" -> {quote(word.word)}"
    lines = wrap_lines("word     ", f"{quote(word.source)}{arrow}")
    if word.changes:
        lines += wrap_lines("           ", "; ".join(word.changes))
    tried: list[str] = []
    for attempt in word.attempts:
        tried.append(f"{printable(attempt.candidate)} {'yes' if attempt.found else 'no'}")
        if attempt.found:
            lines += wrap_lines("    try    ", " · ".join(shorten_list(tried)))
            tried = []
    if tried:
        lines += wrap_lines("    try    ", " · ".join(shorten_list(tried)))
    if word.note:
        lines += wrap_lines("           ", word.note)
    pairs = zip(word.tokens, word.ids, word.offsets, strict=True)
    result = "  ".join(f"{printable(token)} {index} [{a}:{b}]" for token, index, (a, b) in pairs)
    return lines + wrap_lines("    gives  ", result)


def shorten_list(tried: list[str], most: int = 12) -> list[str]:
    """Long lists of failed attempts, shortened in the middle."""
    if len(tried) <= most:
        return tried
    return [*tried[: most // 2], f"... {len(tried) - most} more no ...", *tried[len(tried) - most // 2 :]]


def wrap_lines(label: str, content: str) -> list[str]:
    return textwrap.wrap(
        content, WIDTH, initial_indent=label, subsequent_indent=" " * len(label), break_on_hyphens=False
    ) or [label.rstrip()]


def quote(text: str) -> str:
    """A text in quotes on one line, shortened if it is long."""
    quoted = printable(repr(text))
    return quoted if len(quoted) <= WIDTH - 10 else quoted[: WIDTH - 14] + "..." + quoted[-1]


def printable(text: str) -> str:
    """Lone surrogates cannot be printed; show them as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_plain_data(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: to_plain_data(each) for key, each in value.items()}
    return [to_plain_data(each) for each in value] if isinstance(value, list | tuple) else value
