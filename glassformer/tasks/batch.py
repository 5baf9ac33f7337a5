"""Examples and batches: what a row becomes before a model reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..nn.loss import IGNORED
from ..text.encoding import EncodedRow as Encoded


@dataclass(frozen=True)
class Ids:
    """Ids that are an input as they are, with the segment of each if there are two."""

    tokens: list[int]
    segments: list[int] | None = None
    truncated = False

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self) -> list[int]:
        return self.tokens

    def type_ids(self) -> list[int]:
        return [0] * len(self.tokens) if self.segments is None else self.segments


@dataclass(slots=True)
class Example:
    """One input of the model, without padding: a text, a pair, or one window of a long one."""

    encoded: Encoded | Ids
    labels: dict[str, Any] = field(default_factory=dict)  # what the loss compares with, when the row tells it
    window: int = 0  # which of its row's windows or choices this is
    row: int = 0  # which row it belongs to, counted by whoever makes the batches

    def __len__(self) -> int:
        return len(self.encoded)

    @property
    def lacks_text(self) -> bool:
        """Whether there is no token where a text should stand."""
        return isinstance(self.encoded, Encoded) and not all(map(len, self.encoded.texts))


@dataclass
class Batch:
    """Examples as tensors, padded on the right; the models drop the padding at the door."""

    inputs: dict[str, Tensor]
    labels: dict[str, Tensor]
    examples: Sequence[Example]
    targets_count: int = 0  # what a summed loss is divided by
    targets_per_example: float = 1.0  # in the whole step: what a loss of each example weighs beside that of its targets

    def to(self, device: torch.device) -> Batch:
        moved = [{name: tensor.to(device) for name, tensor in part.items()} for part in (self.inputs, self.labels)]
        return replace(self, inputs=moved[0], labels=moved[1])

    @property
    def lengths(self) -> list[int]:
        return [len(example) for example in self.examples]

    def by_length(self, laid_out: Tensor) -> list[Tensor]:
        """B T ... -> for each example its own positions, on the host."""
        return [row[:length] for row, length in zip(laid_out.cpu(), self.lengths, strict=True)]


def told_cut(examples: Sequence[Example]) -> dict[str, bool]:
    """What an answer says of texts that were cut for it: nothing if none was."""
    return {"truncated": True} if any(example.encoded.truncated for example in examples) else {}


def rows_at(body: Any, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors where `chosen` (B T) is true, in the order of the batch, and their places in B T."""
    places = body.layout.pack(torch.arange(chosen.numel(), device=chosen.device).view_as(chosen))
    wanted = body.layout.pack(chosen)
    order = places[wanted].argsort()
    return body.rows[wanted][order], places[wanted][order]


def padded(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
    """Rows of unequal length as one tensor, filled up on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def label_tensor(values: Sequence[Any]) -> Tensor:
    """Labels of examples as a tensor; lists of them, one label for each position, are filled up with IGNORED."""
    if not isinstance(values[0], list):
        return torch.tensor(values)
    return padded(values, IGNORED)


def grouped(examples: Sequence[Example], *values: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Values of examples, row by row, where a row is judged as a whole."""
    sizes = group_sizes(examples)
    return zip(*(each.split(sizes) for each in values), strict=True)


def group_sizes(examples: Sequence[Example]) -> list[int]:
    """How many examples each row of a batch has.

    >>> group_sizes([Example(None, window=0), Example(None, window=1), Example(None, window=0)])
    [2, 1]
    """
    sizes: list[int] = []
    for example in examples:
        if example.window == 0:
            sizes.append(1)
        elif sizes and example.window == sizes[-1]:
            sizes[-1] += 1
        else:
            raise InputError("the examples of a row must stand together in a batch, in their order")
    return sizes
