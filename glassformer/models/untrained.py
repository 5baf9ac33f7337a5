"""Weights are drawn at random where a checkpoint lacks a part, or a model is made from a config alone: which of them
have learnt nothing since?

A few values of every parameter are kept as they were drawn. Whatever changes them, a training loop or
`load_state_dict`, has made the part a trained one; another device or dtype, to and fro, has not.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..checkpoints.pretrained_config import PretrainedConfig
from ..registry import head_of

KEPT = 256  # values of a parameter
# Heads whose weights have the same names and often the same shapes, and mean other things.
ALIKE = ("sequence-classification", "token-classification", "multiple-choice")
UNTRAINED = "untrained"  # what weight files of ours call the parts that were saved as they were drawn


def sample(parameter: Tensor) -> Tensor:
    """Values from all over a parameter."""
    flat = parameter.detach().flatten()
    return flat[:: max(1, flat.numel() // KEPT)].clone().cpu()


def remember(model: nn.Module, parts: Sequence[str]) -> dict[str, dict[str, Tensor]]:
    """What `still_untrained` needs: for every part, its parameters as they are now."""
    return {
        part: {name: sample(value) for name, value in model.named_parameters() if f"{name}.".startswith(f"{part}.")}
        for part in parts
    }


def remember_made(model: nn.Module, heads: Sequence[str], body: str) -> dict[str, dict[str, Tensor]]:
    """The same for a model that was made just now: its heads, and `body`, which stands for all that it is made of."""
    parameters = dict(model.named_parameters())
    if any(parameter.is_meta for parameter in parameters.values()):  # a load will fill it
        return {}
    return {body: {name: sample(value) for name, value in parameters.items()}, **remember(model, heads)}


def still_untrained(model: nn.Module, drawn: dict[str, dict[str, Tensor]]) -> list[str]:
    """The parts none of whose parameters has changed."""
    now = dict(model.named_parameters())

    def is_same(name: str, before: Tensor) -> bool:
        if name not in now:
            return False
        found = sample(now[name])
        rounded = (before.to(dtype).to(found.dtype) for dtype in (found.dtype, torch.bfloat16, torch.float16))
        return any(torch.equal(each, found) for each in rounded)

    return [part for part, kept in drawn.items() if all(is_same(name, before) for name, before in kept.items())]


def learnt_otherwise(name: str, config: PretrainedConfig) -> bool:
    """Whether a checkpoint's head is another than that of `name`, and fits it by name and shape only."""
    saved, mine = head_of((config.architectures or [""])[0]), head_of(name)
    return saved != mine and saved in ALIKE and mine in ALIKE
