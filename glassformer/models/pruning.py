"""Cutting heads out of models for good, in their own attention and in that to another text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import nn

from ..errors import InputError
from ..nn.attention import slots_to_keep

KINDS = {"pruned_heads": "attention", "pruned_cross_heads": "crossattention"}  # config field -> part of a layer


class Prunes:
    """A model whose layers have heads."""

    def prune_heads(
        self,
        heads_to_prune: Mapping[int, Iterable[int]],
        cross: Mapping[int, Iterable[int]] | None = None,
    ) -> None:
        """Cut heads out for good: {layer: heads}, numbered as in the unpruned model. Saving keeps it.

        `cross` names heads of the attention to another text. Files of models pruned there are our own: transformers has
        no such pruning.

        >>> model.prune_heads({0: [2, 3], 5: [0]})  # doctest: +SKIP
        """
        plans = {"pruned_heads": read_plan(heads_to_prune), "pruned_cross_heads": read_plan(cross or {})}
        if self.adapter is not None:
            raise InputError(
                "heads are cut out of plain weights; merge_lora(model) makes the adapter part of them first"
            )
        for field, plan in plans.items():
            for layer, heads in plan.items():
                slots_to_keep(self.part_with_heads(layer, KINDS[field]), heads)  # refuse all before cutting any
        for field, plan in plans.items():
            for layer, heads in plan.items():
                attention = self.part_with_heads(layer, KINDS[field])
                attention.prune_heads(heads)
                getattr(self.config, field)[layer] = sorted(attention.pruned_heads)

    _prune_heads = prune_heads

    def part_with_heads(self, layer: int, kind: str) -> nn.Module:
        found = getattr(self.layer(layer), kind, None)
        if found is None:
            raise InputError(f"layer {layer} has no {kind} to prune")
        return found

    def prune_as_configured(self) -> None:
        """Give a new model the shape that its config tells."""
        for field, kind in KINDS.items():
            for layer, heads in getattr(self.config, field).items():
                self.part_with_heads(layer, kind).prune_heads(heads)


def read_plan(given: Any) -> dict[int, set[int]]:
    try:
        return {int(layer): {int(head) for head in heads} for layer, heads in given.items()}
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"heads to prune are given as {{layer: [heads]}}, got {given!r:.80}") from None


def pruned_in(layers: Sequence[nn.Module], kind: str) -> dict[int, list[int]]:
    """What is cut out of the layers, however that came about."""
    found = {i: getattr(getattr(layer, kind, None), "pruned_heads", ()) for i, layer in enumerate(layers)}
    return {i: sorted(heads) for i, heads in found.items() if heads}
