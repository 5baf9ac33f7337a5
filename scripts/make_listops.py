"""ListOps (Nangia and Bowman 2018) as in the Long Range Arena (Tay et al. 2020): train.tsv, valid.tsv and test.tsv.

    python scripts/make_listops.py runs/listops
    python scripts/make_listops.py runs/listops 96000 2000

[MAX 4 3 [MIN 2 3 ] 1 0 [MED 1 5 8 9 ] 2 ] is 6: operators are the maximum, the minimum, the median (rounded down, of an
even number the mean of the two in the middle) and the sum modulo 10 of up to ten digits or lists, ten lists deep. A
text has 500 to 2,000 tokens, and a model has to read nearly all of them.
"""

import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda values: int(statistics.median(values)),
    "[SM": lambda values: sum(values) % 10,
}
LIST_CHANCE = 0.25  # of an argument to be a list, not a digit
MAX_DEPTH, MAX_ARGUMENTS = 10, 10
MIN_LENGTH, MAX_LENGTH = 500, 2000


def write_list(rng: random.Random, depth: int, tokens: list[str]) -> int:
    """Append the tokens of a digit or a list, unless there are too many already; its value."""
    if len(tokens) > MAX_LENGTH or depth == MAX_DEPTH or rng.random() >= LIST_CHANCE:
        tokens.append(str(digit := rng.randrange(10)))
        return digit
    operator = rng.choice(list(OPERATORS))
    tokens.append(operator)
    count = rng.randint(2, MAX_ARGUMENTS)
    values = [write_list(rng, depth + 1, tokens) for _ in range(count)]
    tokens.append("]")
    return OPERATORS[operator](values)


def texts(rng: random.Random, count: int) -> list[str]:
    """Different lists of the wanted lengths, each with its value."""
    rows: dict[str, int] = {}
    while len(rows) < count:
        tokens: list[str] = []
        value = write_list(rng, 1, tokens)
        if MIN_LENGTH < len(tokens) < MAX_LENGTH:
            rows[" ".join(tokens)] = value
    return [f"{text}\t{value}" for text, value in rows.items()]


def main(folder: str, train: str = "96000", judged: str = "2000", seed: str = "0") -> None:
    rng = random.Random(int(seed))
    Path(folder).mkdir(parents=True, exist_ok=True)
    rows = texts(rng, int(train) + 2 * int(judged))
    rng.shuffle(rows)
    first = 0
    for part, count in (("train", int(train)), ("valid", int(judged)), ("test", int(judged))):
        lines = ["text\tlabel", *rows[first : first + count]]
        first += count
        Path(folder, f"{part}.tsv").write_text("\n".join([*lines, ""]), encoding="utf-8")
        print(f"{count:,} lists in {Path(folder, part)}.tsv")


if __name__ == "__main__":
    main(*sys.argv[1:])
