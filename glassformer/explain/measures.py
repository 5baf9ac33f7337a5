"""What a head does, in a few numbers; and all heads together, followed through the layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .subject import Reading

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
    """How far away the average look goes: ... T S -> ... T"""
    rows, columns = (torch.arange(n, device=weights.device) for n in weights.shape[-2:])
    return (weights * (rows[:, None] - columns).abs()).sum(-1)


def share_at(weights: Tensor, offset: int) -> Tensor:
    """The mean weight on the token `offset` places away, over the tokens that have one: ... T S -> ..."""
    found = weights.diagonal(offset, -2, -1)
    return found.mean(-1) if found.shape[-1] else weights.new_zeros(weights.shape[:-2])


def measure(weights: Tensor, separators: Tensor) -> dict[str, Tensor]:
    """Every measure of heads H T S; `separators` (S) is true where one stands."""
    return {
        "entropy": entropy(weights).mean(-1),
        "distance": distance(weights).mean(-1),
        "first": weights[..., 0].mean(-1),
        "separator": (weights * separators).sum(-1).mean(-1),
        "previous": share_at(weights, -1),
        "next": share_at(weights, 1),
        "own": share_at(weights, 0),
        "largest": weights.amax(-1).mean(-1),
    }


def separators_of(reading: Reading, ids: list[int] | None = None) -> Tensor:
    """Where separators stand among the ids that are looked at, the first token aside."""
    marks = {reading.subject.tokenizer.sep_token_id, reading.subject.tokenizer.eos_token_id} - {None}
    looked_at = reading.ids if ids is None else ids
    return torch.tensor([place > 0 and token in marks for place, token in enumerate(looked_at)])


def small(weights: Tensor, side: int) -> Tensor:
    """Pictures of heads, at most `side` wide: H T S -> H t s bytes; a pixel is the largest of the weights it covers."""
    shape = [min(side, n) for n in weights.shape[-2:]]
    if shape != list(weights.shape[-2:]):
        weights = F.adaptive_max_pool2d(weights.float(), shape)
    return (weights * 255).round().to(torch.uint8)


def rollout(reading: Reading, last: int) -> Tensor:
    """How much of each token reaches each place through layers 0 to `last`, residuals counted as half (Abnar and
    Zuidema 2020): T S, rows sum to 1."""
    flow = torch.eye(len(reading))
    for layer in range(last + 1):
        flow = (reading.weights(layer).float().mean(0) + torch.eye(len(reading))) / 2 @ flow
    return flow
