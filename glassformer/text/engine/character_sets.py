"""Sets of characters, given as ranges of code points such as `41-5A AA`."""

from __future__ import annotations

import re
from bisect import bisect_right


def any_in(ranges: str) -> re.Pattern[str]:
    """A pattern that finds a character in ranges."""
    escaped = ("-".join(re.escape(chr(int(point, 16))) for point in each.split("-")) for each in ranges.split())
    return re.compile(f"[{''.join(escaped)}]")


IS_BEYOND = any_in("10000-10FFFF")


class CharacterSearch:
    """Finds out whether a text holds a character of a set.

    Two patterns, because the search is forty times faster while a class stays within the basic plane.
    """

    def __init__(self, basic: str, beyond: str) -> None:
        self.basic, self.beyond = any_in(basic), any_in(beyond)

    def __call__(self, text: str) -> bool:
        if text.isascii():
            return False
        if self.basic.search(text):
            return True
        beyond = IS_BEYOND.findall(text)
        return bool(beyond) and self.beyond.search("".join(beyond)) is not None


class CodePoints:
    """A set of code points: `65 in CodePoints("41-5A")`."""

    def __init__(self, ranges: str) -> None:
        self.bounds: list[int] = []  # the first of each range, and the one behind its last
        for each in ranges.split():
            first, _, last = each.partition("-")
            self.bounds += (int(first, 16), int(last or first, 16) + 1)

    def __contains__(self, point: int) -> bool:
        return bisect_right(self.bounds, point) % 2 == 1
