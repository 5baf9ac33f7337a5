"""Hidden states of earlier parts of a text, which some architectures read as its memory (`mems`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError, shown
from ...nn.tensor_inputs import FLOATING, check_tensor


def check_mems(mems: Any, batch: int, layers: int, width: int, device: torch.device) -> Sequence[Tensor]:
    """What an earlier call returned: one tensor S B C for each layer."""
    if not isinstance(mems, list | tuple) or not mems:
        raise InputError(f"mems are tensors that an earlier call returned, got {shown(mems)}")
    for i, each in enumerate(mems):
        check_tensor(each, f"mems[{i}]", FLOATING, "S B C", device)
    shapes = {tuple(each.shape) for each in mems}
    _, *rest = next(iter(shapes))
    if len(mems) != layers or len(shapes) != 1 or rest != [batch, width]:
        raise InputError(
            f"mems are {layers} tensors of the shape positions x {batch} x {width}, as an earlier call returned them; "
            f"got {len(mems)} of {sorted(map(list, shapes))}"
        )
    return mems
