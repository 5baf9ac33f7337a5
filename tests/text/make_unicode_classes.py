"""Write unicode_classes.py: what the `regex` module calls letters and numbers, and where engines disagree.

    python tests/text/make_unicode_classes.py [folders with other versions of the tokenizers library ...]

GPT-2's tokenization was written with the `regex` module and its `\\p{L}`, `\\p{N}` and `\\s`. Every code point is asked
for there, and then given to the engine beside a letter, a number and a sign, which shows how the engine counts it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import regex

TABLE = Path(__file__).resolve().parents[2] / "glassformer" / "text" / "engine" / "unicode_classes.py"
SURROGATES = range(0xD800, 0xE000)
WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
HEAD = '''"""Which characters are letters and which are numbers, the same in every Python.

GPT-2 cuts texts at these borders. Python's own tables depend on its version; these are those of the `regex` module
{version}, with which the original works. `UNSURE` are letters and numbers that some version of the Rust
engine does not know yet, and lone surrogates, which it cannot hold: texts with them use the readable algorithm.
Made by tests/text/make_unicode_classes.py from a comparison of all characters; do not edit.
"""

from __future__ import annotations

from .character_sets import CharacterSearch, CodePoints

LETTERS = """
{letters}
"""

NUMBERS = """
{numbers}
"""

UNSURE_BASIC = """
{basic}
"""

UNSURE_BEYOND = """
{beyond}
"""

LETTER_POINTS, NUMBER_POINTS = CodePoints(LETTERS), CodePoints(NUMBERS)

# Whether a text holds a character that some engine does not take for the letter or number it is.
engine_may_pre_tokenize_differently = CharacterSearch(UNSURE_BASIC, UNSURE_BEYOND)
'''
PROBE = r"""
import json
from tokenizers.pre_tokenizers import ByteLevel
engine = ByteLevel(add_prefix_space=False)
def kind(char):
    for beside, name in ("a", "L"), ("1", "N"), ("!", "O"):
        if len(engine.pre_tokenize_str(beside + char)) == 1:
            return name
    return "S"
print(json.dumps("".join("-" if 0xD800 <= p < 0xE000 else kind(chr(p)) for p in range(0x110000))))
"""


def kind_in_original(char: str) -> str:
    for name, pattern in ("L", r"\p{L}"), ("N", r"\p{N}"), ("S", r"\s"):
        if regex.match(pattern, char):
            return name
    return "O"


def kinds_in_engine(folder: str | None) -> str:
    place = {} if folder is None else {"PYTHONPATH": folder}
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, check=True, env=os.environ | place)
    return json.loads(done.stdout)


def shown(points: list[int]) -> str:
    made: list[list[int]] = []
    for point in points:
        if made and point == made[-1][1] + 1:
            made[-1][1] = point
        else:
            made.append([point, point])
    listed = " ".join(f"{a:X}" if a == b else f"{a:X}-{b:X}" for a, b in made)
    return textwrap.fill(listed, 118, break_on_hyphens=False)


def main() -> None:
    points = [point for point in range(0x110000) if point not in SURROGATES]
    original = {point: kind_in_original(chr(point)) for point in points}
    assert "".join(chr(p) for p in points if original[p] == "S") == WHITE_SPACE
    unsure = set(SURROGATES)
    for folder in (None, *sys.argv[1:]):
        kinds = kinds_in_engine(folder)
        differing = {point for point in points if kinds[point] != original[point]}
        assert all(kinds[point] == "O" and original[point] in "LN" for point in differing)
        print(f"{folder or 'the installed engine'}: {len(differing)} characters differ")
        unsure |= differing
    TABLE.write_text(
        HEAD.format(
            version=regex.__version__,
            letters=shown([p for p in points if original[p] == "L"]),
            numbers=shown([p for p in points if original[p] == "N"]),
            basic=shown(sorted(p for p in unsure if p < 0x10000)),
            beyond=shown(sorted(p for p in unsure if p >= 0x10000)),
        ),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
