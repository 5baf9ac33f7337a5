"""Find the characters for which the Rust engine and the original algorithm differ; writes engine_exceptions.py.

    python tests/text/make_engine_exceptions.py [other python executables ...]

Every code point is put into several surroundings and tokenized both ways, under every combination of options. Added to
the differing ones are code points that Unicode 13 (Python 3.10) did not have, and those whose properties differ between
the Python versions given: for them the running Python decides, as it does for the original.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import textwrap
import unicodedata
from collections import Counter
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFD, BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from glassformer.text.wordpiece.wordpiece import BasicTokenizer, lower

OPTIONS = [(True, None), (True, False), (False, None), (False, True)]
SURROUNDINGS = (
    "{}",
    "a{}b",
    "ab{}",
    "AB{} C{}",
    "中{}中",
    "e\u0301{}",
    "{}\u0301a",
    "a{}\u0334\u0315b",
    "\u0315{}\u0334x",
    ".{}.",
)
CHANGED_LATER = {0x1171E}  # Mn until Unicode 14, Mc in Unicode 18: newer than the Pythons one can ask today
TABLE = Path(__file__).resolve().parents[2] / "glassformer" / "text" / "engine" / "engine_exceptions.py"
HEAD = '''"""Characters for which the Rust engine may differ from the original algorithm.

Its Unicode tables are older than Python's, and it misses 256 Chinese characters from U+2B820 on. Also listed: what
Unicode 13 did not have or what has changed since, where the running Python decides; and lone surrogates, which Rust
cannot hold. Made by tests/text/make_engine_exceptions.py from a comparison of all characters; do not edit.
"""

from __future__ import annotations

from .character_sets import CharacterSearch

BASIC = """
{basic}
"""

BEYOND = """
{beyond}
"""

# Whether a text holds a character that the engine might treat in another way than the original.
engine_may_differ = CharacterSearch(BASIC, BEYOND)
'''
PROPERTIES = """
import json, unicodedata as u
print(json.dumps([[u.category(c), u.normalize("NFD", c), u.combining(c), c.lower(), c.isspace()]
                  for c in map(chr, range(0x110000)) if not 0xD800 <= ord(c) <= 0xDFFF]))
"""


def properties(python: str) -> list:
    listed = json.loads(subprocess.run([python, "-c", PROPERTIES], capture_output=True, check=True, text=True).stdout)
    return listed[:0xD800] + [None] * 0x800 + listed[0xD800:]


def differing(do_lower_case: bool, strip_accents: bool | None, chinese: bool) -> dict[int, str]:
    """Code points (of this Python's tables) for which words or offsets differ, with one text that shows it."""
    basic = BasicTokenizer(do_lower_case, (), chinese, strip_accents)
    engine = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    engine.normalizer = BertNormalizer(True, chinese, strip_accents, do_lower_case)
    engine.pre_tokenizer = BertPreTokenizer()
    found = {}
    for point in range(0x110000):
        char = chr(point)
        kind = unicodedata.category(char)
        if kind in ("Cs", "Cn") or (kind == "Co" and point % 64):
            continue
        for text in [" ".join(SURROUNDINGS).replace("{}", char), *(s.replace("{}", char) for s in SURROUNDINGS)]:
            lowered, origins = lower(text, range(len(text))) if do_lower_case else (text, range(len(text)))
            words = list(basic.words(lowered, origins))
            theirs = [word for word, _ in engine.pre_tokenizer.pre_tokenize_str(engine.normalizer.normalize_str(text))]
            same = [word.text for word in words] == theirs
            if not same:
                found[point] = text
                break
            if [(word.start, word.end) for word in words] != engine.encode(text).offsets:
                found[point] = text
                break
            if text is not char and len(text) > 20:
                break  # all surroundings at once are equal
    return found


def ranges(points: set[int]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for point in sorted(points):
        # Beyond the basic plane (but for emoji) short trusted gaps are not worth a line in the table.
        slack = 64 if point >= 0x10000 and not 0x1F000 <= point < 0x20000 else 1
        if made and point - made[-1][1] <= slack and not made[-1][1] < 0x10000 <= point:
            made[-1] = (made[-1][0], point)
        else:
            made.append((point, point))
    return made


def main() -> None:
    bad: dict[int, str] = {}
    for (do_lower_case, strip_accents), chinese in itertools.product(OPTIONS, (True, False)):
        found = differing(do_lower_case, strip_accents, chinese)
        print(f"lower={do_lower_case} strip={strip_accents} chinese={chinese}: {len(found)} differ", flush=True)
        bad |= found
    print("kinds that differ:", Counter(unicodedata.category(chr(point)) for point in bad))
    for point, text in list(bad.items())[:: max(1, len(bad) // 40)]:
        print(f"  U+{point:04X} {unicodedata.name(chr(point), '?')}: {text!a}")
    tables = [properties(python) for python in sys.argv[1:] or [sys.executable]]
    nfd = NFD()
    unassigned = {p for p in range(0x110000) if any(t[p] is None or t[p][0] == "Cn" for t in tables)}
    changed = {p for p in range(0x110000) if p not in unassigned and any(t[p] != tables[0][p] for t in tables)}
    normal = {p for p in range(0x110000) if p not in unassigned and nfd.normalize_str(chr(p)) != tables[0][p][1]}
    print(f"unassigned somewhere: {len(unassigned)}; changed: {sorted(map(hex, changed))}; NFD differs: {len(normal)}")
    made = ranges(set(bad) | unassigned | changed | normal | CHANGED_LATER)
    print(len(made), "ranges,", sum(b - a + 1 for a, b in made), "code points")
    write(made)


def write(made: list[tuple[int, int]]) -> None:
    shown = [f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in made]
    basic = sum(b < 0x10000 for _, b in made)
    parts = [textwrap.fill(" ".join(part), 118, break_on_hyphens=False) for part in (shown[:basic], shown[basic:])]
    TABLE.write_text(HEAD.format(basic=parts[0], beyond=parts[1]), encoding="utf-8")


if __name__ == "__main__":
    main()
