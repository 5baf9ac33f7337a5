"""Split Tatoeba's pairs into train.tsv, dev.tsv and test.tsv.

    python scripts/split_tatoeba.py ../shared/data/tatoeba-cmn-eng/cmn.txt runs/tatoeba-data

Many sentences have several translations. Pairs that share a sentence, directly or through others, go into the same
part, so that no sentence of one part is in another. The same file always gives the same parts.
"""

import sys
from hashlib import blake2b
from pathlib import Path

PARTS = {"dev": range(4), "test": range(4, 8), "train": range(8, 100)}  # hundredths


def connected_groups(pairs: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Groups of pairs that share sentences, by one of their sentences."""
    parents: dict[str, str] = {}

    def root_of(sentence: str) -> str:
        while (other := parents.setdefault(sentence, sentence)) != sentence:
            sentence = other
        return sentence

    for pair in pairs:
        first, second = sorted(map(root_of, pair))
        parents[second] = first
    groups: dict[str, list[tuple[str, str]]] = {}
    for pair in pairs:
        groups.setdefault(root_of(pair[0]), []).append(pair)
    return groups


def main(file: str, folder: str) -> None:
    lines = [line.split("\t") for line in Path(file).read_text(encoding="utf-8").splitlines()]
    pairs = [(chinese, english) for english, chinese, _ in (line for line in lines if len(line) == 3)]
    print(f"{len(lines) - len(pairs)} lines of {len(lines):,} do not have three columns and are skipped")
    parts: dict[str, list[str]] = {name: [] for name in PARTS}
    for name, members in connected_groups(pairs).items():
        place = int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") % 100
        part = next(part for part, places in PARTS.items() if place in places)
        parts[part] += ["\t".join(pair) for pair in members]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for part, rows in parts.items():
        Path(folder, f"{part}.tsv").write_text("\n".join(["source\ttarget", *rows, ""]), encoding="utf-8")
        print(f"{len(rows):,} pairs in {Path(folder, part)}.tsv")


if __name__ == "__main__":
    main(*sys.argv[1:])
