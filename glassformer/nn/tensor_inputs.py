"""The door for tensors: what callers pass to models is checked for type, layout, dtype, rank, device and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, shown

if TYPE_CHECKING:
    from .layout import Layout


class Kind(NamedTuple):
    """The dtypes that an input may have, and what errors call them."""

    title: str
    dtypes: frozenset[torch.dtype]


WHOLE = Kind("whole numbers", frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)))
FLOATING = Kind("floating-point numbers", frozenset((torch.float32, torch.float64, torch.float16, torch.bfloat16)))
NUMBERS = Kind("numbers", frozenset((torch.bool, *WHOLE.dtypes, *FLOATING.dtypes)))
INDEXING = (torch.int64, torch.int32)  # which torch takes as indices


def check_tensor(
    value: object, name: str, kind: Kind = NUMBERS, shape: str = "", device: torch.device | None = None
) -> None:
    """Refuse what is not a dense tensor of this kind, with one dimension for each letter of `shape`, on this device.

    >>> check_tensor(torch.ones(2, 3), "input_ids", WHOLE, "B T")
    Traceback (most recent call last):
    glassformer.errors.InputError: input_ids must be whole numbers, got torch.float32
    """
    if not isinstance(value, Tensor):
        raise InputError(
            f"{name} must be a tensor, got {type(value).__name__}; a tokenizer gives them with return_tensors='pt'"
        )
    if value.layout is not torch.strided or value.is_nested:
        how = "nested" if value.is_nested else str(value.layout)
        raise InputError(f"{name} must be a dense tensor, got a tensor that is {how}: {name}.to_dense() may help")
    if value.dtype not in kind.dtypes:
        raise InputError(f"{name} must be {kind.title}, got {value.dtype}")
    if shape and value.dim() != len(shape.split()):
        raise InputError(f"{name} must have the shape {shape}, got {list(value.shape)}")
    if device is not None and value.device != device:
        raise InputError(f"{name} is on the device {value.device} and the model on {device}: pass {name}.to(device)")


def as_index(ids: Tensor) -> Tensor:
    """Whole numbers in a dtype that torch looks up."""
    return ids if ids.dtype in INDEXING else ids.long()


def as_dtype(values: Tensor, dtype: torch.dtype, name: str) -> Tensor:
    """Vectors in the dtype that a model computes in; they are not rounded without being asked."""
    if values.dtype == dtype or torch.is_autocast_enabled(values.device.type):
        return values
    if torch.promote_types(values.dtype, dtype) != dtype:
        raise InputError(f"{name} have the dtype {values.dtype} and the model has {dtype}: pass {name}.to(model.dtype)")
    return values.to(dtype)


def check_broadcast(value: Tensor, shape: tuple[int, ...], name: str) -> None:
    """Refuse a tensor that does not broadcast to a shape."""
    sizes = (1,) * (len(shape) - value.dim()) + tuple(value.shape)
    if len(sizes) != len(shape) or any(have not in (1, want) for have, want in zip(sizes, shape, strict=True)):
        raise InputError(f"{name} must fit the shape {list(shape)}, got {list(value.shape)}")


def check_finite(value: Tensor, name: str) -> None:
    """Refuse NaN and infinite values."""
    wrong = ~value.isfinite()
    if bool(wrong.any()):
        place = wrong.nonzero()[0].tolist()
        raise InputError(f"{name} must be finite, got {value[tuple(place)].item()} at {place}")


def check_flag(value: object, name: str) -> None:
    """Refuse what is neither true nor false; None is the default."""
    if value is not None and not isinstance(value, bool | int):
        raise InputError(f"{name} must be True, False or None, got {shown(value)}")


def check_ids(ids: Tensor | None, size: int, name: str, layout: Layout | None = None) -> None:
    """Refuse an id that its table does not have, naming the id, its place (in the batch, given the layout of its
    rows) and the size of the table."""
    if ids is None:
        return
    check_tensor(ids, name, WHOLE)
    if not ids.numel():
        return
    low, high = torch.aminmax(ids)
    if int(low) < 0 or int(high) >= size:
        place = ((ids < 0) | (ids >= size)).nonzero()[0].tolist()
        wrong = int(ids[tuple(place)])
        if layout is not None:
            row = place[0] if layout.index is None else int(layout.index[place[0]])
            place = list(divmod(row, layout.length))
        raise InputError(f"{name} {wrong} at {place} is not between 0 and {size - 1}")


def check_mask(
    attention_mask: Tensor,
    batch: int,
    length: int,
    past: int = 0,
    name: str = "attention_mask",
    device: torch.device | None = None,
) -> None:
    """Refuse a mask of another shape than the batch, or with other values than 0 and 1."""
    check_tensor(attention_mask, name, device=device if getattr(attention_mask, "is_meta", False) else None)
    accepted = ((batch, past + length), (batch, length, past + length))
    if tuple(attention_mask.shape) not in accepted:
        shapes = " or ".join(str(list(shape)) for shape in accepted)
        raise InputError(f"{name} must have shape {shapes}, got {list(attention_mask.shape)}")
    if attention_mask.dtype != torch.bool:
        wrong = (attention_mask != 0) & (attention_mask != 1)
        if bool(wrong.any()):
            place = wrong.nonzero()[0].tolist()
            value = attention_mask[tuple(place)].item()
            raise InputError(f"{name} takes 1 (seen) and 0 (hidden), got {value} at {place}")
