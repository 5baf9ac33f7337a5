"""What a head does, in a few numbers; and attention rollout through the layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError
from ..addressing import CROSS
from ..reading import Part, Reading
from .attention_rollout import rollout_step

MEASURES = {  # of a head, over all its queries -> what it means
    "entropy": "how widely it spreads its attention, in bits",
    "distance": "how far away it looks, in tokens",
    "first": "share of its attention on the first token, such as [CLS]",
    "separator": "share on separators, such as [SEP]",
    "previous": "share on the token before",
    "next": "share on the token behind",
    "own": "share on the token itself",
    "largest": "share of the largest weight, on average",
}


def entropy(weights: Tensor) -> Tensor:
    """... T S -> ... T, in bits."""
    return torch.special.entr(weights).sum(-1) / torch.log(torch.tensor(2.0, dtype=weights.dtype))


def distance(weights: Tensor) -> Tensor:
    """The mean distance that the weights reach: ... T S -> ... T"""
    rows, columns = (torch.arange(n, device=weights.device) for n in weights.shape[-2:])
    return (weights * (rows[:, None] - columns).abs()).sum(-1)


def share_at(weights: Tensor, offset: int) -> Tensor:
    """The mean weight on the token `offset` places away, over the tokens that have one: ... T S -> ..."""
    found = weights.diagonal(offset, -2, -1)
    return found.mean(-1) if found.shape[-1] else weights.new_zeros(weights.shape[:-2])


def measure(weights: Tensor, separators: list[bool], within: bool = True) -> dict[str, Tensor]:
    """Every measure of heads H T S; `separators` (S) marks separators.

    Distances and neighbours are known only `within` one text, not between two.
    """
    marks = torch.tensor(separators, device=weights.device)
    found = {
        "entropy": entropy(weights).mean(-1),
        "first": weights[..., 0].mean(-1),
        "separator": (weights * marks).sum(-1).mean(-1),
        "largest": weights.amax(-1).mean(-1),
    }
    if within:
        found |= {
            "distance": distance(weights).mean(-1),
            "previous": share_at(weights, -1),
            "next": share_at(weights, 1),
            "own": share_at(weights, 0),
        }
    return {name: found[name] for name in MEASURES if name in found}


def thumbnails(weights: Tensor, side: int) -> Tensor:
    """Thumbnails of heads, at most `side` wide: H T S -> H t s bytes; a pixel is the largest of the weights it covers.

    In a long text all weights are small, and a smaller one already has the strongest colour: see `saturation` in
    assets/canvas.js.
    """
    shape, saturation = [min(side, n) for n in weights.shape[-2:]], min(1.0, 24 / weights.shape[-1])
    if shape != list(weights.shape[-2:]):
        weights = F.adaptive_max_pool2d(weights.float(), shape)
    return (weights * (255 / saturation)).round().clamp(max=255).to(torch.uint8)


def rollout(reading: Reading, last: int, name: str = "all") -> Tensor:
    """How much of each token reaches each position through the layers up to `last` (Abnar and Zuidema 2020).

    T S, rows sum to 1; residuals count as half.

    For an encoder-decoder, what reaches a target position comes from the target ("decoder") and from the source
    ("cross"): the rows of both together sum to 1.
    """
    if all(part.kind == CROSS for part in reading.parts.values()):
        raise InputError("rollout follows attention from layer to layer, and this model has no layers of it")
    if name in ("decoder", "cross"):
        return target_rollout(reading, last)[name]
    part = next(iter(reading.parts.values()))
    flow = torch.eye(len(part.left.ids))
    for layer in layers_up_to(part, last):
        flow = mix_with_residual(reading, layer, part, flow)
    return flow


def target_rollout(reading: Reading, last: int) -> dict[str, Tensor]:
    encoder, decoder, cross = reading.parts.values()
    encoded = rollout(reading, encoder.layers[-1], "encoder")
    target, source = torch.eye(len(decoder.left.ids)), torch.zeros(len(cross.left.ids), len(cross.right.ids))
    for layer in layers_up_to(decoder, last):
        target, source = (mix_with_residual(reading, layer, decoder, flow) for flow in (target, source))
        target, source = target / 2, (mean_of_heads(reading, layer, cross) @ encoded + source) / 2
    return {"decoder": target, "cross": source}


def layers_up_to(part: Part, last: int) -> list[int]:
    return [layer for layer in part.layers if layer <= last]


def mix_with_residual(reading: Reading, layer: int, part: Part, flow: Tensor) -> Tensor:
    """One layer of rollout: half attention, half residual."""
    return rollout_step(mean_of_heads(reading, layer, part), flow)


def mean_of_heads(reading: Reading, layer: int, part: Part) -> Tensor:
    """T S"""
    total, heads = None, 0
    for weights in reading.weights_in_parts(layer, part):
        part_sum, heads = weights.float().sum(0), heads + len(weights)
        total = part_sum if total is None else total + part_sum
    return total / heads
