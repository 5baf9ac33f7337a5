"""What quantization learns from a user's own inputs: which channels have outliers, and which layers lose too much.

A row is rounded to 256 levels between its lowest and its highest value, so one channel with large values takes the
digits of all others. Dividing the inputs of a layer by a number for each channel, and multiplying the weights by it,
changes no product, and moves the outliers into the weights (SmoothQuant, Xiao et al. 2022). For every layer the
strength is taken that loses least on the inputs that were seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .linear import can_be_reduced

STRENGTHS = (0.3, 0.5, 0.7)
ROWS = 512  # of a layer's inputs that are kept for comparing
CLEARLY_BETTER = 0.8  # of the error without: a smoothed layer takes one more pass over its inputs
MAX_ERROR = 0.04  # of a layer's output, relative and squared-mean; above, it stays in float


@dataclass
class Inputs:
    """What was seen of the inputs that one or several layers read."""

    layers: list[nn.Module]
    largest: Tensor  # C
    rows: Tensor  # N C


@dataclass
class Calibration:
    """The numbers that divide the inputs of layers, and the layers that should stay in float."""

    input_scales: dict[nn.Module, Tensor] = field(default_factory=dict)
    sensitive: set[nn.Module] = field(default_factory=set)
    errors: dict[nn.Module, float] = field(default_factory=dict)  # of the output, relative

    @classmethod
    @torch.no_grad()
    def of(cls, model: nn.Module, batches: Iterable[Any]) -> Calibration:
        """Run the batches: each is a mapping of arguments, or the one argument, of `model`; or a function that runs."""
        found = cls()
        for inputs in observe(model, batches):
            found.judge(inputs)
        return found

    def judge(self, inputs: Inputs) -> None:
        """Choose the smoothing of layers that read the same inputs, and whether each can be quantized."""
        weights = [layer.weight.float() for layer in inputs.layers]  # type: ignore[union-attr]
        largest_weight = torch.stack([weight.abs().amax(0) for weight in weights]).amax(0)  # C
        scales: list[Tensor | None] = [None, *(smoothing(inputs.largest, largest_weight, each) for each in STRENGTHS)]
        errors = [[error_of(inputs.rows, weight, scale) for weight in weights] for scale in scales]
        totals = [sum(each) for each in errors]
        best = min(range(len(scales)), key=totals.__getitem__)
        if totals[best] > CLEARLY_BETTER * totals[0]:
            best = 0
        for layer, error in zip(inputs.layers, errors[best], strict=True):
            self.errors[layer] = error
            if error > MAX_ERROR:
                self.sensitive.add(layer)
            scale = scales[best]
            if scale is not None:
                self.input_scales[layer] = scale


def observe(model: nn.Module, batches: Iterable[Any]) -> list[Inputs]:
    """The inputs of all layers that can be quantized; those that read the very same rows stand together."""
    found: dict[nn.Module, Inputs] = {}
    last: list[Any] = [None, None]  # the rows of the latest call, and what was seen of them

    def look(layer: nn.Module, args: tuple) -> None:
        given = args[0]
        rows = given.detach().reshape(-1, given.shape[-1]).float()
        if layer not in found:
            if last[0] is not given or last[1] is None:
                last[1] = Inputs([], rows.new_zeros(rows.shape[1]), rows[:0])
            found[layer] = last[1]
            last[1].layers.append(layer)
        inputs = found[layer]
        last[:] = given, inputs if inputs.layers[-1] is layer else None
        if inputs.layers[0] is layer and len(rows):
            inputs.largest = torch.maximum(inputs.largest, rows.abs().amax(0))
            if len(inputs.rows) < ROWS:
                step = max(1, len(rows) * 8 // ROWS)  # some of each batch
                inputs.rows = torch.cat((inputs.rows, rows[::step]))[:ROWS]

    hooks = [each.register_forward_pre_hook(look) for each in model.modules() if can_be_reduced(each)]
    count = 0
    try:
        for batch in batches:
            if callable(batch):
                batch()
            elif isinstance(batch, Mapping):
                model(**batch)
            else:
                model(batch)
            count += 1
    finally:
        for hook in hooks:
            hook.remove()
    if not count:
        raise InputError("calibrate needs at least one batch of inputs, got none")
    return list({id(each): each for each in found.values() if len(each.rows)}.values())


def smoothing(largest: Tensor, largest_weight: Tensor, strength: float) -> Tensor:
    """The number for each channel: large where inputs are large and weights small; 1 where nothing was seen."""
    scale = largest.clamp(min=1e-5) ** strength / largest_weight.clamp(min=1e-5) ** (1 - strength)
    scale = scale / scale.log().mean().exp()
    return torch.where(largest > 0, scale.clamp(1e-3, 1e3), torch.ones_like(scale))


def error_of(rows: Tensor, weight: Tensor, scale: Tensor | None) -> float:
    """How far the product in 8 bits is from that in float: root mean square, relative."""
    from .quantize import Int8Linear

    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device="meta")
    linear.weight = nn.Parameter(weight, requires_grad=False)
    exact = F.linear(rows, weight)
    return float((Int8Linear.of(linear, scale)(rows) - exact).norm() / exact.norm().clamp(min=1e-12))
