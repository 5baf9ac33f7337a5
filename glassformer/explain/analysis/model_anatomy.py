"""The modules of a model with shapes, counts and the statistics of their weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ...models.base.pretrained_model import PreTrainedModel


@torch.no_grad()
def anatomy(model: PreTrainedModel) -> dict[str, Any]:
    """The tree of a model; a shared parameter is counted at its first place."""
    return describe_module(type(model).__name__, model, set())


def describe_module(name: str, module: nn.Module, counted: set[int]) -> dict[str, Any]:
    own = [(key, tensor) for key, tensor in module.named_parameters(recurse=False)]
    weights = [(key, tensor, id(tensor) not in counted) for key, tensor in own]
    counted.update(id(tensor) for _, tensor in own)
    children = [describe_module(key, child, counted) for key, child in module.named_children()]
    count = sum(tensor.numel() for _, tensor, new in weights if new) + sum(child["parameters"] for child in children)
    return {
        "name": name,
        "kind": type(module).__name__,
        "parameters": count,
        "weights": [{"name": key, "shared": not new, **statistics(tensor)} for key, tensor, new in weights],
        "children": children,
    }


def statistics(tensor: Tensor) -> dict[str, Any]:
    values = tensor.detach().float()
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "mean": values.mean().item(),
        "deviation": values.std(correction=0).item(),
        "lowest": values.amin().item(),
        "highest": values.amax().item(),
    }
