"""Compiling replacement rules to the form that SentencePiece reads: the reverse of `charsmap.py`."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping
from functools import cache

HAS_VALUE, IS_VALUE = 1 << 8, 1 << 31
FAR = 1 << 21  # from here on an offset is written without its last eight bits, which must be zero
WINDOW = 64  # units behind the last one in which gaps are filled
Trie = dict[int, "Trie"]  # the byte that leads to a node -> the node; a rule ends where 0 leads to the number of a text


@cache
def nfkc_charsmap(lowercase: bool = False) -> bytes:
    """The compiled rules of the normal form NFKC, and of small letters if these are wanted."""
    return compile_rules(nfkc_rules(lowercase))


def nfkc_rules(lowercase: bool = False) -> dict[str, str]:
    """What has another normal form: single characters, and letters with the marks that they are composed with.

    >>> rules = nfkc_rules()
    >>> rules["ﬁ"], rules["e\\u0301"], "a" in rules
    ('fi', 'é', False)
    """

    def normal(text: str) -> str:
        composed = unicodedata.normalize("NFKC", text)
        return unicodedata.normalize("NFKC", composed.lower()) if lowercase else composed

    rules = {}
    for point in range(1, sys.maxunicode + 1):
        char = chr(point)
        if 0xD800 <= point < 0xE000:
            continue
        if normal(char) != char:
            rules[char] = normal(char)
        apart = unicodedata.normalize("NFD", char)
        if len(apart) > 1 and unicodedata.normalize("NFC", apart) == char:
            for sequence in (apart, unicodedata.normalize("NFC", apart[:-1]) + apart[-1]):
                if normal(sequence) != sequence:
                    rules[sequence] = normal(sequence)
    for space in "\t\n\r":
        rules[space] = " "
    return rules


def compile_rules(rules: Mapping[str, str]) -> bytes:
    """The bytes of a map: the size of the trie, the trie, the replacements.

    >>> from .charsmap import Charsmap
    >>> Charsmap(compile_rules({"ab": "x", "a": "y"}), "example").rule_at("abc", 0)
    Rule(replaced=2, replacement='x')
    """
    texts = bytearray()
    starts: dict[str, int] = {}
    trie: Trie = {}
    for key, replacement in sorted(rules.items()):
        if replacement not in starts:
            starts[replacement] = len(texts)
            texts += replacement.encode() + b"\0"
        node = trie
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[0] = starts[replacement]  # type: ignore[assignment]
    units = double_array(trie)
    raw = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(raw).to_bytes(4, "little") + raw + bytes(texts)


def double_array(trie: Trie) -> list[int]:
    """The units of a trie: each node's children stand at its base, exclusive-or the byte that leads to them."""
    units: dict[int, int] = {0: 0}
    bases: set[int] = set()
    first_free, max_used = 1, 0
    waiting: list[tuple[int, Trie]] = [(0, trie)]
    while waiting:
        place, node = waiting.pop()
        while first_free in units:
            first_free += 1
        labels = sorted(node)
        candidate = max(first_free, max_used - WINDOW)
        while True:
            base = candidate ^ labels[0]
            distance = place ^ base
            fits = base not in bases and (distance < FAR or not distance & 0xFF)
            if fits and not any(base ^ label in units or base ^ label == 0 for label in labels):
                break
            candidate += 1
        bases.add(base)
        max_used = max(max_used, *(base ^ label for label in labels))
        units[place] |= distance << 10 if distance < FAR else (distance >> 8) << 10 | 1 << 9
        if 0 in node:
            units[place] |= HAS_VALUE
        for label in labels:
            child = node[label]
            if isinstance(child, int):
                units[base] = IS_VALUE | child
            else:
                units[base ^ label] = label
                waiting.append((base ^ label, child))
    size = (max(units) | 0xFF) + 1
    # A unit without a node must not look like one: its label is that of no byte.
    return [units.get(index, IS_VALUE) for index in range(size)]
