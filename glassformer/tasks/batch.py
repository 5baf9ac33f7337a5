"""Examples and batches: encoded rows before and after collation."""

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
class EncodedIds:
    """A complete input given by its token ids, with token types if there are two segments."""

    tokens: Sequence[int] | np.ndarray
    segments: Sequence[int] | np.ndarray | None = None
    truncated: bool = False

    @classmethod
    def compact(cls, tokens: Sequence[int], segments: Sequence[int], truncated: bool) -> EncodedIds:
        """Ids in arrays of small integers, for examples that stay in memory."""
        types = np.array(segments, dtype=np.int8)
        return cls(np.array(tokens, dtype=np.int32), types if types.any() else None, truncated)

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self) -> list[int]:
        return as_list(self.tokens)

    def type_ids(self) -> list[int]:
        return [0] * len(self.tokens) if self.segments is None else as_list(self.segments)


@dataclass(slots=True)
class Example:
    """One input of the model, without padding: a text, a pair, one window of a long text, or an image."""

    encoded: Any  # the processor's result: an `Encoded`, `EncodedIds`, or an array of another kind of input
    labels: dict[str, Any] = field(default_factory=dict)  # targets of the loss, if the row has them
    window: int = 0  # its index among the windows or choices of its row
    windows: int = 1  # how many its text was split into, whether or not all are read
    row: int = 0  # the index of its row, set by the caller that makes the batches
    follows: int | None = None  # of a block that reads the memory of the one before: the token that it begins with
    leads_to: int | None = None  # of a block whose memory is read: the token that the next one begins with

    def __len__(self) -> int:
        return len(self.encoded)


@dataclass
class Batch:
    """Examples as tensors, padded on the right; models remove the padding before they compute."""

    inputs: dict[str, Tensor]
    labels: dict[str, Tensor]
    examples: Sequence[Example]
    counts: dict[str, int] = field(default_factory=dict)  # for each objective, the number of targets in its sum
    positions: int = 0  # tokens including the padding, which is never computed

    def to(self, device: torch.device) -> Batch:
        moved = [{name: tensor.to(device) for name, tensor in part.items()} for part in (self.inputs, self.labels)]
        return replace(self, inputs=moved[0], labels=moved[1])

    def select(self, indices: Sequence[int]) -> Batch:
        """Some of the examples as a batch of their own, whose targets are not counted yet."""
        chosen = list(indices)
        inputs, labels = ({name: each[chosen] for name, each in part.items()} for part in (self.inputs, self.labels))
        return Batch(inputs, labels, [self.examples[index] for index in chosen])

    @property
    def targets_count(self) -> int:
        """The number of targets of the first objective."""
        return next(iter(self.counts.values()), 0)

    def without_targets(self) -> Batch:
        """The same inputs, with all counts 0, so that they do not contribute to the loss."""
        return replace(self, counts=dict.fromkeys(self.counts, 0))

    @property
    def lengths(self) -> list[int]:
        return [len(example) for example in self.examples]

    def unpad(self, padded: Tensor) -> list[Tensor]:
        """B T ... -> for each example its own positions, on the CPU."""
        return [row[:length] for row, length in zip(padded.cpu(), self.lengths, strict=True)]


def truncation_note(examples: Sequence[Example]) -> dict[str, bool]:
    """The entry that an answer has if a text was truncated for it."""
    return {"truncated": True} if any(example.encoded.truncated for example in examples) else {}


def vectors_at(body: Any, selected: Tensor) -> tuple[Tensor, Tensor]:
    """The hidden states where `selected` (B T) is true, in the order of the batch, and their indices in B T."""
    indices = body.layout.pack(torch.arange(selected.numel(), device=selected.device).view_as(selected))
    packed = body.layout.pack(selected)
    order = indices[packed].argsort()
    return body.rows[packed][order], indices[packed][order]


def pad_to_tensor(rows: Sequence[Any], padding: int) -> Tensor:
    """Rows of unequal length as one tensor, padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[padding] * (width - len(row))] for row in rows])


def as_list(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else values


def label_tensor(values: Sequence[Any]) -> Tensor:
    """Labels of examples as a tensor; lists with one label per position are padded with IGNORED."""
    if not isinstance(values[0], list | np.ndarray):
        return torch.tensor(values)
    return pad_to_tensor([as_list(each) for each in values], IGNORED)


def compact_label(value: Any) -> Any:
    """One label per position as an array of small integers; any other label unchanged."""
    return np.array(value, dtype=np.int32) if isinstance(value, list) and value and type(value[0]) is int else value


def split_by_row(examples: Sequence[Example], *values: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Values of examples grouped by row, for losses over all examples of a row."""
    sizes = examples_per_row(examples)
    return zip(*(each.split(sizes) for each in values), strict=True)


def examples_per_row(examples: Sequence[Example]) -> list[int]:
    """How many examples each row of a batch has.

    >>> examples_per_row([Example(None, window=0), Example(None, window=1), Example(None, window=0)])
    [2, 1]
    """
    sizes: list[int] = []
    for example in examples:
        if example.window == 0:
            sizes.append(1)
        elif sizes and example.window == sizes[-1]:
            sizes[-1] += 1
        else:
            raise InputError("the examples of a row must be adjacent and in order in a batch")
    return sizes
