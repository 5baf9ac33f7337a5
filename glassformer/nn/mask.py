"""Attention masks: the layout of a masked batch, and additive masks."""

from __future__ import annotations

import torch
from torch import Tensor

from .layout import Layout
from .tensor_inputs import check_mask


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
        check_mask(attention_mask, batch, length, past, name, device)
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
