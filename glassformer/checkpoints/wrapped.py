"""Weight names that begin with something that is not the model's: a wrapper's mark is read through, another is told."""

from __future__ import annotations

from collections import Counter

from .keymap import KeyMap
from .weights import Weights

WRAPPERS = {"module.": "DataParallel", "_orig_mod.": "torch.compile"}  # what each puts before every name of a model


def unwrapped(weights: Weights) -> Weights:
    """The weights under the model's own names, if they were saved from inside a wrapper of torch.

    Nothing has to be guessed: a wrapper marks every name, or it was none.
    """
    for mark in WRAPPERS:
        if len(weights) and all(name.startswith(mark) for name in weights):
            return unwrapped(weights.without(mark))
    return weights


def wrapper_notes(weights: Weights) -> list[str]:
    """What to say of a mark that was read through."""
    makers = " and ".join(maker for mark, maker in WRAPPERS.items() if mark in weights.prefix)
    return [f"every weight's name begins with {weights.prefix!r}, as {makers} saves it; read without"] if makers else []


def hint_at_prefix(weights: Weights, keymap: KeyMap) -> str:
    """What to say when the body's names all stand behind those of another module; nothing if they do not."""
    names = weights.names()
    if any(keymap.is_of_body(name) for name in names):
        return ""
    found = Counter(before for name in names if (before := before_body(name, keymap)))
    if not found:
        return ""
    prefix = found.most_common(1)[0][0]
    return (
        f"; its names begin with {prefix!r}, so the model was a part of a larger one when it was saved: save that part "
        f"alone, as in whole.{prefix}save_pretrained(folder), or take {prefix!r} off the names"
    )


def before_body(name: str, keymap: KeyMap) -> str:
    """What stands before a name of the body: `model.` in `model.embeddings.word_embeddings.weight`."""
    parts = name.split(".")
    for i in range(1, len(parts)):
        if keymap.is_of_body(".".join(parts[i:])):
            return ".".join(parts[:i]) + "."
    return ""
