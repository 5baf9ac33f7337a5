"""The rules by which Moses cuts English into words and puts it together, as Transformer-XL's vocabulary needs them.

Punctuation is normalised first; then everything that is no letter or digit stands alone, hyphens become `@-@`, and a
full stop stays with an abbreviation. The classes of letters and digits are those of Unicode, except that Moses knows
neither ideographs nor Hangul syllables and cuts them one by one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import cache

Rules = tuple[tuple[re.Pattern[str], str], ...]

# A full stop behind one of these does not end a sentence; of the numeric ones, only before a digit.
ABBREVIATIONS = frozenset(
    """A B C D E F G H I J K L M N O P Q R S T U V W X Y Z Adj Adm Adv Apr Asst Aug Bart Bldg Brig Bros Capt Cmdr Col
    Comdr Con Corp Cpl DR Dec Dr Drs Ens Feb Gen Gov Hon Hosp Hr Insp Jan Jul Jun Lt MM MR MRS MS Maj Mar Messrs Mlle
    Mme Mr Mrs Ms Msgr Nos Nov Nr Oct Op Ord Pfc Ph Prof Pvt Rep Reps Res Rev Rs Rt Sen Sens Sep Sfc Sgt Sr St Supt
    Surg e.g i.e rev v vs""".split()
)
NUMERIC_ABBREVIATIONS = frozenset(("Art", "No", "pp"))
UNSPACED = (
    *((0x1100, 0x11FF), (0x2E80, 0xA4CF), (0xA840, 0xA87F), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0xFE30, 0xFE4F)),
    *((0xFF65, 0xFFDC), (0x16FE0, 0x18AFF), (0x1B000, 0x1B12F), (0x1B170, 0x1B2FF), (0x20000, 0x2FFFF)),
)
UNKNOWN_LETTERS = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7AF), (0xF900, 0xFAFF), (0x10000, 0x10FFFF))
DOTS, PROTECTED = "\uf8fd", "\uf8fe"  # stand for a run of full stops, and for a protected word, while rules apply


def compiled(*rules: tuple[str, str]) -> Rules:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in rules)


NORMAL_PUNCTUATION = compiled(
    # spaces around brackets and before punctuation
    *((r"\r", ""), (r"\(", " ("), (r"\)", ") "), (r" +", " "), (r"\) ([.!:?;,])", r")\1"), (r"\( ", "(")),
    *((r" \)", ")"), (r"(\d) %", r"\1%"), (r" :", ":"), (r" ;", ";")),
    # quotation marks and dashes
    *((r"`", "'"), (r"''", ' " '), (r"[„“”]", '"'), (r"–", "-"), (r"—", " - "), (r" +", " "), (r"´", "'")),
    *((r"([a-zA-Z])[‘’]([a-zA-Z])", r"\1'\2"), (r"[‘‚’]", "'"), (r"''", '"'), (r"…", "...")),
    *(("\u00a0«\u00a0", '"'), ("«\u00a0", '"'), (r"«", '"'), ("\u00a0»\u00a0", '"'), ("\u00a0»", '"'), (r"»", '"')),
    # spaces that do not break
    *(("\u00a0%", "%"), ("nº\u00a0", "nº "), ("\u00a0:", ":"), ("\u00a0ºC", " ºC"), ("\u00a0cm", " cm")),
    *(("\u00a0\\?", "?"), ("\u00a0!", "!"), ("\u00a0;", ";"), (",\u00a0", ", "), (r" +", " ")),
    # a comma or full stop goes before a closing quotation mark
    *((r'"([,.]+)', r'\1"'), ("(\\d)\u00a0(\\d)", r"\1.\2")),
)
ENTITIES = {"&bar;": "|", "&#124;": "|", "&lt;": "<", "&gt;": ">", "&bra;": "[", "&ket;": "]", "&quot;": '"'}
ENTITIES |= {"&apos;": "'", "&#91;": "[", "&#93;": "]", "&amp;": "&"}
NUMBER_SIGNS = re.compile(r"(?<=\d)[,.](?=\d)")
CLOSING = re.compile(r"[,.?!:;\\%}\])]+")
QUOTES = re.compile(r"['\"„“`]+")


def is_in(char: str, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= ord(char) <= last for first, last in ranges)


def is_letter(char: str) -> bool:
    is_mark = unicodedata.category(char) in ("Mn", "Mc")
    return (char.isalpha() or is_mark or unicodedata.category(char) == "Nl") and not is_in(char, UNKNOWN_LETTERS)


def is_number(char: str) -> bool:
    return unicodedata.category(char)[0] == "N"


@cache
def characters(kind: Callable[[str], bool]) -> str:
    """The characters of a kind as ranges of a regular expression's class."""
    codes = [code for code in range(0xFFE0) if not 0xD800 <= code < 0xE000 and kind(chr(code))]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)


