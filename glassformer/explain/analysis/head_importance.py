"""Which heads a model needs, and how it performs without the others, measured on the user's own rows.

Heads are named (kind, layer, head), numbered as in the unpruned model; the kind is "attention" or "crossattention".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import InputError, nearest
from ...models.base.evaluation_mode import evaluation_mode
from ...models.base.pretrained_model import PreTrainedModel
from ...tasks.progress import show_progress
from ...tasks.task import Task
from ...train.batches import Batches
from ...train.evaluation import evaluate, summed_loss
from ..addressing import CROSS, SELF, heads_of, layers_sharing
from ..patch import patched

METHODS = {
    "gradient": "how strongly the loss pulls at a factor before the head (Michel et al. 2019): one pass over the rows",
    "ablation": "how much the loss grows without the head: one pass for each head",
}
TOKENS = 4096  # in one batch
SHARES = (0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of heads, the points of a curve


class Head(NamedTuple):
    kind: str
    layer: int
    head: int


@dataclass(frozen=True)
class Point:
    """The quality of a model without its least important heads."""

    without: int
    share: float
    measures: dict[str, float]


def all_heads(model: PreTrainedModel) -> list[Head]:
    """Every head that a model has. Layers that share their weights share their heads: these are of the first one."""
    layers = list(model.layers)
    return [
        Head(kind, number, head)
        for number, layer in enumerate(layers)
        for kind in (SELF, CROSS)
        if hasattr(layer, kind) and layers.index(layer) == number
        for head in heads_of(getattr(layer, kind))
    ]


def head_importance(
    task: Task, rows: Sequence[Any], method: str = "gradient", *, progress: bool | None = None
) -> dict[Head, float]:
    """How important each head is for a task; `progress` shows a progress bar for ablation, None: in a terminal only.

    >>> found = head_importance(task, rows, "ablation")                              # doctest: +SKIP
    """
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}{nearest(method, METHODS)}; there are {', '.join(METHODS)}")
    rows = list(rows)
    if not rows:
        raise InputError("there are no rows to measure heads on")
    if not all_heads(task.model):
        raise InputError(f"{type(task.model).__name__} has no attention heads")
    if method == "gradient":
        return by_gradient(task, rows)
    before = summed_loss(task, rows, TOKENS, None)
    found, heads = {}, all_heads(task.model)
    for head in show_progress(heads, len(heads), progress, "ablation", unit="heads"):
        with without(task.model, [head]):
            found[head] = (summed_loss(task, rows, TOKENS, None)["loss"] - before["loss"]) / before["targets"]
    return found


def by_gradient(task: Task, rows: Sequence[Any]) -> dict[Head, float]:
    heads, batches = all_heads(task.model), Batches(task, rows, max_tokens=TOKENS)
    total, targets = torch.zeros(len(heads), dtype=torch.float64), 0
    for step in batches.plan(0):
        for numbers in step:
            batch = batches.collate(numbers)
            with evaluation_mode(task.trainable), torch.enable_grad():
                factors = torch.ones(len(heads), device=task.model.device, requires_grad=True)
                with patched(task.model, **head_factors(task.model, heads, factors)):
                    loss = task.loss(task.trainable, batch.to(task.model.device), reduction="sum")
            (gradient,) = torch.autograd.grad(loss, factors)
            total += gradient.abs().double().cpu()
            targets += batch.targets_count
    return dict(zip(heads, (total / targets).tolist(), strict=True))


def head_factors(
    model: PreTrainedModel, heads: Iterable[Head], factors: Tensor | Sequence[float] | None = None
) -> dict[str, Any]:
    """Arguments of `patched` that multiply heads by factors, or switch them off, in all layers that share them."""
    plan: dict[str, dict[int, dict[int, Any]]] = {"heads": {}, "cross_heads": {}}
    for number, (kind, layer, head) in enumerate(heads):
        factor = 0.0 if factors is None else factors[number]
        for each in layers_sharing(model, layer):
            plan["cross_heads" if kind == CROSS else "heads"].setdefault(each, {})[head] = factor
    return plan


def without(model: PreTrainedModel, heads: Iterable[Head]) -> Any:
    """Switch heads off in the runs inside the `with`."""
    return patched(model, **head_factors(model, heads))


def dispensable(importance: dict[Head, float]) -> list[Head]:
    """All heads that can be removed, the least important first; every attention keeps its most important one."""
    best: dict[tuple[str, int], Head] = {}
    ordered = sorted(importance, key=lambda each: (importance[each], each))
    for head in ordered:
        best[head.kind, head.layer] = head
    return [head for head in ordered if head not in best.values()]


def least_important(importance: dict[Head, float], count: int) -> list[Head]:
    """The `count` least important heads that can be removed."""
    heads = dispensable(importance)
    if count > len(heads):
        raise InputError(f"{len(heads)} of {len(importance)} heads can go, one of each attention stays; got {count}")
    return heads[:count]


def ablation_curve(
    task: Task, rows: Sequence[Any], importance: dict[Head, float], shares: Sequence[float] | None = None
) -> list[Point]:
    """The loss and the task's metrics without more and more of the least important heads, which are switched off.

    Without `shares` it goes in steps of a tenth up to a half of the heads, or as far as one of each attention stays.
    """
    total, rows = len(importance), list(rows)
    for share in shares or ():
        if not 0 <= share < 1:
            raise InputError(f"a share of heads is at least 0 and below 1, got {share}")
    counts = [round(share * total) for share in (SHARES if shares is None else shares)]
    if shares is None:
        counts = [count for count in counts if count <= len(dispensable(importance))]
    points = []
    for count in dict.fromkeys(counts):
        with without(task.model, least_important(importance, count)):
            points.append(Point(count, count / total, evaluate(task, rows, tokens_per_batch=TOKENS)))
    return points


def prune(model: PreTrainedModel, heads: Iterable[Head]) -> None:
    """Remove heads from the weights."""
    plans: dict[str, dict[int, list[int]]] = {SELF: {}, CROSS: {}}
    for kind, layer, head in heads:
        plans[kind].setdefault(layer, []).append(head)
    model.prune_heads(plans[SELF], cross=plans[CROSS])
