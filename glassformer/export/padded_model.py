"""A model as a function from tensors to tensors, which an exporter can trace.

The stream leaves padding out after a look at the mask, so its shapes depend on values. Other runtimes want shapes that
depend on shapes alone: in the padded form every position stays in the stream, and an additive mask hides the padding.
Embeddings, layers and heads are the model's own.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..models.base.body import Body
from ..models.base.outputs import BodyOutput
from ..nn.context import Context
from ..nn.layout import Layout, Run
from ..nn.mask import mask_to_bias

PAST, PRESENT = "past_key_values", "present"


@dataclass(frozen=True)
class PaddedLayout(Layout):
    """Every position of the batch has a row; `index` says which of them are real (B T)."""

    def columns(self, device: torch.device) -> Tensor:
        return torch.arange(self.length, device=device).repeat(self.batch)  # N

    def pack(self, x: Tensor) -> Tensor:
        return x.reshape(self.batch * self.length, *x.shape[2:])

    def unpack(self, rows: Tensor, fill: float | Tensor = 0.0) -> Tensor:
        padded = rows.reshape(self.batch, self.length, *rows.shape[1:])
        real = self.index.reshape(self.batch, self.length, *[1] * (rows.dim() - 1))
        return torch.where(real, padded, torch.as_tensor(fill, dtype=rows.dtype, device=rows.device))

    def heads(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.batch, self.length, *rows.shape[1:]).transpose(1, 2)  # B H T D

    def pick(self, rows: Tensor, which: int) -> Tensor:
        places = torch.arange(self.length, device=rows.device)
        chosen = torch.where(self.index, places, self.length if which == 0 else -1)
        place = chosen.amin(1) if which == 0 else chosen.amax(1)  # B
        padded = rows.reshape(self.batch, self.length, -1)
        return padded[torch.arange(self.batch, device=rows.device), place]


class PaddedPass:
    """Replaces the pass of a `Body`: no value is looked at, so nothing is checked either."""

    def encode(
        self: Any,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: tuple | None = None,
        use_cache: bool | None = None,
        **extras: Any,
    ) -> BodyOutput:
        """`attention_mask` (B S) covers the past, too."""
        batch, length = input_ids.shape
        past = 0 if past_key_values is None else past_key_values[0][0].shape[2]
        visible = attention_mask[:, None, None, :] != 0  # B 1 1 S
        if self.is_decoder:
            keys = torch.arange(past + length, device=input_ids.device)
            visible = visible & (keys <= keys[past:, None])  # B 1 T S
        run = Run(0, batch, length, 0, ())
        real = attention_mask[:, past:] != 0
        layout = PaddedLayout(batch, length, (run,), index=real, mask=mask_to_bias(visible, self.dtype))
        positions = self.positions(layout.columns(input_ids.device) + past, layout, input_ids, past)
        if position_ids is not None:
            positions = layout.pack(position_ids)
        types = None if token_type_ids is None else layout.pack(token_type_ids)
        packed = self.pack_extras(extras, layout)
        x = self.embed(layout.pack(input_ids), types, positions, None, packed)
        context = Context(layout, cache=past_key_values, extras=packed, use_cache=bool(use_cache))
        return self.as_body_output(self.run_layers(x, context), context)


@cache
def with_padded_pass(kind: type[Body]) -> type[Body]:
    return type(kind.__name__, (PaddedPass, kind), {"__module__": kind.__module__})


def padded(module: nn.Module) -> nn.Module:
    """A shallow copy of a model whose body computes padded positions, too; the weights are the same."""
    if not any(isinstance(each, Body) for each in module.modules()):
        return module
    twin = copy.copy(module)
    twin.__dict__["_modules"] = {name: child and padded(child) for name, child in module._modules.items()}
    if isinstance(module, Body):
        if type(module).encode is not Body.encode:
            raise InputError(f"a {type(module).__name__} cannot be exported: its pass is not that of other bodies")
        twin.__class__ = with_padded_pass(type(module))
    return twin


class ExportableModel(nn.Module):
    """Named tensors in, named tensors out: what an exporter traces."""

    def __init__(self, model: nn.Module, inputs: Sequence[str], outputs: Sequence[str], cached_layers: int = 0):
        """With `cached_layers` the keys and values of a past are further inputs, and those of past and present further
        outputs."""
        super().__init__()
        self.model = padded(model)
        self.inputs, self.outputs, self.cached_layers = tuple(inputs), tuple(outputs), cached_layers
        self.train(model.training)

    @property
    def input_names(self) -> list[str]:
        return [*self.inputs, *cache_names(PAST, self.cached_layers)]

    @property
    def output_names(self) -> list[str]:
        return [*self.outputs, *cache_names(PRESENT, self.cached_layers)]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = dict(zip(self.inputs, tensors, strict=False))
        if not self.cached_layers:
            out = self.model(**given)
            return (out,) if isinstance(out, Tensor) else tuple(out[name] for name in self.outputs)
        past = tensors[len(self.inputs) :]
        out = self.model(**given, past_key_values=tuple(zip(past[::2], past[1::2], strict=True)), use_cache=True)
        present = [tensor for layer in out["past_key_values"] for tensor in layer]
        return (*(out[name] for name in self.outputs), *present)


def cache_names(prefix: str, layers: int) -> list[str]:
    return [f"{prefix}.{layer}.{part}" for layer in range(layers) for part in ("key", "value")]


def tensor_outputs(out: Any) -> list[str]:
    """The names of an output's values that are tensors."""
    return [name for name, value in out.items() if isinstance(value, Tensor)]
