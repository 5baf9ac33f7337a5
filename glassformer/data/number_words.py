"""Numbers and dates in words, English and Chinese: a small corpus that is written here and needs no file.

>>> number_in_english(340506), number_in_chinese(340506)
('three hundred and forty thousand five hundred and six', '三十四万零五百零六')
>>> date_in_english(1984, 3, 21), date_in_chinese(1984, 3, 21)
('the twenty first of march nineteen eighty four', '一九八四年三月二十一日')
"""

from __future__ import annotations

import calendar
import random
from collections.abc import Iterator
from typing import NamedTuple

ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
ORDINALS = """zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
    fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth""".split()
MONTHS = """january february march april may june july august september october november december""".split()
DIGITS = "零一二三四五六七八九"
UNITS = ("千", 1000), ("百", 100), ("十", 10), ("", 1)
DIGITS_OF_NUMBERS = (3, 4, 5, 6, 6)
ALWAYS_LEARNT = 100  # numbers that are words themselves
YEARS = range(1900, 2100)


class Pair(NamedTuple):
    """The same in two languages."""

    source: str
    target: str
    meaning: tuple[int, ...]  # a number, or year, month and day


def below_hundred(number: int) -> str:
    if number < 20:
        return ONES[number]
    tens, ones = divmod(number, 10)
    return TENS[tens] + (f" {ONES[ones]}" if ones else "")


def number_in_english(number: int) -> str:
    thousands, rest = divmod(number, 1000)
    if thousands:
        joint = " and " if 0 < rest < 100 else " "
        return number_in_english(thousands) + " thousand" + (joint + number_in_english(rest) if rest else "")
    hundreds, rest = divmod(number, 100)
    if hundreds:
        return f"{ONES[hundreds]} hundred" + (f" and {below_hundred(rest)}" if rest else "")
    return below_hundred(rest)


def number_in_chinese(number: int) -> str:
    """一千零二十: one zero stands for all that are skipped inside; ten alone is 十, not 一十."""
    if number == 0:
        return DIGITS[0]
    parts, rest = (below_ten_thousand(part) for part in divmod(number, 10_000))
    text = f"{parts}万" if parts else ""
    if parts and rest and number % 10_000 < 1000:
        text += DIGITS[0]
    text += rest
    return text[1:] if text.startswith("一十") else text


def below_ten_thousand(number: int) -> str:
    text, skipped = "", False
    for unit, size in UNITS:
        digit = number // size % 10
        if digit:
            text += (DIGITS[0] if skipped and text else "") + DIGITS[digit] + unit
        skipped = digit == 0
    return text


def year_in_english(year: int) -> str:
    century, rest = divmod(year, 100)
    if rest == 0:
        return "two thousand" if century == 20 else f"{below_hundred(century)} hundred"
    if rest < 10:
        return f"two thousand and {ONES[rest]}" if century == 20 else f"{below_hundred(century)} oh {ONES[rest]}"
    return f"{below_hundred(century)} {below_hundred(rest)}"


def day_in_english(day: int) -> str:
    tens, ones = divmod(day, 10)
    if day < 20:
        return ORDINALS[day]
    return f"{TENS[tens]} {ORDINALS[ones]}" if ones else {20: "twentieth", 30: "thirtieth"}[day]


def date_in_english(year: int, month: int, day: int, form: int = 0) -> str:
    name, number, spelled = MONTHS[month - 1], day_in_english(day), year_in_english(year)
    return (f"the {number} of {name} {spelled}", f"{name} the {number} {spelled}", f"{name} {number} {spelled}")[form]


def date_in_chinese(year: int, month: int, day: int) -> str:
    digits = "".join(DIGITS[int(digit)] for digit in str(year))
    return f"{digits}年{number_in_chinese(month)}月{number_in_chinese(day)}日"


def meanings(count: int, seed: int) -> Iterator[tuple[int, ...]]:
    """Different numbers and dates in turn, of all lengths."""
    chance, seen = random.Random(seed), set()
    while len(seen) < count:
        if len(seen) % 2:
            year, month = chance.choice(YEARS), chance.randint(1, 12)
            made: tuple[int, ...] = (year, month, chance.randint(1, calendar.monthrange(year, month)[1]))
        else:
            made = (random_number(chance),)
        if made not in seen:
            seen.add(made)
            yield made


def random_number(chance: random.Random) -> int:
    """A number of 3 to 6 digits; every other one has many zeros, as the numbers that people say."""
    digits = chance.choice(DIGITS_OF_NUMBERS)
    number = chance.randrange(10 ** (digits - 1), 10**digits)
    if chance.random() < 0.5:
        kept = [digit if place == 0 or chance.random() < 0.4 else "0" for place, digit in enumerate(str(number))]
        number = int("".join(kept))
    return number


def pairs_of(meaning: tuple[int, ...]) -> list[Pair]:
    """Every source text of a meaning: from each English form, and from the Chinese one."""
    if len(meaning) == 1:
        english, chinese = [number_in_english(*meaning)], number_in_chinese(*meaning)
        plain = english[0].replace(" and ", " ")
        english += [plain] if plain != english[0] else []
    else:
        year, month, day = meaning
        english = [date_in_english(year, month, day, form) for form in range(3)]
        chinese = date_in_chinese(year, month, day)
    return [*(Pair(form, chinese, meaning) for form in english), Pair(chinese, english[0], meaning)]


def number_word_pairs(count: int, held_out: int, seed: int = 0) -> tuple[list[Pair], list[Pair]]:
    """Pairs of so many meanings for training, and of other meanings for evaluation, which never overlap."""
    everything = list(meanings(count + held_out, seed))
    chance = random.Random(seed)
    judged = [chance.choice(pairs_of(meaning)) for meaning in everything[:held_out]]
    known = [*((number,) for number in range(ALWAYS_LEARNT)), *everything[held_out:]]
    return [pair for meaning in known for pair in pairs_of(meaning)], judged


def unknown_words(text: str) -> list[str]:
    """The words of a text, and its Chinese characters, that stand in no number and no date.

    >>> unknown_words("three blind mice 三只")
    ['blind', 'mice', '只']
    """
    english = {*ONES, *TENS, *ORDINALS, *MONTHS, *"hundred thousand and the of oh twentieth thirtieth".split()}
    chinese = {*DIGITS, *"十百千万年月日"}
    unknown = []
    for word in text.split():
        letters = [word] if word.isascii() else list(word)
        unknown += [letter for letter in letters if letter not in english and letter not in chinese]
    return unknown
