"""Lists of numbers in words, English and Chinese, from short to long: train.tsv and test.tsv.

    python scripts/make_number_lists.py runs/lists

Nothing in a list predicts the next number, so a translator has to remember the list or attend to it.
"""

import random
import sys
from pathlib import Path

from glassformer.data.number_words import number_in_chinese, number_in_english

LENGTHS = range(2, 10)  # numbers in a list
PARTS = {"test": 800, "train": 20_000}


def main(folder: str) -> None:
    rng, used = random.Random(0), set()
    Path(folder).mkdir(parents=True, exist_ok=True)
    for part, count in PARTS.items():
        rows = ["source\ttarget"]
        while len(rows) <= count:
            numbers = tuple(rng.randrange(100) for _ in range(LENGTHS[len(rows) % len(LENGTHS)]))
            if numbers not in used:
                used.add(numbers)
                english, chinese = map(number_in_english, numbers), map(number_in_chinese, numbers)
                rows.append(f"{', '.join(english)}\t{'、'.join(chinese)}")
        Path(folder, f"{part}.tsv").write_text("\n".join([*rows, ""]), encoding="utf-8")
        print(f"{count:,} pairs in {Path(folder, part)}.tsv")


if __name__ == "__main__":
    main(*sys.argv[1:])
