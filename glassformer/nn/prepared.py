"""Prepared weights: copies that make long inference faster, made once for a model and shared by all threads.

A prepared model is a twin of the module tree: the same classes and the same parameters, but every linear layer holds a
packed copy of its weights, and self-attention one product for queries, keys and values. The twin runs the very same
`forward`. It belongs to its model, takes about as much memory as the weights, and is made anew when a parameter has
changed (training, loading, pruning).
"""

from __future__ import annotations

import copy
import threading
import weakref
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .attention import SelfAttention
from .context import is_observed
from .linear import Linear, pack

Model = TypeVar("Model", bound=nn.Module)

STRIDE = 61  # of the values that a fingerprint adds up; a change through `.data` leaves no other trace

_prepared: weakref.WeakKeyDictionary[nn.Module, tuple[Any, nn.Module]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def prepared(model: Model) -> Model:
    """The twin of `model` with prepared weights; the model itself where they would not be used.

    That is: in training, with gradients, on another device or dtype than a CPU's float32, or while somebody observes.

    >>> model = nn.Sequential(Linear(4, 3)).eval()
    >>> with torch.no_grad():
    ...     twin = prepared(model)
    ...     twin is prepared(model), bool((twin(torch.ones(5, 4)) == model(torch.ones(5, 4))).all())
    (True, True)
    """
    if model.training or torch.is_grad_enabled() or is_observed(model):
        return model
    parameters = list(model.parameters())
    if any(p.device.type != "cpu" or p.dtype != torch.float32 for p in parameters):
        return model
    now = fingerprint(parameters)
    with _lock:
        known, twin = _prepared.get(model, (None, None))
        if twin is None or known != now:
            twin = twin_of(model, {})
            _prepared[model] = (now, twin)
        return twin


def release_prepared_weights(model: nn.Module) -> None:
    """Give the memory of the copies back; they are made again when they are needed."""
    with _lock:
        _prepared.pop(model, None)


def fingerprint(parameters: list[Tensor]) -> tuple:
    """What changes when parameters do."""
    with torch.no_grad():
        sums = torch.stack([p.detach().view(-1)[::STRIDE].sum() for p in parameters]).tolist()
    return tuple(
        (id(p), p.data_ptr(), 0 if p.is_inference() else p._version, total)
        for p, total in zip(parameters, sums, strict=True)
    )


def twin_of(module: nn.Module, made: dict[nn.Module, nn.Module], crosses: bool = False) -> nn.Module:
    """The module with prepared weights in it; `made` are those that stand in several places."""
    if module in made:
        return made[module]
    twin = made[module] = copy.copy(module)
    children = module._modules
    parts = [children.get(name) for name in ("query", "key", "value")] if isinstance(module, SelfAttention) else []
    if parts and not crosses and can_be_fused(parts):
        twin.__dict__["fused"] = fuse(parts)
        return twin
    twin.__dict__["_modules"] = {
        name: child and twin_of(child, made, crosses or name == "crossattention") for name, child in children.items()
    }
    if type(module) is Linear:
        twin.packed = pack(module.weight)
    return twin


def can_be_fused(layers: list[nn.Module]) -> bool:
    """Whether `fuse` computes what the layers do: they are plain ones, and all of them have a bias, or none has."""
    return all(type(layer) is Linear and (layer.bias is None) == (layers[0].bias is None) for layer in layers)


def fuse(layers: list[Linear]) -> Linear:
    """Several linear layers that read the same rows, in one."""
    has_bias, outputs = layers[0].bias is not None, sum(layer.out_features for layer in layers)
    fused = Linear(layers[0].in_features, outputs, bias=has_bias, device="meta")
    fused.weight = nn.Parameter(torch.cat([layer.weight for layer in layers]), requires_grad=False)
    if has_bias:
        fused.bias = nn.Parameter(torch.cat([layer.bias for layer in layers]), requires_grad=False)
    fused.packed = pack(fused.weight)
    return fused
