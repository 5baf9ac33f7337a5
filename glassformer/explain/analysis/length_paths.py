"""The longest path between two words, measured: a word is changed, and what changes is followed from layer to layer.

A path is counted in steps that wait for each other: layers, and the words that a recurrent layer reads one by one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .length_layers import KINDS, Recurrent

NEAR = 32  # words on each side of the last one that changed, among which a convolution is followed
NARROW = 8  # the width of layers whose costs do not matter
RANDOM_WORDS = 3  # besides the first, the middle and the last one


@torch.no_grad()
def longest_path(kind: str, length: int) -> int:
    """After how many steps every word of a text knows of every other one, from some of them to all.

    >>> longest_path("convolutional", 9), longest_path("dilated", 9), longest_path("attention", 9)
    (8, 4, 1)
    """
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if kind == "recurrent":
            return recurrent_path(length)
        if kind == "convolutional":
            return convolutional_path(length)
        starts = {0, length // 2, length - 1, *torch.randint(length, (RANDOM_WORDS,), generator=generator).tolist()}
        if kind in ("dilated", "attention", "performer"):  # alike for all words; else the ends are farthest apart
            starts = {0}
        known = torch.zeros(len(starts), length, dtype=torch.bool)
        known[range(len(starts)), sorted(starts)] = True
        shared = None if KINDS[kind].make_stacked else narrow(KINDS[kind].make(NARROW))
        steps = 0
        while not bool(known.all()):
            layer = shared or narrow(KINDS[kind].make_stacked(NARROW, steps))
            spread = changed_by(layer, known)
            if torch.equal(spread | known, known):
                raise RuntimeError(f"a {kind} layer spreads nothing any more")  # impossible
            known, steps = spread | known, steps + 1
        return steps


def narrow(layer: nn.Module) -> nn.Module:
    """A layer in which every change can be seen: a ReLU would hide some of them."""
    if hasattr(layer, "activation"):
        layer.activation = nn.LeakyReLU(0.5)
    return layer.double().eval()


def convolutional_path(length: int) -> int:
    """How many layers it takes from the first word to the last; what is far from both sides of a change stays."""
    layer, last, steps = narrow(KINDS["convolutional"].make(NARROW)), 0, 0
    while last < length - 1:
        low, high = max(0, last - NEAR), min(length, last + 1 + NEAR)
        known = (torch.arange(low, high) <= last)[None]
        last, steps = low + int(changed_by(layer, known)[0].nonzero().max()), steps + 1
    return steps


def changed_by(layer: nn.Module, known: Tensor) -> Tensor:
    """Which outputs change with the inputs that are marked: B T."""
    x = torch.randn(1, known.shape[1], NARROW, dtype=torch.float64).expand(len(known), -1, -1)
    other = torch.where(known[..., None], torch.randn_like(x) + 3, x)
    return (layer(x.contiguous()) != layer(other)).any(-1)


def recurrent_path(length: int) -> int:
    """How many cells there are between the first word and the last state: each tells only the next one."""
    cell = Recurrent(NARROW).double().rnn
    x, steps = torch.randn(length, 1, 1, NARROW, dtype=torch.float64), 0
    state = torch.zeros(1, 1, NARROW, dtype=torch.float64)
    after, changed_after = cell(x[0], state)[1], cell(x[0] + 3, state)[1]
    for word in x[1:]:
        steps += not torch.equal(after, changed_after)
        state = after
        after, changed_after = cell(word, state)[1], cell(word, torch.randn_like(state))[1]
    return steps + (not torch.equal(after, changed_after))
