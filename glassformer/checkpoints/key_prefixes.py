"""Prefixes of weight names that are not the model's: those of torch's wrappers are removed, others are reported."""

from __future__ import annotations

from collections import Counter

from .keymap import KeyMap
from .weights import Weights

WRAPPER_PREFIXES = {"module.": "DataParallel", "_orig_mod.": "torch.compile"}  # each is put before every name


def without_wrapper_prefix(weights: Weights) -> Weights:
    """The weights under the model's own names, if they were saved from inside a wrapper of torch.

    Nothing has to be guessed: a wrapper puts its prefix before every name, or there was none.
    """
    for prefix in WRAPPER_PREFIXES:
        if len(weights) and all(name.startswith(prefix) for name in weights):
            return without_wrapper_prefix(weights.without(prefix))
    return weights


def wrapper_prefix_notes(weights: Weights) -> list[str]:
    """The report of a wrapper's prefix that was removed."""
    wrappers = " and ".join(name for prefix, name in WRAPPER_PREFIXES.items() if prefix in weights.prefix)
    if not wrappers:
        return []
    return [f"every weight's name begins with {weights.prefix!r}, as {wrappers} saves it; read without"]


def hint_at_prefix(weights: Weights, keymap: KeyMap) -> str:
    """A hint for errors if the body's names all have the prefix of another module; empty if they do not."""
    names = weights.names()
    if any(keymap.is_of_body(name) for name in names):
        return ""
    prefixes = Counter(prefix for name in names if (prefix := prefix_before_body(name, keymap)))
    if not prefixes:
        return ""
    prefix = prefixes.most_common(1)[0][0]
    return (
        f"; its names begin with {prefix!r}, so the model was a part of a larger one when it was saved: save that part "
        f"alone, as in whole.{prefix}save_pretrained(folder), or take {prefix!r} off the names"
    )


def prefix_before_body(name: str, keymap: KeyMap) -> str:
    """The prefix of a name of the body: `model.` in `model.embeddings.word_embeddings.weight`."""
    parts = name.split(".")
    for i in range(1, len(parts)):
        if keymap.is_of_body(".".join(parts[i:])):
            return ".".join(parts[:i]) + "."
    return ""
