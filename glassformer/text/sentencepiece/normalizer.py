"""Text as SentencePiece cuts it: characters replaced by rules, spaces collapsed and written as `▁`.

Each character of the result knows which characters of the text it came from.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..base.special_tokens import any_of
from ..encoding import Offsets
from .charsmap import Charsmap
from .model_file import Normalization

SPACE = "\u2581"


class Normalizer:
    """Changes text before it is cut.

    >>> Normalizer(Normalization())("  so  good ")
    '▁so▁good'
    """

    def __init__(self, settings: Normalization, user_defined: Iterable[str] = (), where: str = "the model") -> None:
        self.settings = settings
        self.charsmap = Charsmap(settings.charsmap, where)
        symbols = list(user_defined)
        self._symbols = any_of(symbols)  # what no rule may change
        self._symbol_characters = frozenset("".join(symbols))
        self._is_plain = settings.escape_whitespaces and not settings.whitespace_as_suffix
        self._is_plain = self._is_plain and not any(" " in symbol for symbol in symbols)
        self._unchanged: set[str] = set()  # characters that no rule begins or goes on with
        self._replaced: dict[int, str] = {}  # those that a rule replaces by themselves
        self._simple: set[str] = set()  # both of these, unless they can go on with a rule
        self._continuations: set[str] = set()  # those that follow others within a rule
        self._classified: set[str] = set()

    def __call__(self, text: str, prefix: bool = True) -> str:
        """The changed text; without `prefix` it goes on after another one: no space is put before it, its own stays."""
        if not self._is_plain:
            return self.aligned(text, prefix)[0]
        if not self._unchanged.issuperset(text):
            if not self._simple.issuperset(text):
                self._classify(set(text) - self._simple)
                if not self._simple.issuperset(text):
                    return self.aligned(text, prefix)[0]
            text = text.translate(self._replaced)
        if self.settings.remove_extra_whitespaces:
            begins_with_space = not prefix and text.startswith(" ")
            text = " ".join([part for part in text.split(" ") if part]) if "  " in text else text.strip(" ")
            text = text.replace(" ", SPACE).rstrip(SPACE)
            if begins_with_space and text:
                return SPACE + text
        else:
            text = text.replace(" ", SPACE)
        return SPACE + text if text and prefix and self.settings.add_dummy_prefix else text

    def _classify(self, characters: set[str]) -> None:
        """Find out what the rules do to characters that have not been seen before."""
        continuations = len(self._continuations)
        for char in characters - self._classified:
            self._classified.add(char)
            self._continuations |= self.charsmap.continuations(char)
            rule = self.charsmap.rule_at(char, 0)
            if rule is None:
                self._unchanged.add(char)
            elif char in self._symbol_characters or "  " in rule.replacement:
                continue
            else:
                self._replaced[ord(char)] = rule.replacement
            self._simple.add(char)
        if len(self._continuations) > continuations:
            self._unchanged -= self._continuations
            self._simple -= self._continuations
        else:
            self._unchanged -= characters & self._continuations
            self._simple -= characters & self._continuations

    def aligned(self, text: str, prefix: bool = True) -> tuple[str, Offsets]:
        """The changed text, and for each of its characters the span of the text that it came from."""
        settings = self.settings
        space = SPACE if settings.escape_whitespaces else " "
        removes = settings.remove_extra_whitespaces
        units = list(self._units(text))
        first, before = 0, None
        while prefix and removes and first < len(units) and units[first][0] == " ":
            before = units[first][1:]
            first += 1
        if first == len(units):
            return "", []
        dummy = prefix and settings.add_dummy_prefix
        chars: list[str] = []
        spans: Offsets = []
        if dummy and not settings.whitespace_as_suffix:
            chars.append(space)
            spans.append(before or (units[first][1], units[first][1] + 1))
        after_space = removes and prefix
        for unit, start, end in units[first:]:
            if after_space and unit.startswith(" "):
                unit = unit.lstrip(" ")
                if spans and chars[-1] == space:
                    spans[-1] = (start, end)
            if unit:
                chars += unit.replace(" ", space) if settings.escape_whitespaces else unit
                spans += [(start, end)] * len(unit)
                after_space = removes and unit.endswith(" ")
        while removes and chars and chars[-1] == space:
            chars.pop()
            spans.pop()
        if dummy and settings.whitespace_as_suffix:
            chars.append(space)
            spans.append((max(len(text) - 1, 0), len(text)))
        return "".join(chars), spans

    def _units(self, text: str) -> Iterable[tuple[str, int, int]]:
        """What the text consists of, changed by the rules: each unit with its place."""
        place = 0
        while place < len(text):
            symbol = self._symbols.match(text, place) if self._symbols else None
            if symbol:
                yield symbol.group(), place, symbol.end()
                place = symbol.end()
                continue
            rule = self.charsmap.rule_at(text, place)
            end = place + (rule.replaced if rule else 1)
            yield (rule.replacement if rule else text[place]), place, end
            place = end
