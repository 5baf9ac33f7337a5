"""The memory of a model that reads a text block by block: what one block leaves is what the next one reads.

A block is known by the token that it begins with. So it does not matter which blocks share a batch, nor how the rows of
a step are split into batches: every block finds the memory of the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..batch import Example

NAME = re.compile(r"memory:(\d+)")


class CarriedMemory:
    """What has been read of each text, in training and, apart from it, in evaluation."""

    def __init__(self) -> None:
        self.kept: dict[bool, dict[int, Tensor]] = {True: {}, False: {}}  # token that comes next -> layers S C

    def take(self, examples: Sequence[Example], size: int, training: bool, device: torch.device) -> list[Tensor] | None:
        """The memory of a batch, S B C for each layer; None if all its texts begin here. It is taken out."""
        kept = self.kept[training]
        found = [None if each.follows is None else kept.pop(each.follows, None) for each in examples]
        like = next((each for each in found if each is not None), None)
        if like is None:
            return None
        empty = like.new_zeros(like.shape[0], size, like.shape[2])
        rows = [empty if each is None else each for each in found]
        return list(torch.stack([each.to(device) for each in rows], 2))

    def put(self, examples: Sequence[Example], mems: Sequence[Tensor], training: bool) -> None:
        """Keep what the blocks left, of those whose text goes on."""
        together = torch.stack([each.detach() for each in mems])  # layers S B C
        for number, example in enumerate(examples):
            if example.leads_to is not None:
                self.kept[training][example.leads_to] = together[:, :, number].clone()

    def forget(self, training: bool) -> None:
        self.kept[training].clear()

    # --- checkpoints -------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The memory of training, for a checkpoint."""
        return {f"memory:{place}": each.cpu().contiguous() for place, each in self.kept[True].items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        places = {NAME.fullmatch(name): each for name, each in tensors.items()}
        self.kept[True] = {int(match[1]): each for match, each in places.items() if match is not None}
