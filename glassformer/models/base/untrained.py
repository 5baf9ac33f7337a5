"""Which parts of a model still have their random initial weights: parts that a checkpoint lacks, or all parts of a new
model.

A few initial values of every parameter are kept. A part counts as trained when they change, by a training loop or
`load_state_dict`; a change of device or dtype, there and back, does not count.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...checkpoints.pretrained_config import PretrainedConfig
from ...nn.quantize import Int8Linear
from ...registry import head_of

SAMPLE_SIZE = 256  # values kept of a parameter
# Heads whose weights have the same names and often the same shapes, but different meanings.
SIMILAR_HEADS = ("sequence-classification", "token-classification", "multiple-choice")
UNTRAINED = "untrained"  # key in the metadata of weight files: the parts that were saved untrained


def sample(parameter: Tensor) -> Tensor:
    """Values from all over a parameter."""
    flat = parameter.detach().flatten()
    return flat[:: max(1, flat.numel() // SAMPLE_SIZE)].clone().cpu()


def sample_parts(model: nn.Module, parts: Sequence[str]) -> dict[str, dict[str, Tensor]]:
    """Samples of the parameters of every part, for `still_untrained`."""
    return {
        part: {name: sample(value) for name, value in model.named_parameters() if f"{name}.".startswith(f"{part}.")}
        for part in parts
    }


def sample_new_model(model: nn.Module, heads: Sequence[str], body: str) -> dict[str, dict[str, Tensor]]:
    """The same for a newly built model: its heads, and all its parameters under the name of its body."""
    parameters = dict(model.named_parameters())
    if any(parameter.is_meta for parameter in parameters.values()):  # a load will fill it
        return {}
    return {body: {name: sample(value) for name, value in parameters.items()}, **sample_parts(model, heads)}


def still_untrained(model: nn.Module, initial: dict[str, dict[str, Tensor]]) -> list[str]:
    """The parts none of whose parameters has changed."""
    now = dict(model.named_parameters())
    rounded = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, Int8Linear)}
    return [
        part
        for part, values in initial.items()
        if all(is_same(now, name, value) for name, value in values.items() if name not in rounded)
    ]


def is_same(now: dict[str, nn.Parameter], name: str, before: Tensor) -> bool:
    """Whether a parameter still has the values of a sample."""
    if name not in now:
        return False
    after = sample(now[name])
    rounded = (before.to(dtype).to(after.dtype) for dtype in (after.dtype, torch.bfloat16, torch.float16))
    return any(torch.equal(each, after) for each in rounded)


def initial_among(model: nn.Module, names: Sequence[str], initial: dict[str, dict[str, Tensor]]) -> dict[str, Tensor]:
    """Samples of those of the named parameters that still have their initial values."""
    now, samples = dict(model.named_parameters()), {}
    for values in initial.values():
        samples |= {name: values[name] for name in names if name in values and is_same(now, name, values[name])}
    return samples


def has_other_head(name: str, config: PretrainedConfig) -> bool:
    """Whether a checkpoint's head is for another task than the head of class `name`, and only its shapes match."""
    saved, own = head_of((config.architectures or [""])[0]), head_of(name)
    return saved != own and saved in SIMILAR_HEADS and own in SIMILAR_HEADS
