"""AdamW with the tutorials' defaults, Adam with L2, and parameter groups for weight decay and layer-wise rates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ConfigError, InputError, suggests
from ..nn.norm import NORMS
from ..text.base.encoding_options import check_choice
from .train_settings import OPTIMIZERS

LAYER = re.compile(r"(?:^|\.)(?:encoder|decoder)\.layer\.\d+\.")
EMBEDDINGS = re.compile(r"(?:^|\.)embeddings\.")


class AdamW(torch.optim.AdamW):
    """Adam with decoupled weight decay: the tutorials' defaults, PyTorch's arithmetic.

    The default `weight_decay` is 0. A fused kernel is used where there is one.

    >>> optimizer = AdamW(nn.Linear(3, 2).parameters(), lr=2e-5)
    >>> optimizer.defaults["weight_decay"], optimizer.defaults["eps"]
    (0.0, 1e-06)
    """

    @suggests
    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        correct_bias: bool = True,
        *,
        no_deprecation_warning: bool = False,
        fused: bool | None = None,
    ) -> None:
        del no_deprecation_warning  # old scripts pass it, and nothing here is deprecated
        if not correct_bias:
            raise ConfigError("AdamW always corrects the bias of its first steps: correct_bias must be True, got False")
        listed = list(params)
        if not listed:
            raise InputError("AdamW needs parameters to optimise, got none")
        if fused is None:
            fused = all(can_fuse(parameter) for parameter in parameters_of(listed))
        super().__init__(listed, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)


@suggests
def make_optimizer(
    name: str,
    params: list[dict[str, Any]],
    lr: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-6,
) -> torch.optim.Optimizer:
    """AdamW for "adamw"; Adam with the weight decay as a part of the gradient (L2 regularisation) for "adam".

    Loshchilov and Hutter (2019) compare the two: in "adam" weights with large gradients decay less.

    >>> groups = [{"params": [nn.Parameter(torch.ones(2))], "weight_decay": 0.1}]
    >>> type(make_optimizer("adam", groups, lr=1e-3)) is torch.optim.Adam
    True
    """
    check_choice("optimizer", name, OPTIMIZERS)
    if name == "adamw":
        return AdamW(params, lr=lr, betas=betas, eps=eps)
    fused = all(can_fuse(parameter) for parameter in parameters_of(params))
    return torch.optim.Adam(params, lr=lr, betas=betas, eps=eps, fused=fused)


def parameters_of(params: list[Any]) -> list[Any]:
    """The parameters in an optimizer's argument: a list of parameters, of groups, or of names with parameters."""
    listed: list[Any] = []
    for each in params:
        inside = each["params"] if isinstance(each, dict) else each[1] if isinstance(each, tuple) else each
        if isinstance(inside, Tensor):
            listed.append(inside)
        else:
            groups = inside if isinstance(inside, list) else list(inside)
            if isinstance(each, dict):
                each["params"] = groups  # a generator can be read once
            listed += parameters_of(groups)
    return listed


def can_fuse(parameter: Any) -> bool:
    """Whether the fused kernel takes a parameter."""
    return isinstance(parameter, Tensor) and parameter.is_floating_point() and parameter.device.type in ("cpu", "cuda")


@suggests
def parameter_groups(
    model: nn.Module, lr: float, weight_decay: float = 0.0, layer_decay: float = 1.0
) -> list[dict[str, Any]]:
    """A model's trainable parameters in groups for an optimizer; frozen parameters are left out.

    Biases and norms have no weight decay. With `layer_decay` below 1, learning rates fall towards the input: `lr`
    for the head, `lr * layer_decay` for the last layer, `lr * layer_decay ** 2` for the one below, ..., and the lowest
    for the embeddings.

    >>> model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    >>> [(group["weight_decay"], group["names"]) for group in parameter_groups(model, 1e-3, 0.01)]
    [(0.01, ['0.weight']), (0.0, ['0.bias', '1.weight', '1.bias'])]
    """
    norms = {
        f"{prefix}.{name}".lstrip(".")
        for prefix, module in model.named_modules()
        if isinstance(module, NORMS)
        for name, _ in module.named_parameters(recurse=False)
    }
    trainable = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not trainable:
        raise InputError("nothing is left to train: every parameter of the model is frozen")
    depths = depths_in(model)
    groups: dict[tuple[int, bool], dict[str, Any]] = {}
    for name, parameter in trainable.items():
        depth = depths[name] if layer_decay != 1 else 0
        decays = name not in norms and not name.rpartition(".")[2].startswith("bias")
        group = groups.setdefault(
            (depth, decays),
            {
                "params": [],
                "names": [],
                "lr": lr * layer_decay**depth,
                "weight_decay": weight_decay if decays else 0.0,
            },
        )
        group["params"].append(parameter)
        group["names"].append(name)
    return list(groups.values())


def depths_in(model: nn.Module) -> dict[str, int]:
    """The depth of each parameter below the head: 0 for the head, 1 for the last layer, ... and then the embeddings.

    The layers of a decoder are above those of its encoder.
    """
    names = [name for name, _ in model.named_parameters()]
    layers = list(dict.fromkeys(match[0] for name in names if (match := LAYER.search(name))))  # from the input up
    depths = {}
    for name in names:
        match = LAYER.search(name)
        if match:
            depths[name] = len(layers) - layers.index(match[0])
        else:
            depths[name] = len(layers) + 1 if EMBEDDINGS.search(name) else 0
    return depths
