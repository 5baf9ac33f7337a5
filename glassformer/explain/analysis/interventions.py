"""What changes when parts of a model are switched off, scaled, or patched from another text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from ..addressing import layer_names
from ..patch import patched
from ..reading import Reading, resolve_position
from .logit_lens import Prediction, predict


@dataclass(frozen=True)
class Intervention:
    """What to change in a run."""

    heads: Mapping[int, Mapping[int, float]] = field(default_factory=dict)  # {layer: {head: factor}}, 0 is off
    cross_heads: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    skip: Sequence[int] = ()  # layers that are left out
    source: Reading | None = None  # another text, whose vectors are patched in
    layer: int | None = None  # after this layer
    places: Mapping[int, int] | None = None  # {here: there} positions to patch; None: all

    def module_patches(self, reading: Reading) -> dict:
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
        targets = [resolve_position(place, len(here)) for place in places]
        vectors = there[[resolve_position(place, len(there)) for place in places.values()]]

        def patch(states: Tensor) -> Tensor:
            states = states.clone()
            states[0, targets] = vectors
            return states

        return {names[self.layer]: patch}


@dataclass(frozen=True)
class Effect:
    """An answer before and after, and how far every token's last vector moved."""

    before: list[Prediction]
    after: list[Prediction]
    divergence: float | None  # of the answer, in bits (Kullback-Leibler); None where the answer is no choice
    moved: list[float]  # 1 - cosine of the last vector before and after


def layer_output(reading: Reading, layer: int) -> Tensor:
    """The vectors right after a layer, before a final normalisation."""
    subject = reading.subject
    name = layer_names(subject.model)[layer]
    with torch.no_grad(), subject.model.capture(modules=[name]) as captured:
        subject.forward(reading)
    return captured[name][0]


@torch.no_grad()
def intervene(reading: Reading, intervention: Intervention, position: int = -1, count: int = 10) -> Effect:
    """Run the model on the same ids with an intervention."""
    subject = reading.subject
    changed = subject.fresh_copy(reading)
    head_factors = {"heads": intervention.heads, "cross_heads": intervention.cross_heads}
    with patched(subject.model, intervention.module_patches(reading), **head_factors, skip=intervention.skip):
        subject.run(changed)
    before, after = predict(reading, position, count=count), predict(changed, position, count=count)
    moved = 1 - F.cosine_similarity(reading.hidden[-1].double(), changed.hidden[-1].double(), dim=-1)
    return Effect(before, after, divergence(reading, changed, position), moved.clamp(min=0).tolist())


def divergence(before: Reading, after: Reading, position: int) -> float | None:
    subject = before.subject
    if subject.kind == "none" or subject.function != "softmax":
        return None
    first, second = (reading.logits(position).double().log_softmax(-1) for reading in (before, after))
    return max(0.0, ((first - second) * first.exp()).sum().item() / torch.log(torch.tensor(2.0)).item())
