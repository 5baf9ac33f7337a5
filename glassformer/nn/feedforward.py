"""Position-wise layers: feed-forward, output projection, residual sum and normalisation."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..errors import InputError
from .activation import GELUActivation, make_activation
from .dropout import Dropout
from .linear import Linear
from .second_names import SecondNames


def can_overwrite_output(module: nn.Module) -> bool:
    """Whether the output of `module` can be overwritten: no gradient needs it and no hook may have kept it.

    The widest tensors of a model are then allocated once, which saves a tenth of an encoder's time on a CPU.
    """
    return not (torch.is_grad_enabled() or module._forward_hooks or torch.nn.modules.module._global_forward_hooks)


class Intermediate(nn.Module):
    """The first half of the feed-forward: widen and activate."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str | Callable, bias: bool = True):
        super().__init__()
        self.dense = Linear(hidden_size, intermediate_size, bias=bias)
        self.intermediate_act_fn = make_activation(activation)

    def forward(self, hidden_states: Tensor) -> Tensor:
        activate = self.intermediate_act_fn
        can_fuse = isinstance(activate, GELUActivation) and all(map(can_overwrite_output, (self.dense, activate)))
        if can_fuse and self.dense.is_reduced and not self.dense._forward_pre_hooks:
            return self.dense.reduced_product(hidden_states, activate.approximate)  # bfloat16, as the next one reads
        widened = self.dense(hidden_states)
        return activate.overwrite(widened) if can_fuse else activate(widened)


class AddNorm(nn.Module):
    """Project, drop out, add the residual, then normalise ("post-norm")."""

    def __init__(self, in_size: int, hidden_size: int, eps: float, dropout: float):
        super().__init__()
        self.dense = Linear(in_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=eps)
        self.dropout = Dropout(dropout)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        projected = self.dropout(self.dense(hidden_states))
        if (
            can_overwrite_output(self.dense)
            and can_overwrite_output(self.dropout)
            and projected.dtype == input_tensor.dtype
        ):
            return self.LayerNorm(projected.add_(input_tensor))
        return self.LayerNorm(projected + input_tensor)


class Project(nn.Module):
    """Project and drop out; the layer around it adds the residual ("pre-norm")."""

    def __init__(self, in_size: int, hidden_size: int, dropout: float, bias: bool = True):
        super().__init__()
        self.dense = Linear(in_size, hidden_size, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.dropout(self.dense(hidden_states))


def in_chunks(function: Callable[[Tensor], Tensor], size: int, x: Tensor, sequences: int = 1) -> Tensor:
    """Apply a position-wise function to `size` positions of every sequence at a time: the same numbers, less memory.

    `x` holds the rows of so many sequences, N C, or is laid out B T C.
    """
    dim, rows = (0, size * sequences) if x.dim() == 2 else (1, size)
    return apply_chunking_to_forward(function, rows, dim, x)


def apply_chunking_to_forward(
    forward_fn: Callable[..., Tensor], chunk_size: int, chunk_dim: int, *input_tensors: Tensor
) -> Tensor:
    """Apply a function to `chunk_size` positions of the dimension `chunk_dim` at a time; 0 is all of them at once.

    >>> apply_chunking_to_forward(torch.add, 2, 1, torch.ones(1, 5), torch.ones(1, 5))
    tensor([[2., 2., 2., 2., 2.]])
    """
    if chunk_size < 0 or not input_tensors:
        raise InputError(
            f"apply_chunking_to_forward takes a chunk_size of at least 0 and at least one tensor, "
            f"got {chunk_size} and {len(input_tensors)} tensors"
        )
    if not chunk_size:
        return forward_fn(*input_tensors)
    lengths = [x.shape[chunk_dim] for x in input_tensors]
    if len(set(lengths)) > 1:
        raise InputError(f"all tensors must be equally long in dimension {chunk_dim}, got {lengths}")
    chunks = zip(*(x.split(chunk_size, chunk_dim) for x in input_tensors), strict=True)
    return torch.cat([forward_fn(*parts) for parts in chunks], chunk_dim)


class PositionwiseFeedForward(SecondNames):
    """max(0, x W1 + b1) W2 + b2, for every position alike."""

    second_names = {"fc1": "intermediate.dense", "relu": "intermediate.intermediate_act_fn", "fc2": "output"}

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        self.intermediate = Intermediate(d_model, d_ff, "relu")
        self.dropout = Dropout(dropout)
        self.output = Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.dropout(self.intermediate(x)))
