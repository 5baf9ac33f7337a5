"""English without what does not count as a difference between two transcriptions (Radford et al. 2022, appendix C).

Case, punctuation, fillers, short forms and titles go, and numbers are written in digits: "Mr. Smith's got twenty one
dollars" and "mister smith has got $21" become one. British spellings become American where a table names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

from .whisper_text import BRACKETS, without_diacritics

FILLERS = re.compile(r"\b(hmm|mm|mhm|mmm|uh|um)\b")
# Short forms, in the order in which they are replaced: whole words, titles, endings.
_WORDS = """won't:will_not can't:can_not let's:let_us ain't:aint y'all:you_all wanna:want_to gotta:got_to gonna:going_to
    i'ma:i_am_going_to imma:i_am_going_to woulda:would_have coulda:could_have shoulda:should_have ma'am:madam"""
_TITLES = """mr:mister mrs:missus st:saint dr:doctor prof:professor capt:captain gov:governor ald:alderman gen:general
    sen:senator rep:representative pres:president rev:reverend hon:honorable asst:assistant assoc:associate
    lt:lieutenant col:colonel jr:junior sr:senior esq:esquire"""
_ENDINGS = """'d_been:had_been 's_been:has_been 'd_gone:had_gone 's_gone:has_gone 'd_done:had_done 's_got:has_got
    n't:not 're:are 's:is 'd:would 'll:will 't:not 've:have 'm:am"""


def pairs(listed: str) -> list[tuple[str, str]]:
    return [(a.replace("_", " "), b.replace("_", " ")) for a, b in (each.split(":") for each in listed.split())]


SHORT_FORMS = [
    *((re.compile(rf"\b{short}\b"), long) for short, long in pairs(_WORDS)),
    *((re.compile(rf"\b{short}\b"), f"{long} ") for short, long in pairs(_TITLES)),
    *((re.compile(rf"{short}\b"), f" {long}") for short, long in pairs(_ENDINGS)),
]

ZEROS = ("o", "oh", "zero")
_ONES = """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen""".split()
ONES = {name: number for number, name in enumerate(_ONES, start=1)}
TENS = {name: 10 * n for n, name in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), start=2)}
_POWERS = (
    "thousand million billion trillion quadrillion quintillion sextillion septillion octillion nonillion decillion"
)
MULTIPLIERS = {"hundred": 100} | {name: 1000**n for n, name in enumerate(_POWERS.split(), start=1)}
IRREGULAR = {"first": (1, "st"), "second": (2, "nd"), "third": (3, "rd"), "fifth": (5, "th"), "twelfth": (12, "th")}


def ordinal(name: str) -> str:
    return name + ("h" if name.endswith("t") else "th")


# Plurals and ordinals: the number and what stands behind its digits.
SUFFIXED_ONES = {
    **{"sixes" if name == "six" else f"{name}s": (number, "s") for name, number in ONES.items()},
    "zeroth": (0, "th"),
    **IRREGULAR,
    **{ordinal(name): (n, "th") for name, n in ONES.items() if n > 3 and n not in (5, 12)},
}
SUFFIXED_TENS = {name.replace("y", "ies"): (n, "s") for name, n in TENS.items()}
SUFFIXED_TENS |= {name.replace("y", "ieth"): (n, "th") for name, n in TENS.items()}
SUFFIXED_MULTIPLIERS = {f"{name}{end}": (n, end) for name, n in MULTIPLIERS.items() for end in ("s", "th")}
SIGNS_BEFORE = {"minus": "-", "negative": "-", "plus": "+", "positive": "+"}
CURRENCIES = {"pound": "£", "euro": "€", "dollar": "$", "cent": "¢"}
CURRENCIES |= {f"{name}s": sign for name, sign in CURRENCIES.items()}
SIGNS = {*SIGNS_BEFORE.values(), *CURRENCIES.values()}
PERCENT = ("per", "percent")
SPECIAL = ("and", "double", "triple", "point")
DIGITS_WORDS = {*ONES, *TENS, *ZEROS}
NUMBER_WORDS = {
    *DIGITS_WORDS,
    *(*SUFFIXED_ONES, *SUFFIXED_TENS, *SUFFIXED_MULTIPLIERS, *MULTIPLIERS),
    *(*SIGNS_BEFORE, *CURRENCIES, *PERCENT, *SPECIAL),
}
NUMERAL = re.compile(r"\d+(\.\d+)?$")
HALF = re.compile(r"\band\s+a\s+half\b")

Value = int | str | None  # of the number so far; as a string where digits were read one by one


def normalize_english(text: str, spelling: Mapping[str, str] | None = None) -> str:
    """English in a form in which two transcriptions can be compared; `spelling` maps words to those used instead.

    >>> normalize_english("Mr. Smith's got twenty-one dollars, uh, and 50 cents!")
    'mister smith has got $21.50'
    """
    text = text.lower()
    for pattern in (*BRACKETS, FILLERS):
        text = pattern.sub("", text)
    text = re.sub(r"\s+'", "'", text)
    for pattern, long in SHORT_FORMS:
        text = pattern.sub(long, text)
    text = re.sub(r"(\d),(\d)", r"\1\2", text)
    text = re.sub(r"\.([^0-9]|$)", r" \1", text)
    text = numbers_as_digits(without_diacritics(text, keep=".%$¢€£"))
    text = " ".join((spelling or {}).get(word, word) for word in text.split())
    text = re.sub(r"[.$¢€£]([^0-9])", r" \1", text)  # signs that belong to no number
    text = re.sub(r"([^0-9])%", r"\1 ", text)
    return re.sub(r"\s+", " ", text)


def numbers_as_digits(text: str) -> str:
    """Numbers that are spelled out, in digits.

    >>> numbers_as_digits("two hundred and five people paid three point five million dollars in nineteen eighty four")
    '205 people paid $3500000 in 1984'
    """
    words = NumberReader(before_numbers(text).split()).read()
    text = re.sub(r"([€£$])([0-9]+) (?:and )?¢([0-9]{1,2})\b", cents_behind, " ".join(words))
    text = re.sub(r"[€£$]0.([0-9]{1,2})\b", lambda found: f"¢{int(found[1])}", text)
    return re.sub(r"\b1(s?)\b", r"one\1", text)


def cents_behind(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2]}.{int(found[3]):02d}"


def before_numbers(text: str) -> str:
    """A half becomes "point five" behind a number; digits and letters come apart, but for endings such as 2nd."""
    parts = HALF.split(text)
    joined: list[str] = []
    for place, part in enumerate(parts):
        if not part.strip():
            continue
        joined.append(part)
        if place < len(parts) - 1:
            last = part.rsplit(maxsplit=2)[-1]
            joined.append("point five" if last in DIGITS_WORDS or last in MULTIPLIERS else "and a half")
    text = " ".join(joined)
    text = re.sub(r"([a-z])([0-9])", r"\1 \2", text)
    text = re.sub(r"([0-9])([a-z])", r"\1 \2", text)
    return re.sub(r"([0-9])\s+(st|nd|rd|th|s)\b", r"\1\2", text)


class NumberReader:
    """Reads words from left to right; a number grows until a word ends it."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.written: list[str] = []
        self.value: Value = None
        self.sign = ""

    def read(self) -> list[str]:
        """The words with numbers in digits."""
        place = 0
        while place < len(self.words):
            place += self.take(place)
        self.finish()
        return self.written

    def write(self, text: object) -> None:
        """Write a word, or a number with its sign; the number is done."""
        self.written.append(f"{self.sign}{text}")
        self.value, self.sign = None, ""

    def finish(self) -> None:
        """Write the number so far, if there is one."""
        if self.value is not None:
            self.write(self.value)

    def finish_and_write(self, word: str) -> None:
        self.finish()
        self.write(word)

    def joined(self, number: int, before: str) -> int | str:
        """The number so far with another behind it: a sum, where it has room for it, else digits in a row."""
        value = self.value
        if value is None:
            return number
        follows_one = number < 20 and before in ONES
        if isinstance(value, str) or follows_one:
            if isinstance(value, str) and number < 10 and before in TENS:  # the ten's zero makes room
                return value[:-1] + str(number)
            return f"{value}{number}"
        room = 10 if number < 10 else 100
        return value + number if value % room == 0 else f"{value}{number}"

    def multiplied(self, factor: int) -> int | None:
        """The number so far times a hundred, a thousand and so on; None if that is no whole number."""
        value = self.value
        if isinstance(value, str) or value == 0:
            try:
                product = Fraction(value) * factor
            except ValueError:
                return None
            return product.numerator if product.denominator == 1 else None
        thousands, rest = divmod(value or 0, 1000)
        return thousands * 1000 + rest * factor

    def take(self, place: int) -> int:
        """Read the word at a place; how many words were read."""
        word = self.words[place]
        before = self.words[place - 1] if place else ""
        after = self.words[place + 1] if place + 1 < len(self.words) else ""
        if NUMERAL.match(word[1:] if word[0] in SIGNS else word):
            self.take_numeral(word)
        elif word not in NUMBER_WORDS:
            self.finish_and_write(word)
        elif word in ZEROS:
            self.value = f"{self.value or ''}0"
        elif word in ONES or word in TENS:
            self.value = self.joined(ONES.get(word) or TENS[word], before)
        elif word in SUFFIXED_ONES or word in SUFFIXED_TENS:
            number, end = SUFFIXED_ONES.get(word) or SUFFIXED_TENS[word]
            self.write(f"{self.joined(number, before)}{end}")
        elif word in MULTIPLIERS:
            self.take_multiplier(MULTIPLIERS[word])
        elif word in SUFFIXED_MULTIPLIERS:
            self.take_suffixed_multiplier(*SUFFIXED_MULTIPLIERS[word])
        elif word in SIGNS_BEFORE:
            self.finish()
            if after in NUMBER_WORDS or NUMERAL.match(after):
                self.sign = SIGNS_BEFORE[word]
            else:
                self.write(word)
        elif word in CURRENCIES:
            if self.value is None:
                self.write(word)
            else:
                self.sign = CURRENCIES[word]
                self.finish()
        elif word in PERCENT:
            return self.take_percent(word, after)
        else:
            return self.take_special(word, before, after)
        return 1

    def take_numeral(self, word: str) -> None:
        """Digits; behind a point they are decimals."""
        if isinstance(self.value, str) and self.value.endswith("."):
            self.value += word
            return
        self.finish()
        digits = word[1:] if word[0] in SIGNS else word
        self.sign = word[0] if word[0] in SIGNS else self.sign
        number = Fraction(digits)
        self.value = number.numerator if number.denominator == 1 else digits

    def take_multiplier(self, factor: int) -> None:
        if self.value is None:
            self.value = factor
            return
        product = self.multiplied(factor)
        if product is None:
            self.finish()
        self.value = factor if product is None else product

    def take_suffixed_multiplier(self, factor: int, end: str) -> None:
        if self.value is None:
            self.write(f"{factor}{end}")
            return
        # A number in digits, such as zero, is multiplied here as others are.
        product = self.multiplied(factor) if isinstance(self.value, str) else self.of_thousands(factor)
        if product is None:
            self.finish_and_write(f"{factor}{end}")
        else:
            self.write(f"{product}{end}")

    def of_thousands(self, factor: int) -> int:
        thousands, rest = divmod(int(self.value or 0), 1000)
        return thousands * 1000 + rest * factor

    def take_percent(self, word: str, after: str) -> int:
        if self.value is None:
            self.write(word)
        elif word == "percent" or after == "cent":
            self.write(f"{self.value}%")
            return 1 if word == "percent" else 2
        else:
            self.finish_and_write(word)
        return 1

    def take_special(self, word: str, before: str, after: str) -> int:
        """and, double, triple, point: parts of a number only where one goes on."""
        if after not in NUMBER_WORDS and not NUMERAL.match(after):
            self.finish_and_write(word)
        elif word == "and":
            if before not in MULTIPLIERS:
                self.finish_and_write(word)
        elif word == "point":
            if after in DIGITS_WORDS or NUMERAL.match(after):
                self.value = f"{self.value or ''}."
        elif after in ONES or after in ZEROS:
            self.value = f"{self.value or ''}{str(ONES.get(after, 0)) * (2 if word == 'double' else 3)}"
            return 2
        else:
            self.finish_and_write(word)
        return 1
