"""The bricks without their modules, for steps so small that finding a module takes longer than its arithmetic.

A layer's `bare()` puts these together into one function that does what its `forward` does for a single token of every
continuation, when nobody looks on. Generation reads word by word through it; a test pins it to `forward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import SelfAttention
from .cache import Room
from .linear import Linear, free_memory, multiply, multiply_packed, pack

STEPS = 32  # from which on packing pays

Brick = Callable[[Tensor], Tensor]
Step = Callable[[Tensor, Room, Tensor | None, int], Tensor]  # rows N C, the layer's room, mask, sequences -> N C


def is_watched(module: nn.Module) -> bool:
    """Whether a hook or a watcher somewhere in `module` wants to see what passes."""
    hooks = torch.nn.modules.module
    if hooks._global_forward_hooks or hooks._global_forward_pre_hooks:
        return True
    return any(
        part._forward_hooks or part._forward_pre_hooks or getattr(part, "watcher", None) for part in module.modules()
    )


class Copies(NamedTuple):
    """Which copies of weights a reader makes to be quicker."""

    fused: bool = False  # queries, keys and values in one matrix
    packed_for: int = 0  # rows that matrices are packed for; 0: not at all

    @classmethod
    def for_reading(cls, module: nn.Module, rows: int, steps: int) -> Copies:
        """Those that pay when `module` reads so many rows in so many steps, and that fit in memory."""
        needed = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
        if steps < STEPS or needed > free_memory() / 2:
            return cls()
        return cls(fused=True, packed_for=rows if rows > 1 else 0)  # one row reads any order as fast


NO_COPIES = Copies()


def linear(module: nn.Module, copies: Copies = NO_COPIES) -> Brick:
    if type(module) is not Linear:
        return module.forward
    return product(module.weight, module.bias, copies)


def product(weight: Tensor, bias: Tensor | None, copies: Copies) -> Brick:
    packed = pack(weight, copies.packed_for) if copies.packed_for else None
    if packed is None:
        return lambda x: multiply(x, weight, bias)
    return lambda x: multiply_packed(x, packed, bias)


def norm(module: nn.LayerNorm) -> Brick:
    shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
    return lambda x: F.layer_norm(x, shape, weight, bias, eps)


def activation(module: nn.Module) -> Brick:
    """What it is given is written over where the module can do that."""
    return getattr(module, "overwrite", module.forward)


def attention(module: SelfAttention, copies: Copies = NO_COPIES) -> Step:
    heads, size, scale = module.num_attention_heads, module.attention_head_size, module.scale
    parts = [module.query, module.key, module.value]
    project = fused(parts, copies) if copies.fused and all(type(part) is Linear for part in parts) else apart(parts)

    def attend(x: Tensor, room: Room, mask: Tensor | None, batch: int) -> Tensor:
        q, k, v = (part.view(batch, -1, heads, size).transpose(1, 2) for part in project(x))  # B H T D
        k, v = room.add(k, v)  # B H S D
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)
        return y.transpose(1, 2).reshape(len(x), heads * size)  # N C

    return attend


def crossing(module: SelfAttention, copies: Copies = NO_COPIES) -> Step:
    """Attention to a source whose keys and values the room holds already."""
    heads, size, scale = module.num_attention_heads, module.attention_head_size, module.scale
    query = linear(module.query, copies)

    def attend(x: Tensor, room: Room, mask: Tensor | None, batch: int) -> Tensor:
        q = query(x).view(batch, -1, heads, size).transpose(1, 2)  # B H T D
        y = F.scaled_dot_product_attention(q, room.keys, room.values, attn_mask=mask, scale=scale)
        return y.transpose(1, 2).reshape(len(x), heads * size)  # N C

    return attend


def apart(modules: list[nn.Module]) -> Callable[[Tensor], Iterable[Tensor]]:
    """Several linear layers that read the same rows."""
    bricks = [linear(module) for module in modules]
    return lambda x: [brick(x) for brick in bricks]


def fused(modules: list[Linear], copies: Copies) -> Callable[[Tensor], Iterable[Tensor]]:
    """The same in one product."""
    whole = product(
        torch.cat([module.weight for module in modules]), torch.cat([module.bias for module in modules]), copies
    )
    return lambda x: whole(x).chunk(len(modules), -1)
