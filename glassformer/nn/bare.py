"""The bricks without their modules, for steps so small that finding a module takes longer than its arithmetic.

A layer's `bare()` puts these together into one function that does what its `forward` does for a single token of every
continuation, when nobody looks on. Generation reads word by word through it; a test pins it to `forward`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import SelfAttention
from .cache import Room
from .linear import Linear, multiply

Brick = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Room, Tensor | None, int], Tensor]  # rows N C, the layer's room, mask, sequences -> N C


def is_watched(module: nn.Module) -> bool:
    """Whether a hook somewhere in `module` wants to see what passes."""
    hooks = torch.nn.modules.module
    if hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return True
    return any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def linear(module: nn.Module) -> Brick:
    if type(module) is not Linear:
        return module.forward
    weight, bias = module.weight, module.bias
    return lambda x: multiply(x, weight, bias)


def norm(module: nn.LayerNorm) -> Brick:
    shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda x: F.layer_norm(x, shape, weight, bias, eps)


def activation(module: nn.Module) -> Brick:
    """What it is given is written over where the module can do that."""
    return getattr(module, "overwrite", module.forward)


def attention(module: SelfAttention) -> Step:
    parts = [linear(part) for part in (module.query, module.key, module.value)]
    heads, size, scale = module.num_attention_heads, module.attention_head_size, module.scale

    def attend(x: Tensor, room: Room, mask: Tensor | None, batch: int) -> Tensor:
        q, k, v = (part(x).view(batch, -1, heads, size).transpose(1, 2) for part in parts)  # B H T D
        k, v = room.add(k, v)  # B H S D
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        return y.transpose(1, 2).reshape(len(x), heads * size)  # N C

    return attend
