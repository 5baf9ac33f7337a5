"""Attention over short sequences: two batched products, which a CPU computes faster there than the fused kernel.

The fused kernel takes queries in blocks of 32. Measured on two cores, microseconds for sequences x length, 12 heads:

    head 64     1 x 30   2 x 32   1 x 96   8 x 96   32 x 36     head 32     2 x 20   32 x 36   16 x 128
    fused           59       83      233     1863      3017                     55      1713       4752
    two products    46       70      189     1584      1979                     44       955       4799
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SHORT = 96  # positions; of a sequence alone, so that its numbers do not depend on its batch


def is_short(q: Tensor, k: Tensor) -> bool:
    """Whether these queries and keys (B H T D) are computed faster by two products; never with gradients."""
    if torch.is_grad_enabled() or not q.is_cpu or q.dtype not in (torch.float32, torch.float64):
        return False
    return 1 < q.shape[2] <= SHORT and k.shape[2] <= SHORT


def attend_to_few(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None, scale: float | None) -> Tensor:
    """softmax(q kᵀ / sqrt(D) + hidden) v; `hidden`, T S, is added to the scores of all heads: B H T D."""
    batch, heads, queries, width = q.shape
    q, k, v = (x.reshape(batch * heads, *x.shape[2:]) for x in (q, k, v))
    scale = 1 / math.sqrt(width) if scale is None else scale
    added = q.new_empty(1, 1, 1) if hidden is None else hidden[None]
    scores = torch.baddbmm(added, q, k.transpose(1, 2), beta=0 if hidden is None else 1, alpha=scale)
    weights = torch.softmax(scores, -1, out=scores)
    return torch.bmm(weights, v).view(batch, heads, queries, -1)
