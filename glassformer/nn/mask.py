"""Attention masks: checks, the layout of a masked batch, and additive masks."""

from __future__ import annotations

import torch
from torch import Tensor

from ..errors import InputError
from .layout import Layout


def make_layout(
    batch: int,
    length: int,
    attention_mask: Tensor | None,
    *,
    dtype: torch.dtype,
    device: torch.device,
    causal: bool = False,
    past: int = 0,
    keep_padding: bool = False,
    name: str = "attention_mask",
) -> Layout:
    """The layout of a padded batch.

    With a `past`, a mask per query, holes inside a sequence, or on request (`keep_padding`), every position stays and
    an additive mask is used; otherwise only real tokens go into the stream.
    """
    if attention_mask is not None:
        check_mask(attention_mask, batch, length, past, name)
        if attention_mask.dim() == 2 and not past and not keep_padding:
            layout = Layout.of(attention_mask, causal)
            if layout is not None:
                return layout
    elif not past:
        return Layout.full(batch, length, causal=causal)
    return Layout.full(batch, length, mask=additive_mask(attention_mask, length, past, causal, dtype, device))


def additive_mask(
    attention_mask: Tensor | None, length: int, past: int, causal: bool, dtype: torch.dtype, device: torch.device
) -> Tensor | None:
    """0 where a key is visible and the type's lowest number where it is masked, broadcast to B H T S."""
    seen = None
    if attention_mask is not None:
        seen = attention_mask.to(device).bool()
        seen = seen[:, None, None, :] if seen.dim() == 2 else seen[:, None]  # B 1 1 S, B 1 T S
    if causal and length > 1 and (attention_mask is None or attention_mask.dim() == 2):
        before = torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)  # T S
        seen = before if seen is None else seen & before
    if seen is None or bool(seen.all()):
        return None
    return mask_to_bias(seen, dtype)


def mask_to_bias(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias that is added to scores: 0 where a mask is not 0, and the type's lowest number elsewhere."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(seen == 0, torch.finfo(dtype).min)


def check_tensor(value: object, name: str) -> None:
    """Refuse what is not a tensor."""
    if not isinstance(value, Tensor):
        raise InputError(
            f"{name} must be a tensor, got {type(value).__name__}; a tokenizer gives them with return_tensors='pt'"
        )


def check_mask(attention_mask: Tensor, batch: int, length: int, past: int = 0, name: str = "attention_mask") -> None:
    """Refuse a mask of another shape than the batch, or with other values than 0 and 1."""
    check_tensor(attention_mask, name)
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


def check_ids(ids: Tensor | None, size: int, name: str, layout: Layout | None = None) -> None:
    """Refuse an id that its table does not have, naming the id, its place (in the batch, given the layout of its
    rows) and the size of the table."""
    if ids is None:
        return
    check_tensor(ids, name)
    if ids.dtype not in (torch.int64, torch.int32, torch.int16, torch.uint8):
        raise InputError(f"{name} must be whole numbers, got {ids.dtype}")
    low, high = torch.aminmax(ids)
    if int(low) < 0 or int(high) >= size:
        place = ((ids < 0) | (ids >= size)).nonzero()[0].tolist()
        wrong = int(ids[tuple(place)])
        if layout is not None:
            row = place[0] if layout.index is None else int(layout.index[place[0]])
            place = list(divmod(row, layout.length))
        raise InputError(f"{name} {wrong} at {place} is not between 0 and {size - 1}")
