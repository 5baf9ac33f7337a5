"""Attention of recurrent decoders (Bahdanau, Luong): a decoder's state attends to all states of the encoder."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import ConfigError, nearest
from .mask import mask_to_bias

METHODS = ("dot", "general", "concat")


class BahdanauAttention(nn.Module):
    """score = v tanh(W_h key + W_s query) (Bahdanau et al. 2014, "additive").

    >>> context, weights = BahdanauAttention(8)(torch.randn(2, 8), torch.randn(2, 5, 8))
    >>> context.shape, weights.shape
    (torch.Size([2, 8]), torch.Size([2, 5, 1]))
    """

    def __init__(self, hidden_size: int):
        super().__init__()
        self.W_h = nn.Linear(hidden_size, hidden_size)
        self.W_s = nn.Linear(hidden_size, hidden_size)
        self.v = nn.Linear(hidden_size, 1)

    def prepare(self, keys: Tensor) -> Tensor:
        """The part of the score that depends on the keys only: B T C"""
        return self.W_h(keys)

    def score(self, query: Tensor, prepared: Tensor) -> Tensor:
        """B C, B T C -> B 1 T"""
        return self.v(torch.tanh(prepared + self.W_s(query)[:, None])).transpose(1, 2)

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """B C, B T C -> the context B C and the weights B T 1; `mask` (B T) is 0 where a key is masked."""
        context, weights = weighted_sum(self.score(query, self.prepare(keys)), keys if values is None else values, mask)
        return context, weights.transpose(1, 2)


class LuongAttention(nn.Module):
    """score = query · key ("dot"), W query · key ("general") or v tanh(W [query; key]) ("concat") (Luong et al. 2015).

    >>> context, weights = LuongAttention(8, method="general")(torch.randn(2, 8), torch.randn(2, 5, 8))
    >>> context.shape, weights.shape
    (torch.Size([2, 8]), torch.Size([2, 5]))
    """

    def __init__(self, hidden_size: int, method: str = "dot"):
        super().__init__()
        if method not in METHODS:
            hint = nearest(str(method), METHODS)
            raise ConfigError(f"method must be one of {', '.join(METHODS)}; got {method!r}{hint}")
        self.method = method
        if method == "general":
            self.W = nn.Linear(hidden_size, hidden_size, bias=False)
        elif method == "concat":
            self.W = nn.Linear(2 * hidden_size, hidden_size)
            self.v = nn.Linear(hidden_size, 1)

    def prepare(self, keys: Tensor) -> Tensor:
        """The part of the score that depends on the keys only: the keys themselves."""
        return keys

    def score(self, query: Tensor, prepared: Tensor) -> Tensor:
        """B C, B T C -> B 1 T"""
        if self.method == "concat":
            pairs = torch.cat((query[:, None].expand_as(prepared), prepared), dim=-1)  # B T 2C
            return self.v(torch.tanh(self.W(pairs))).transpose(1, 2)
        query = self.W(query) if self.method == "general" else query
        return query[:, None] @ prepared.transpose(1, 2)

    def forward(
        self, query: Tensor, keys: Tensor, values: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """B C, B T C -> the context B C and the weights B T; `mask` (B T) is 0 where a key is masked."""
        context, weights = weighted_sum(self.score(query, self.prepare(keys)), keys if values is None else values, mask)
        return context, weights[:, 0]


def weighted_sum(scores: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """B 1 T, B T C and a mask B T -> the context B C and the weights B 1 T."""
    return apply_scores(scores if mask is None else scores + mask_to_bias(mask[:, None], scores.dtype), values)


def apply_scores(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """B 1 T, B T C -> the context B C and the weights B 1 T."""
    weights = scores.softmax(-1)
    return (weights @ values)[:, 0], weights
