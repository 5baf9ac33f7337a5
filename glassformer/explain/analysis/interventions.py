"""What changes when something inside is switched off, scaled, or taken from another text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from ..addressing import layer_names
from ..patch import patched
from ..reading import Reading
from .logit_lens import Guess, predict


@dataclass(frozen=True)
class Change:
    """What to do differently."""

    heads: Mapping[int, Mapping[int, float]] = field(default_factory=dict)  # {layer: {head: factor}}, 0 is off
    cross_heads: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    skip: Sequence[int] = ()  # layers that are left out
    source: Reading | None = None  # another text, whose vectors
    layer: int | None = None  # behind this layer
    places: Mapping[int, int] | None = None  # stand at these places {here: there}; None: at all

    def modules(self, reading: Reading) -> dict:
        if self.source is None:
            return {}
        names = layer_names(reading.subject.model)
        count = len(names)
        if self.layer is None or not 0 <= self.layer < count:
            raise InputError(f"there are layers 0 to {count - 1} to patch, got {self.layer}")
        there, here = layer_output(self.source, self.layer), layer_output(reading, self.layer)  # T C each
        if self.places is None and len(there) != len(here):
            raise InputError(
                f"the texts have {len(here)} and {len(there)} tokens there: name the places that are patched"
            )
        places = dict(enumerate(range(len(here)))) if self.places is None else self.places
        to = [within(place, len(here)) for place in places]
        given = there[[within(place, len(there)) for place in places.values()]]

        def put(states: Tensor) -> Tensor:
            states = states.clone()
            states[0, to] = given
            return states

        return {names[self.layer]: put}


@dataclass(frozen=True)
class Effect:
    """An answer before and after, and how far every token's last vector moved."""

    before: list[Guess]
    after: list[Guess]
    divergence: float | None  # of the answer, in bits (Kullback-Leibler); None where nothing is chosen
    moved: list[float]  # 1 - cosine of the last vector before and after


def within(place: int, length: int) -> int:
    if not -length <= place < length:
        raise InputError(f"there are positions 0 to {length - 1}, got {place}")
    return place % length


def layer_output(reading: Reading, layer: int) -> Tensor:
    """The vectors right behind a layer, before whatever comes after the last one."""
    subject = reading.subject
    name = layer_names(subject.model)[layer]
    with torch.no_grad(), subject.model.capture(modules=[name]) as seen:
        subject.forward(reading)
    return seen[name][0]


@torch.no_grad()
def try_change(reading: Reading, change: Change, position: int = -1, count: int = 10) -> Effect:
    """Read the same ids again with something changed."""
    subject = reading.subject
    again = subject.unread(reading)
    of_heads = {"heads": change.heads, "cross_heads": change.cross_heads}
    with patched(subject.model, change.modules(reading), **of_heads, skip=change.skip):
        subject.run(again)
    before, after = predict(reading, position, count=count), predict(again, position, count=count)
    moved = 1 - F.cosine_similarity(reading.hidden[-1].double(), again.hidden[-1].double(), dim=-1)
    return Effect(before, after, divergence(reading, again, position), moved.clamp(min=0).tolist())


def divergence(before: Reading, after: Reading, position: int) -> float | None:
    subject = before.subject
    if subject.kind == "none" or subject.function != "softmax":
        return None
    first, second = (reading.logits(position).double().log_softmax(-1) for reading in (before, after))
    return max(0.0, ((first - second) * first.exp()).sum().item() / torch.log(torch.tensor(2.0)).item())
