"""Pruning of attention heads, in self-attention and cross-attention."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from ...errors import InputError
from ...nn.attention import heads_to_keep
from ...nn.quantize import refuse_quantized

KINDS = {"pruned_heads": "attention", "pruned_cross_heads": "crossattention"}  # config field -> part of a layer


class PruningMixin:
    """A model whose layers have attention heads."""

    @property
    def distinct_layers(self) -> list[nn.Module]:
        """The layers that have weights of their own: a module that runs as several layers is here once.

        `config.pruned_heads` counts these.
        """
        return list(dict.fromkeys(self.layers))

    def prune_heads(
        self,
        heads_to_prune: Mapping[int, Iterable[int]],
        cross: Mapping[int, Iterable[int]] | None = None,
    ) -> None:
        """Remove heads permanently: {layer: heads}, numbered as in the unpruned model. Saved models stay pruned.

        Layers that share their weights lose them together. `cross` names heads of the cross-attention. transformers
        cannot read such files: it has no such pruning.

        >>> model.prune_heads({0: [2, 3], 5: [0]})  # doctest: +SKIP
        """
        given = {"pruned_heads": read_plan(heads_to_prune), "pruned_cross_heads": read_plan(cross or {})}
        plans = {field: self.plan_by_module(plan) for field, plan in given.items()}
        if self.adapter is not None:
            raise InputError(
                "only models without an adapter can be pruned; merge_lora(model) merges it into the weights first"
            )
        refuse_quantized(self, "pruned")
        for field, plan in plans.items():
            for layer, heads in plan.items():
                heads_to_keep(self.attention_of(layer, KINDS[field]), heads)  # check all before pruning any
        for field, plan in plans.items():
            for layer, heads in plan.items():
                attention = self.attention_of(layer, KINDS[field])
                attention.prune_heads(heads)
                getattr(self.config, field)[layer] = sorted(attention.pruned_heads)

    _prune_heads = prune_heads

    def plan_by_module(self, plan: Mapping[int, set[int]]) -> dict[int, set[int]]:
        """A plan for the `distinct_layers` from one for all layers."""
        places: dict[int, set[int]] = {}
        for layer, heads in plan.items():
            places.setdefault(self.distinct_layers.index(self.layer(layer)), set()).update(heads)
        return places

    def attention_of(self, layer: int, kind: str) -> nn.Module:
        """The attention of one of the `distinct_layers`."""
        layers = self.distinct_layers
        if not 0 <= layer < len(layers):
            raise InputError(f"{len(layers)} layers have weights of their own, 0 to {len(layers) - 1}; got {layer}")
        attention = getattr(layers[layer], kind, None)
        if attention is None:
            raise InputError(f"layer {layer} has no {kind} to prune")
        return attention

    def prune_as_configured(self) -> None:
        """Prune a new model as its config says."""
        for field, kind in KINDS.items():
            for layer, heads in getattr(self.config, field).items():
                self.attention_of(layer, kind).prune_heads(heads)


def read_plan(given: Any) -> dict[int, set[int]]:
    try:
        return {int(layer): {int(head) for head in heads} for layer, heads in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"heads to prune are given as {{layer: [heads]}}, got {given!r:.80}") from None


def pruned_in(layers: Sequence[nn.Module], kind: str) -> dict[int, list[int]]:
    """The pruned heads of all layers."""
    pruned = {i: getattr(getattr(layer, kind, None), "pruned_heads", ()) for i, layer in enumerate(layers)}
    return {i: sorted(heads) for i, heads in pruned.items() if heads}
