"""Examples and batches: what a row becomes before a model reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..nn.loss import IGNORED


@dataclass(frozen=True)
class Ids:
    """Ids that are an input as they are, with the segment of each if there are two."""

    tokens: Sequence[int] | np.ndarray
    segments: Sequence[int] | np.ndarray | None = None
    truncated: bool = False

    @classmethod
    def compact(cls, tokens: Sequence[int], segments: Sequence[int], truncated: bool) -> Ids:
        """Ids that are kept for long, in arrays of small numbers."""
        types = np.array(segments, dtype=np.int8)
        return cls(np.array(tokens, dtype=np.int32), types if types.any() else None, truncated)

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self) -> list[int]:
        return listed(self.tokens)

    def type_ids(self) -> list[int]:
        return [0] * len(self.tokens) if self.segments is None else listed(self.segments)


@dataclass(slots=True)
class Example:
    """One input of the model, without padding: a text, a pair, one window of a long one, or an image."""

    encoded: Any  # what the task's processor made of it: an `Encoded`, `Ids`, or an array of another kind of input
    labels: dict[str, Any] = field(default_factory=dict)  # what the loss compares with, when the row states it
    window: int = 0  # which of its row's windows or choices this is
    row: int = 0  # which row it belongs to, counted by whoever makes the batches

    def __len__(self) -> int:
        return len(self.encoded)


@dataclass
class Batch:
    """Examples as tensors, padded on the right; the models drop the padding at the door."""

    inputs: dict[str, Tensor]
    labels: dict[str, Tensor]
    examples: Sequence[Example]
    counts: dict[str, int] = field(default_factory=dict)  # of each objective, how many values its sum is the sum of
    positions: int = 0  # with the padding that the tensors hold and nobody computes

    def to(self, device: torch.device) -> Batch:
        moved = [{name: tensor.to(device) for name, tensor in part.items()} for part in (self.inputs, self.labels)]
        return replace(self, inputs=moved[0], labels=moved[1])

    @property
    def targets_count(self) -> int:
        """What the sum of the first objective is divided by."""
        return next(iter(self.counts.values()), 0)

    def without_targets(self) -> Batch:
        """The same inputs, of which nothing is learnt."""
        return replace(self, counts=dict.fromkeys(self.counts, 0))

    @property
    def lengths(self) -> list[int]:
        return [len(example) for example in self.examples]

    def by_length(self, laid_out: Tensor) -> list[Tensor]:
        """B T ... -> for each example its own positions, on the host."""
        return [row[:length] for row, length in zip(laid_out.cpu(), self.lengths, strict=True)]


def truncation_note(examples: Sequence[Example]) -> dict[str, bool]:
    """What an answer says of texts that were cut for it: nothing if none was."""
    return {"truncated": True} if any(example.encoded.truncated for example in examples) else {}


def rows_at(body: Any, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors where `chosen` (B T) is true, in the order of the batch, and their places in B T."""
    places = body.layout.pack(torch.arange(chosen.numel(), device=chosen.device).view_as(chosen))
    wanted = body.layout.pack(chosen)
    order = places[wanted].argsort()
    return body.rows[wanted][order], places[wanted][order]


def padded(rows: Sequence[Any], filler: int) -> Tensor:
    """Rows of unequal length as one tensor, filled up on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (width - len(row))] for row in rows])


def listed(values: Any) -> list[Any]:
    """Numbers of an array or a list as a list."""
    return values.tolist() if isinstance(values, np.ndarray) else values


def label_tensor(values: Sequence[Any]) -> Tensor:
    """Labels of examples as a tensor; lists of them, one label for each position, are filled up with IGNORED."""
    if not isinstance(values[0], list | np.ndarray):
        return torch.tensor(values)
    return padded([listed(each) for each in values], IGNORED)


def compact_label(value: Any) -> Any:
    """A label of every position as an array of small numbers; another label as it is."""
    return np.array(value, dtype=np.int32) if isinstance(value, list) and value and type(value[0]) is int else value


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
