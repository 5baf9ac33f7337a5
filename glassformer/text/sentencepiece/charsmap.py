"""The replacement rules of a normaliser, as SentencePiece compiles them: text -> the text that takes its place.

A compiled map is the size of a trie, the trie, and the replacements, each ended by a NUL. The trie is a double array:
units of 32 bits; a node has a base, and its children stand at the base, exclusive-or the byte that leads to them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ...errors import TokenizerError

# Bounds that no real map comes near; in a hostile one, nodes lead back to themselves.
LONGEST_RULE = 64  # characters that a rule replaces
MOST_CONTINUATIONS = 2000  # characters that follow one character in rules


class Rule(NamedTuple):
    """What takes the place of how many characters."""

    replaced: int
    replacement: str


class Charsmap:
    """The rules of a compiled map; without one, nothing is replaced.

    >>> Charsmap(b"", "example").rule_at("½", 0) is None
    True
    """

    def __init__(self, data: bytes, where: str) -> None:
        self.where = where
        self.units: list[int] = []
        self.texts = b""
        if data:
            import numpy

            size = int.from_bytes(data[:4], "little")
            if len(data) < 8 or size % 4 or not 4 <= size <= len(data) - 4:
                raise self.damaged(f"its trie has {size} bytes, {max(len(data) - 4, 0)} are there")
            self.units = numpy.frombuffer(data, dtype="<u4", count=size // 4, offset=4).tolist()
            self.texts = data[4 + size :]
        self.node_of = lru_cache(maxsize=20_000)(self._node_of)
        self.continuations = lru_cache(maxsize=20_000)(self._continuations)

    def rule_at(self, text: str, start: int) -> Rule | None:
        """The longest rule for what stands at a place of a text."""
        found = None
        base: int | None = None
        for end in range(start, len(text)):
            if end - start > LONGEST_RULE:
                raise self.damaged(f"a rule is longer than {LONGEST_RULE} characters")
            base, replacement = self.node_of(text[end], base)
            if base is None:
                break
            if replacement is not None:
                found = Rule(end + 1 - start, replacement)
        return found

    def _node_of(self, char: str, base: int | None) -> tuple[int | None, str | None]:
        """The node that a character leads to, from another or from the root; and the replacement if a rule ends there.

        The node is given by its base; None if no rule goes on like this.
        """
        units = self.units
        if base is None:
            if not units:
                return None, None
            base = offset(units[0])
        replacement = None
        for byte in char.encode("utf-8", "surrogatepass"):
            index = base ^ byte
            if not byte or index >= len(units) or units[index] & 0x800000FF != byte:
                return None, None
            unit = units[index]
            base = index ^ offset(unit)
            if unit >> 8 & 1:
                if base >= len(units):
                    raise self.damaged("its trie points outside of it")
                replacement = self.replacement(units[base] & 0x7FFFFFFF)
            else:
                replacement = None
        return base, replacement

    def _continuations(self, char: str) -> frozenset[str]:
        """The characters that can follow a character within a rule."""
        base, _ = self.node_of(char, None)
        found: set[str] = set()
        waiting = [(b"", base)] if base is not None else []
        while waiting:
            if len(found) + len(waiting) > MOST_CONTINUATIONS:
                raise self.damaged(f"more than {MOST_CONTINUATIONS} characters follow another one in its rules")
            prefix, node = waiting.pop()
            for byte in range(1, 256):
                index = node ^ byte
                if index >= len(self.units) or self.units[index] & 0x800000FF != byte:
                    continue
                key = prefix + bytes([byte])
                try:
                    found.add(key.decode("utf-8"))
                except UnicodeDecodeError:
                    if len(key) > 3:
                        raise self.damaged("a rule is not UTF-8") from None
                    waiting.append((key, index ^ offset(self.units[index])))
        return frozenset(found)

    def replacement(self, start: int) -> str:
        end = self.texts.find(b"\0", start)
        if not 0 <= start < len(self.texts) or end < 0:
            raise self.damaged("a replacement stands outside of it")
        try:
            return self.texts[start:end].decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged("a replacement is not UTF-8") from None

    def damaged(self, what: str) -> TokenizerError:
        return TokenizerError(f"{self.where}: the map of replaced characters is damaged: {what}")


def offset(unit: int) -> int:
    """How far a node's base is from the node, in the bits that change."""
    return (unit >> 10) << ((unit & 0x200) >> 6)