@cache
def word_rules() -> Rules:
    """How a text is cut into words, but for full stops and protected words."""
    letter, number = characters(is_letter), characters(is_number)
    either = letter + characters(str.isdecimal)
    return compiled(
        (rf"([^{either}\s.'`,\-{DOTS}{PROTECTED}])", r" \1 "),
        (rf"([{either}])-(?=[{either}])", r"\1 @-@ "),
        (rf"([^{number}]),", r"\1 , "),
        (rf",([^{number}])", r" , \1"),
        (rf"([{number}]),$", r"\1 , "),
        (rf"([^{letter}{PROTECTED}])'([^{letter}{PROTECTED}])", r"\1 ' \2"),
        (rf"([^{letter}{number}{PROTECTED}])'([{letter}{PROTECTED}])", r"\1 ' \2"),
        (rf"([{letter}])'([^{letter}{PROTECTED}])", r"\1 ' \2"),
        (rf"([{letter}])'([{letter}{PROTECTED}])", r"\1 '\2"),
        (rf"([{number}])'(s)", r"\1 '\2"),
    )


def normalize_punctuation(text: str) -> str:
    """A text with plain quotation marks, dashes and spaces.

    >>> normalize_punctuation("“So ,” he said — ‘ why ’…")
    '"So ," he said - \\' why \\'...'
    """
    for pattern, replacement in NORMAL_PUNCTUATION:
        text = pattern.sub(replacement, text)
    return text.strip()


def cut_words(text: str, protected: Collection[str] = ()) -> list[str]:
    """The words of a text; `protected` ones are never cut, however they are written.

    >>> cut_words("Dr. Smith's well-known list: apples, pears...")
    ['Dr.', 'Smith', "'s", 'well', '@-@', 'known', 'list', ':', 'apples', ',', 'pears', '...']
    """
    text = re.sub(r"[\000-\037]", "", re.sub(r"\s+", " ", text.replace(DOTS, " ").replace(PROTECTED, " ")))
    kept: list[str] = []

    def protect(match: re.Match[str]) -> str:
        kept.append(match.group())
        return PROTECTED

    if protected:
        longest_first = sorted(map(re.escape, protected), key=len, reverse=True)
        text = re.sub("|".join(longest_first), protect, text, flags=re.IGNORECASE)
    text = text.strip()
    runs: list[str] = []

    def keep_dots(match: re.Match[str]) -> str:
        runs.append(match.group())
        return f" {DOTS} "

    first, second, *others = word_rules()
    for pattern, replacement in (first, second):
        text = pattern.sub(replacement, text)
    text = re.sub(r"\.{2,}", keep_dots, text)
    for pattern, replacement in others:
        text = pattern.sub(replacement, text)
    text = re.sub(r"\.' ?$", " . ' ", " ".join(cut_full_stops(text.split())))
    dots, words = iter(runs), iter(kept)
    text = re.sub(DOTS, lambda _: next(dots), text)
    return re.sub(PROTECTED, lambda _: next(words), text).split()


def cut_full_stops(words: list[str]) -> list[str]:
    """Words without their full stop, unless it belongs to an abbreviation or the sentence goes on."""
    cut: list[str] = []
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        stem = word[:-1]
        stays = (
            not word.endswith(".")
            or not stem
            or ("." in stem and any(map(is_letter, stem)))
            or stem in ABBREVIATIONS
            or after[:1].islower()
            or (stem in NUMERIC_ABBREVIATIONS and "0" <= after[:1] <= "9")
        )
        cut += [word] if stays else [stem, "."]
    return cut


def split_numbers(word: str) -> list[str]:
    """A number in its parts.

    >>> split_numbers("5,000.5")
    ['5', '@,@', '000', '@.@', '5']
    """
    return NUMBER_SIGNS.sub(r" @\g<0>@ ", word).split()


def join_moses_words(words: Sequence[str]) -> str:
    """Words as a text: no space before punctuation, none inside of quotation marks, numbers whole.

    >>> join_moses_words(["It", "'s", '"', "5", "@,@", "000", '"', "(", "well", "@-@", "known", ")", "."])
    'It\\'s "5,000" (well-known).'
    """
    text = f" {' '.join(words)} ".replace(" @-@ ", "-")
    for entity, char in ENTITIES.items():
        text = text.replace(entity, char)
    joined, space, quotes = "", " ", dict.fromkeys(("'", '"', "``", "`", "''"), 0)
    listed = text.split()
    for place, word in enumerate(listed):
        before = listed[place - 1] if place else ""
        glued, next_space = False, " "
        if is_in(word[0], UNSPACED):
            glued = bool(before) and is_in(before[-1], UNSPACED)
        elif all(char in "([{¿¡" or unicodedata.category(char) == "Sc" for char in word):
            next_space = ""
        elif CLOSING.fullmatch(word) or (before and word[0] == "'" and len(word) > 1 and is_letter(word[1])):
            glued = True
        elif QUOTES.fullmatch(word):
            mark = '"' if re.fullmatch("[„“”]+", word) else word
            is_open = quotes.get(mark, 0) % 2 == 1
            is_possessive = not is_open and word == "'" and before.endswith("s")
            glued = is_open or is_possessive
            next_space = " " if glued else ""
            quotes[mark] = quotes.get(mark, 0) + (not is_possessive)
        joined += word if glued else space + word
        space = next_space
    joined = re.sub(" {2,}", " ", joined).strip()
    return joined.replace(" @,@ ", ",").replace(" @.@ ", ".").strip()
