"""Interventions while a model runs: heads and layers switched off or scaled, outputs of modules changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..models.base.pretrained_model import PreTrainedModel
from ..nn.scoped_hooks import HookScope
from .addressing import CROSS, SELF, attention_of, matching, only_where_named, slots_of
from .capture import Layouts, layout_for, record_layouts

Factors = Mapping[int, Mapping[int, float | Tensor] | Iterable[int]]  # {layer: heads}, or {layer: {head: factor}}
Patch = Callable[[Tensor], Tensor] | Tensor


@contextmanager
def patched(
    model: PreTrainedModel,
    modules: Mapping[str, Patch] | None = None,
    *,
    heads: Factors | None = None,
    cross_heads: Factors | None = None,
    skip: Iterable[int] | int = (),
) -> Iterator[None]:
    """Patch what the runs inside the `with` compute, in this thread or asyncio task and the tasks it starts.

    `modules` maps names or patterns to a tensor that replaces their output, or a function of it; in the body both are
    laid out B T C. `heads` and `cross_heads` switch heads off ({0: [1, 2]}) or scale their outputs ({0: {1: 0.5}}),
    numbered as in the unpruned model; all layers stay fused. `skip` leaves layers out.

    >>> with model.patched(heads={0: [3]}, skip=[5]):                               # doctest: +SKIP
    ...     out = model(**batch)
    """
    with HookScope() as scope:
        for kind, plan in ((SELF, heads), (CROSS, cross_heads)):
            if not isinstance(plan, Mapping | None):
                raise InputError(f"heads are named by layer, {{0: [1, 2]}}, got {plan!r}")
            for layer, factors in (plan or {}).items():
                attention = attention_of(model, layer, kind)
                scope.before(attention.output, scope.only_in(model.layers, layer, scale_heads(attention, factors)))
        for layer in [skip] if isinstance(skip, int) else skip:
            scope.after(model.layer(layer), scope.only_in(model.layers, layer, skip_layer))
        layouts: Layouts = {}
        record_layouts(model, layouts, scope)
        for pattern, patch in (modules or {}).items():
            for name, module in matching(model, [pattern]).items():
                scope.after(module, only_where_named(model, name, patch_output(name, patch, layouts), scope))
        yield


def scale_heads(attention: nn.Module, factors: Mapping[int, float | Tensor] | Iterable[int]) -> Callable:
    """A hook that multiplies the outputs of heads before they are projected: the same as multiplying their weights."""
    factors = factors if isinstance(factors, Mapping) else dict.fromkeys(factors, 0.0)
    size, slots = attention.self.attention_head_size, slots_of(attention, factors)
    by_slot = dict(zip(slots, factors.values(), strict=True))

    def scaled(_: nn.Module, inputs: tuple) -> tuple:
        context, *rest = inputs
        heads = context.shape[-1] // size
        scale = torch.stack([torch.as_tensor(by_slot.get(slot, 1.0)).to(context) for slot in range(heads)])
        return (context * scale.repeat_interleave(size), *rest)

    return scaled


def skip_layer(_: nn.Module, inputs: tuple, out: Tensor) -> Tensor:
    """A hook that skips a layer: it returns its input."""
    return inputs[0]


def patch_output(name: str, patch: Patch, layouts: Layouts) -> Callable:
    """A hook that replaces the output of a module."""
    if "embeddings" in name:
        raise InputError(f"{name} runs before the batch is laid out: pass inputs_embeds, or patch a layer")

    def patched_output(_: nn.Module, __: tuple, out: Any) -> Any:
        first, *rest = out if isinstance(out, tuple) else (out,)
        layout = layout_for(name, first, layouts)
        old = first if layout is None else layout.unpack(first)
        new = patch(old) if callable(patch) else patch
        if not isinstance(new, Tensor):
            raise InputError(f"the patch of {name} is a {type(new).__name__}, and a tensor is needed")
        if new.shape != old.shape:
            raise InputError(f"{name} returns the shape {list(old.shape)}, and the patch has {list(new.shape)}")
        new = new.to(first) if layout is None else layout.pack(new.to(first))
        return (new, *rest) if isinstance(out, tuple) else new

    return patched_output
