"""Attention rollout (Abnar and Zuidema 2020): how much of each token reaches each position through several layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import InputError
from ...nn.tensor_inputs import FLOATING, check_tensor


def attention_rollout(attentions: Sequence[Tensor], residual: float = 0.5) -> tuple[Tensor, ...]:
    """Rollout up to each layer, B T S, from the weights of attention of each layer, B H T S; rows sum to 1.

    In every layer the mean of the heads counts, and the residual connection around them as `residual` of the whole.

    >>> out = model(**batch, output_attentions=True)                    # doctest: +SKIP
    >>> attention_rollout(out.attentions)[-1][0, 0]                     # doctest: +SKIP
    """
    if isinstance(attentions, Tensor):
        raise InputError("rollout takes the weights of each layer: a list of tensors, not one tensor")
    if not attentions or not isinstance(residual, int | float) or not 0 <= residual <= 1:
        raise InputError(
            f"rollout takes the weights of one layer or more, and a residual from 0 to 1; got {len(attentions)} layers "
            f"and {residual!r:.40}"
        )
    flows: list[Tensor] = []
    for layer, weights in enumerate(attentions):
        check_tensor(weights, f"attentions[{layer}]", FLOATING, "B H T S")
        if weights.shape[2] != weights.shape[3]:
            raise InputError(f"rollout follows attention among the same tokens, got weights {list(weights.shape)}")
        mean = weights.mean(1)  # B T S
        before = flows[-1] if flows else torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device).expand_as(mean)
        flows.append(rollout_step(mean, before, residual))
    return tuple(flows)


def rollout_step(weights: Tensor, flow: Tensor, residual: float = 0.5) -> Tensor:
    """One layer of rollout: attention and residual, both of what reached the layer."""
    return (1 - residual) * (weights @ flow) + residual * flow
