"""Models in 8 bits and their files: each quantized layer as whole numbers with its scales, named in config.json."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...checkpoints.load import SCALES
from ...checkpoints.weights import Weights
from ...nn.int4 import Int4Linear
from ...nn.linear import can_be_reduced
from ...nn.quantize import INPUT_SCALE, METHOD, SCALE, Int8Linear, is_quantized, quantize


def expect_quantized(model: Any, weights: Weights) -> None:
    """Put layers without weights in place of those that the files hold in 8 bits."""
    names = [name for name in weights.names() if name.endswith(SCALES)]
    if not names:
        return
    sources, _ = model.keymap.read(weights.names(), model.base_model is not model)
    tied, modules = model.tied_names(), dict(model.named_modules())
    for name in sources:
        owner, _, leaf = name.rpartition(".")
        layer = modules.get(owner)
        if leaf != SCALE or not isinstance(layer, nn.Linear) or f"{owner}.weight" in tied:
            continue
        smooth = f"{owner}.{INPUT_SCALE}" in sources
        held = weights.info(sources[f"{owner}.weight"].file_names[0]).dtype if f"{owner}.weight" in sources else None
        kind = Int4Linear if held == torch.uint8 else Int8Linear
        placeholder = kind(layer.in_features, layer.out_features, layer.bias is not None, smooth, "meta")
        replace_layer(model, layer, placeholder)


def replace_layer(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put a layer in the place of another, wherever that stands."""
    for parent in list(model.modules()):
        for name, child in list(parent._modules.items()):
            if child is old:
                setattr(parent, name, new)


def quantize_loaded(model: Any, dtype: str) -> None:
    """Quantize what a load left in float: all of a float checkpoint, or the layers that are tied to embeddings."""
    given = model.config.quantization_config
    kept = set() if given is None else set(given["in_float"])
    layers = {name: module for name, module in model.named_modules() if name.removeprefix(model.keymap.prefix) in kept}
    quantize(model, dtype, without=layers.values())
    for module in model.modules():
        if isinstance(module, Int8Linear):
            module.pack()


def quantization_of(model: Any) -> dict[str, Any] | None:
    """What config.json says about the quantized layers of a model."""
    if not is_quantized(model):
        return None
    prefix = model.keymap.prefix
    names = [name.removeprefix(prefix) for name, module in model.named_modules() if can_be_reduced(module)]
    dtype = min(module.kind for module in model.modules() if isinstance(module, Int8Linear))
    return {"quant_method": METHOD, "dtype": dtype, "in_float": names}


def own_scales(model: Any) -> set[str]:
    """Names of scales that no file holds: those of layers whose weights are tied, and rounded anew by a load."""
    return {name.removesuffix("weight") + scale[1:] for name in model.tied_names() for scale in SCALES}
