"""Find parts of a model: attentions by layer, heads by number, modules by name, for every architecture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn

from ..errors import InputError, nearest
from ..models.base.pretrained_model import PreTrainedModel
from ..nn.scoped_hooks import HookScope

Heads = bool | Iterable[int] | Mapping[int, Any] | None  # all, these layers, or {layer: heads}

SELF, CROSS = "attention", "crossattention"  # the names of a layer's attentions


def layer_names(model: PreTrainedModel) -> list[str]:
    """The names of the layers: "encoder.layer.0", ..., and "decoder.layer.0", ... where there is a decoder."""
    names: dict[int, list[str]] = {}  # of a module that is several layers, one for each
    for name, part in model.base_model.named_modules(remove_duplicate=False):
        names.setdefault(id(part), []).append(name)
    return [names[id(layer)].pop(0) for layer in model.layers]


def attention_of(model: PreTrainedModel, layer: int, kind: str = SELF) -> nn.Module:
    """The attention of one layer, with its output projection."""
    found = getattr(model.layer(layer), kind, None)
    if found is None:
        raise InputError(f"layer {layer} has no {kind}")
    return found


def only_where_named(model: PreTrainedModel, name: str, hook: Callable, scope: HookScope) -> Callable:
    """`hook` for a module of that name: of a module that is part of several layers, in the named layer alone."""
    number = next((i for i, each in enumerate(layer_names(model)) if f"{name}.".startswith(f"{each}.")), None)
    return hook if number is None else scope.only_in(model.layers, number, hook)


def layers_sharing(model: PreTrainedModel, layer: int) -> list[int]:
    """The numbers of all layers that are the same module as this one."""
    return [number for number, each in enumerate(model.layers) if each is model.layer(layer)]


def crossing_layers(model: PreTrainedModel) -> list[int]:
    """The layers with a cross-attention."""
    return [i for i, layer in enumerate(model.layers) if hasattr(layer, CROSS)]


def heads_of(attention: nn.Module) -> list[int]:
    """The heads that are present, numbered as in the unpruned model."""
    total = attention.self.num_attention_heads + len(attention.pruned_heads)
    return [head for head in range(total) if head not in attention.pruned_heads]


def slots_of(attention: nn.Module, heads: Iterable[int] | int | bool | None) -> list[int]:
    """The indices of `heads` (numbered as in the unpruned model) in the tensors; all for True and None."""
    present = heads_of(attention)
    if heads is None or heads is True:
        return list(range(len(present)))
    wanted = [heads] if isinstance(heads, int) else list(heads)
    for head in wanted:
        if head in attention.pruned_heads:
            raise InputError(f"head {head} was pruned from this layer, which has {present}")
        if head not in present:
            raise InputError(f"there are heads {present[0]} to {present[-1]}, got {head!r}")
    return [present.index(head) for head in wanted]


def heads_by_layer(model: PreTrainedModel, requested: Heads, kind: str = SELF) -> dict[int, list[int]]:
    """A request as {layer: slots}: True is all, a list names layers, a mapping names heads of layers."""
    count = len(model.layers)
    if requested is None or requested is False:
        return {}
    if not count:
        raise InputError(f"{type(model).__name__} has no attention layers to inspect")
    if requested is True:
        requested = range(count) if kind == SELF else crossing_layers(model)
        if not requested:
            raise InputError("no layer has a crossattention: the model was made without add_cross_attention=True")
    if isinstance(requested, int | str):
        requested = [requested]
    plan = dict(requested) if isinstance(requested, Mapping) else dict.fromkeys(requested)
    for layer in plan:
        if not isinstance(layer, int):
            raise InputError(f"layers are whole numbers, got {layer!r}")
    plan = {count + layer if -count <= layer < 0 else layer: heads for layer, heads in plan.items()}
    return {layer: slots_of(attention_of(model, layer, kind), heads) for layer, heads in plan.items()}


def modules_of(model: PreTrainedModel) -> dict[str, nn.Module]:
    """Every module by name: those of the body by their names in the body, others by those in the model."""
    body, prefix = model.base_model, f"{model.base_model_prefix}."
    named = {name: part for name, part in body.named_modules(remove_duplicate=False) if name}
    for name, part in model.named_modules():
        if name and part is not body and not (body is not model and name.startswith(prefix)):
            named[name] = part
    return named


def matching(model: PreTrainedModel, patterns: Iterable[str] | str) -> dict[str, nn.Module]:
    """The modules that match names or patterns: `encoder.layer.*.output` has one for each layer, `*` alone is all."""
    named, found, prefix = modules_of(model), {}, f"{model.base_model_prefix}."
    for given in [patterns] if isinstance(patterns, str) else patterns:
        pattern = given if given in named else given.removeprefix(prefix)
        wanted = re.compile(".*" if pattern == "*" else re.escape(pattern).replace(r"\*", "[^.]*"))
        these = {name: part for name, part in named.items() if wanted.fullmatch(name)}
        if not these:
            raise InputError(f"the model has no module {given!r}{nearest(pattern, named)}")
        found.update(these)
    return found
