"""Prepared weights: copies that make long inference faster, built once for a model and shared by all threads.

A prepared model is a twin of the module tree: the same parameters, but every linear layer holds a packed copy of its
weights, and self-attention one product for queries, keys and values. The twin runs the very same `forward`, and runs it
directly: it is used only where no hook waits to be called. It belongs to its model, takes about as much memory as the
weights, and is rebuilt when a parameter has changed (training, loading, pruning).
"""

from __future__ import annotations

import copy
import threading
import weakref
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .attention import SelfAttention
from .context import ContextModule
from .linear import Linear, pack
from .quantize import can_be_fused
from .scoped_hooks import is_observed

Model = TypeVar("Model", bound=nn.Module)

STRIDE = 61  # of the values that a fingerprint adds up; a change through `.data` leaves no other trace

_prepared: weakref.WeakKeyDictionary[nn.Module, tuple[Any, nn.Module]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def prepared(model: Model) -> Model:
    """The twin of `model` with prepared weights; the model itself where they would not be used.

    That is: in training, with gradients, under autocast, on another device than a CPU, in other types than float32 and
    bfloat16, or while a hook observes it.

    >>> model = nn.Sequential(Linear(4, 3)).eval()
    >>> with torch.no_grad():
    ...     twin = prepared(model)
    ...     twin is prepared(model), bool((twin(torch.ones(5, 4)) == model(torch.ones(5, 4))).all())
    (True, True)
    """
    if model.training or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or is_observed(model):
        return model
    parameters = list(model.parameters())
    if any(p.device.type != "cpu" or p.dtype not in (torch.float32, torch.bfloat16) for p in parameters):
        return model
    now = fingerprint(parameters)
    with _lock:
        known, twin = _prepared.get(model, (None, None))
        if twin is None or known != now:
            twin = make_twin(model, {})
            _prepared[model] = (now, twin)
        return twin


def release_prepared_weights(model: nn.Module) -> None:
    """Free the memory of the copies; they are built again when they are needed."""
    with _lock:
        _prepared.pop(model, None)


def fingerprint(parameters: list[Tensor]) -> tuple:
    """A value that changes whenever a parameter does."""
    with torch.no_grad():
        sums = torch.stack([p.detach().view(-1)[::STRIDE].sum() for p in parameters]).tolist()
    return tuple(
        (id(p), p.data_ptr(), 0 if p.is_inference() else p._version, total)
        for p, total in zip(parameters, sums, strict=True)
    )


def make_twin(module: nn.Module, twins: dict[nn.Module, nn.Module], is_cross_attention: bool = False) -> nn.Module:
    """A shallow copy of a module tree with prepared weights; `twins` holds the modules that are copied already."""
    if module in twins:
        return twins[module]
    twin = twins[module] = copy.copy(module)
    if "forward" not in module.__dict__:
        twin.__class__ = without_hooks(type(module))
    children = module._modules
    parts = [children.get(name) for name in ("query", "key", "value")] if isinstance(module, SelfAttention) else []
    if parts and not is_cross_attention and all(type(part) is Linear for part in parts):
        twin.__dict__["fused"] = fuse(parts)
    elif parts and not is_cross_attention and can_be_fused(parts):
        twin.__dict__["fused"] = type(parts[0]).fused(parts)
    else:
        twin.__dict__["_modules"] = {
            name: child and make_twin(child, twins, is_cross_attention or name == "crossattention")
            for name, child in children.items()
        }
    if type(module) is Linear:
        twin.packed = pack(module.weight)
    twin.__dict__.update(twin._modules | twin._parameters)  # read without a search through both tables
    return twin


@cache
def without_hooks(kind: type[nn.Module]) -> type[nn.Module]:
    """The class with a call that is its `forward`; itself if it defines what a call does."""
    if kind.__call__ not in (nn.Module.__call__, ContextModule.__call__):
        return kind
    return type(kind.__name__, (kind,), {"__call__": kind.forward, "__module__": kind.__module__})


def fuse(layers: list[Linear]) -> Linear:
    """One linear layer in place of several that read the same rows; some of them may have no bias."""
    outputs, has_bias = sum(layer.out_features for layer in layers), any(layer.bias is not None for layer in layers)
    fused = Linear(layers[0].in_features, outputs, bias=has_bias, device="meta")
    fused.weight = nn.Parameter(torch.cat([layer.weight for layer in layers]), requires_grad=False)
    if has_bias:
        biases = [layer.weight.new_zeros(layer.out_features) if layer.bias is None else layer.bias for layer in layers]
        fused.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
    return make_twin(fused, {})
