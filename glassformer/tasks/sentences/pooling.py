"""Pooling of token vectors to a text's vector, and the layers after it, as in Sentence-BERT folders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ConfigError, nearest


def mean_pooling(states: Tensor, mask: Tensor) -> Tensor:
    """The mean over real tokens: B T C and B T -> B C."""
    weights = mask.unsqueeze(-1).to(states.dtype)  # B T 1
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9)


def mean_sqrt_pooling(states: Tensor, mask: Tensor) -> Tensor:
    """The sum over real tokens, divided by the square root of their number."""
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1e-9).sqrt()


def weighted_mean_pooling(states: Tensor, mask: Tensor) -> Tensor:
    """The mean over real tokens, weighted by their positions from 1."""
    positions = torch.arange(1, mask.shape[1] + 1, device=mask.device)
    return mean_pooling(states, mask * positions)


def max_pooling(states: Tensor, mask: Tensor) -> Tensor:
    """The largest value of each component."""
    return states.masked_fill(~mask.bool().unsqueeze(-1), float("-inf")).amax(1)


def first_pooling(states: Tensor, mask: Tensor) -> Tensor:
    """The first token, [CLS] in BERT."""
    return states[torch.arange(len(states), device=states.device), mask.bool().int().argmax(1)]


def last_pooling(states: Tensor, mask: Tensor) -> Tensor:
    """The last real token, which in a decoder attends to all others."""
    positions = torch.arange(mask.shape[1], device=mask.device)
    last = (mask.bool() * positions).amax(1)
    return states[torch.arange(len(states), device=states.device), last]


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # in the order in which several are concatenated
    "cls": first_pooling,
    "max": max_pooling,
    "mean": mean_pooling,
    "mean_sqrt_len_tokens": mean_sqrt_pooling,
    "weightedmean": weighted_mean_pooling,
    "lasttoken": last_pooling,
}


class Pooling(nn.Module):
    """Pools token vectors to one vector, by one mode or by several that are concatenated."""

    def __init__(self, modes: str | Sequence[str] = "mean", include_prompt: bool = True) -> None:
        super().__init__()
        self.modes = (modes,) if isinstance(modes, str) else tuple(modes)
        self.include_prompt = include_prompt
        for mode in self.modes or ("",):
            if mode not in POOLINGS:
                raise ConfigError(f"pooling {mode!r} is not one of {', '.join(POOLINGS)}{nearest(str(mode), POOLINGS)}")

    def forward(self, states: Tensor, mask: Tensor, prompt_length: int = 0) -> Tensor:
        """B T C and B T -> B C; the prompt's tokens are left out if `include_prompt` is False."""
        if prompt_length and not self.include_prompt:
            mask = mask.clone()
            mask[:, :prompt_length] = 0
        return torch.cat([POOLINGS[mode](states, mask) for mode in self.modes], dim=-1)

    def extra_repr(self) -> str:
        return ", ".join(self.modes)


class Dense(nn.Module):
    """A linear layer with an activation on the text's vector."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, activation: nn.Module | None = None):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, bias=bias)
        self.activation_function = nn.Tanh() if activation is None else activation

    def forward(self, vectors: Tensor) -> Tensor:
        return self.activation_function(self.linear(vectors))

    def settings(self) -> dict[str, Any]:
        """The content of its config.json."""
        activation = type(self.activation_function)
        return {
            "in_features": self.linear.in_features,
            "out_features": self.linear.out_features,
            "bias": self.linear.bias is not None,
            "activation_function": f"{activation.__module__}.{activation.__name__}",
        }


class Normalize(nn.Module):
    """Scales vectors to length 1."""

    def forward(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1)
