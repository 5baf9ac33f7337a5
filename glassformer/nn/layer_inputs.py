"""Checks of what the tutorials pass to layers and attentions directly: B T C, additive masks, keys and values.

Keys and values of earlier calls are checked here for complete models too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from .cache import Cache
from .tensor_inputs import FLOATING, as_dtype, check_broadcast, check_finite, check_flag, check_tensor


def check_vectors(x: Any, name: str, module: nn.Module) -> None:
    """Refuse vectors B T C that a module's first linear layer cannot read."""
    parameter = next(module.parameters(), None)
    check_tensor(x, name, FLOATING, "B T C", None if parameter is None else parameter.device)
    first = next((each for each in module.modules() if hasattr(each, "in_features")), None)
    if first is not None and x.shape[-1] != first.in_features:
        raise InputError(f"{name} must have {first.in_features} columns, got {list(x.shape)}")
    if 0 in x.shape:
        raise InputError(f"{name} must not be empty, got {list(x.shape)}")
    if parameter is not None and parameter.dtype in FLOATING.dtypes and x.dtype != parameter.dtype:
        as_dtype(x, parameter.dtype, name)
        if not torch.is_autocast_enabled(x.device.type):
            raise InputError(f"{name} must have the dtype {parameter.dtype} of the weights, got {x.dtype}")


def additive_mask_of(mask: Any, name: str, shape: tuple[int, ...], x: Tensor) -> Tensor:
    """The additive mask of a direct call in the dtype of the vectors, after a check of its shape."""
    check_tensor(mask, name, device=x.device)
    if mask.dtype == torch.bool:
        raise InputError(f"{name} of a direct call is added to the scores: model.get_extended_attention_mask makes it")
    check_broadcast(mask, shape, name)
    mask = mask.reshape((1,) * (len(shape) - mask.dim()) + tuple(mask.shape))
    return mask.expand(shape[0], -1, -1, -1).to(x.dtype)


def check_head_mask(mask: Any, attention: Any, x: Tensor, keys: int) -> None:
    """Refuse a mask of the heads of one layer that does not broadcast to its weights, B H T S."""
    check_tensor(mask, "head_mask", device=x.device)
    if not mask.dim():
        raise InputError("head_mask must hold a value for each head, got one number")
    check_broadcast(mask, (len(x), attention.num_attention_heads, x.shape[1], keys), "head_mask")
    check_finite(mask, "head_mask")


def check_head_masks(masks: Any, layers: Sequence[nn.Module], past: int, x: Tensor) -> None:
    """Refuse masks of heads (None for a layer without one) that do not fit the layers."""
    if not isinstance(masks, list | tuple):
        check_tensor(masks, "head_mask")
    if getattr(masks, "shape", None) == () or len(masks) != len(layers):
        raise InputError(f"head_mask must hold a mask, or None, for each of {len(layers)} layers")
    for mask, layer in zip(masks, layers, strict=True):
        if mask is not None:
            check_head_mask(mask, attention_of(layer), x, past + x.shape[1])


def check_keys_and_values(past: Any, attention: Any, batch: int, like: Tensor, name: str) -> int:
    """Refuse keys and values (and those of a source) that do not fit an attention; how many tokens they hold."""
    if not isinstance(past, list | tuple) or len(past) not in (2, 4):
        raise InputError(f"{name} must be keys and values that an earlier call returned, got {type(past).__name__}")
    for first in range(0, len(past), 2):
        count = None
        for place in (first, first + 1):
            tensor, where = past[place], f"{name}[{place}]"
            check_tensor(tensor, where, FLOATING, "B H S D", like.device)
            count = tensor.shape[2] if count is None else count
            heads, size = attention.num_attention_heads if not first else tensor.shape[1], attention.attention_head_size
            if place == 0:
                size = getattr(attention, "key_width", size)  # of linear attention: features
            if list(tensor.shape) != [batch, heads, count, size]:
                raise InputError(f"{where} must have the shape {[batch, heads, count, size]}, got {list(tensor.shape)}")
            if as_dtype(tensor, like.dtype, where).dtype != tensor.dtype:
                raise InputError(f"{where} must have the dtype {like.dtype}, got {tensor.dtype}")
    return past[0].shape[2]


def attention_of(module: nn.Module) -> Any:
    """The first attention in a module: it knows the number and the size of the heads."""
    return next((each for each in module.modules() if hasattr(each, "attention_head_size")), None)


def check_flags(**flags: Any) -> None:
    for name, flag in flags.items():
        check_flag(flag, name)


def check_past_of_layers(past: Any, layers: Sequence[nn.Module], batch: int, like: Tensor) -> int:
    """Refuse keys and values of earlier calls that do not fit the layers; how many tokens they hold."""
    if not isinstance(past, Cache | list | tuple):
        raise InputError("past_key_values are the ones an earlier call returned: one pair for each layer")
    if len(past) != len(layers):
        raise InputError(f"past_key_values must hold {len(layers)} layers, got {len(past)}")
    if isinstance(past, Cache):
        kept = [each.self_attention for each in past.layers]
        for layer, cached in zip(layers, kept, strict=True):
            if cached.keys is not None:
                check_keys_and_values((cached.keys, cached.values), attention_of(layer), batch, like, "past_key_values")
        return past.length
    lengths = [
        check_keys_and_values(each, attention_of(layer), batch, like, f"past_key_values[{i}]")
        for i, (each, layer) in enumerate(zip(past, layers, strict=True))
    ]
    if len(set(lengths)) > 1:
        raise InputError(f"past_key_values must hold as many tokens in each layer, got {lengths}")
    return lengths[0]
