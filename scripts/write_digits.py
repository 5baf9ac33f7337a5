"""Write scikit-learn's handwritten digits (1,797 pictures of 8 x 8) as a folder per class: train and test.

python scripts/write_digits.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

TEST = 360  # pictures, a fifth


def write_digits(folder: Path) -> None:
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.images))
    for place, number in enumerate(order):
        part = "test" if place < TEST else "train"
        file = folder / part / str(digits.target[number]) / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.round(digits.images[number] * (255 / 16)).astype(np.uint8)).save(file)


if __name__ == "__main__":
    write_digits(Path(sys.argv[1]))
    print(f"wrote {sys.argv[1]}/train and {sys.argv[1]}/test")
