"""State dicts of performer-pytorch: what names and shapes say about a model, and the model with their weights."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.weights import open_weights, write_weights
from ..errors import CheckpointError, ConfigError, refuse_unknown
from ..nn.position import fixed_positions
from .performer import PerformerConfig, PerformerPreTrainedModel

LAYER = re.compile(r"performer\.net\.(?:layers\.(\d+)\.0|blocks\.(\d+)\.f\.net)\.")


def read_performer_pytorch(
    kind: type[PerformerPreTrainedModel],
    weights: Any,
    prefix: str,
    dtype: torch.dtype | str | None,
    fields: dict[str, Any],
) -> PerformerPreTrainedModel:
    """A model of the class `kind` with the weights of a state dict, or of a file of one."""
    refuse_unknown(
        fields, [*PerformerConfig.field_names(), *PerformerConfig.FILE_NAMES], f"{kind.__name__}.from_performer_pytorch"
    )
    tensors = {name.removeprefix(prefix): each for name, each in tensors_of(weights).items() if name.startswith(prefix)}
    if any(name.startswith("net.") for name in tensors):  # a `Performer`, without words
        tensors = {f"performer.{name}": each for name, each in tensors.items() if name.split(".")[0] in OF_PERFORMER}
    config = PerformerConfig(**{**shape_of(tensors), **ours_of(fields)})
    check_local_heads(tensors, config, fields)
    if config.vocab_size == 0:
        tensors["token_emb.weight"] = torch.empty(0, config.hidden_size)
        if config.rotary_position_emb:  # which the caller of a `Performer` keeps
            for name, size in (("pos_emb", config.hidden_size), ("layer_pos_emb", config.attention_head_size)):
                tensors[f"{name}.emb"] = fixed_positions(config.max_position_embeddings, size)
    with tempfile.TemporaryDirectory() as folder:
        write_weights(Path(folder), tensors)
        config.save_pretrained(folder)
        model = kind.from_pretrained(folder, dtype=dtype)
    model.config.name_or_path, model.source = "", None
    return model


OF_PERFORMER = ("net", "proj_updater")


def check_local_heads(tensors: Mapping[str, Tensor], config: PerformerConfig, fields: dict[str, Any]) -> None:
    """Local heads have one weight less than the fields that they need."""
    has_local = any(name.endswith("local_attn.rel_pos.inv_freq") for name in tensors)
    if has_local != any(config.local_heads):
        found = "has" if has_local else "has no"
        raise ConfigError(f"local_attn_heads is {config.local_attn_heads}, but the Performer {found} local heads")
    if has_local and not config.is_decoder and "shift_local_queries" not in fields:
        raise ConfigError(
            "shift_local_queries must be given for local heads that are not causal: True if the model was trained with "
            "local-attention 1.8.0 or newer, False if with an older one; nothing in the weights tells"
        )


def ours_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {PerformerConfig.FILE_NAMES.get(name, name): value for name, value in fields.items()}


def tensors_of(weights: Any) -> dict[str, Tensor]:
    """The tensors of a state dict, or those of a file that holds one."""
    if isinstance(weights, Mapping):
        wrong = [name for name, each in weights.items() if not isinstance(each, Tensor)]
        if wrong:
            raise CheckpointError(
                f"a state dict holds tensors, and {wrong[0]!r} is none: is it checkpoint['state_dict']?"
            )
        return {name: each.detach().cpu().clone() for name, each in weights.items()}
    if not isinstance(weights, (str, os.PathLike)):
        raise CheckpointError(f"give a state dict or the path of a file of one, got {type(weights).__name__}")
    opened = open_weights(weights)
    return {name: opened.read(name) for name in opened}


def shape_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The fields of a config that names and shapes tell."""
    layers = {int(match[1] or match[2]) for name in tensors if (match := LAYER.match(name))}
    reversible = any(name.startswith("performer.net.blocks.") for name in tensors)
    first, second = (
        ("performer.net.blocks.0.f.net.", "performer.net.blocks.0.g.net.")
        if reversible
        else ("performer.net.layers.0.0.", "performer.net.layers.0.1.")
    )
    if any(name.startswith(f"{first}fn.fn.to_q.") for name in tensors):
        raise ConfigError("the weights are of a Performer with shift_tokens=True, which is not computed here")
    if f"{first}fn.to_q.weight" not in tensors:
        shown = ", ".join(list(tensors)[:3]) or "nothing"
        raise CheckpointError(f"there is no Performer in the weights: no {first}fn.to_q.weight, but {shown}, ...")
    features, head_size = tensors[f"{first}fn.fast_attention.projection_matrix"].shape
    inner, size = tensors[f"{first}fn.to_q.weight"].shape
    wide, widened = tensors[f"{second}fn.fn.w1.weight"].shape[0], tensors[f"{second}fn.fn.w2.weight"].shape[1]
    gain = tensors.get(f"{first}g")
    words, table = tensors.get("token_emb.weight"), tensors.get("pos_emb.emb")
    axes = [tensors[name] for name in sorted(tensors) if name.startswith("pos_emb.weights.")]
    learned = tensors.get("pos_emb.emb.weight")
    fields: dict[str, Any] = {
        "vocab_size": 0 if words is None else len(words),
        "hidden_size": size,
        "num_hidden_layers": len(layers),
        "num_attention_heads": inner // head_size,
        "attention_head_size": head_size,
        "nb_features": features,
        "ff_mult": widened // size,
        "ff_glu": wide != widened,
        "reversible": reversible,
        "qkv_bias": f"{first}fn.to_q.bias" in tensors,
        "attn_out_bias": f"{first}fn.to_out.bias" in tensors,
        "use_scalenorm": gain is not None and gain.dim() == 1,
        "use_rezero": gain is not None and gain.dim() == 0,
        "final_norm": "norm.weight" in tensors,
        "tie_word_embeddings": words is not None and "to_out.weight" not in tensors,
        "rotary_position_emb": table is not None and table.dim() == 2,
    }
    if axes:
        fields |= {"axial_position_emb": True, "axial_position_shape": [each.numel() // size for each in axes]}
    for each in (table, learned):
        if each is not None:
            fields["max_position_embeddings"] = len(each)
    if axes:
        fields["max_position_embeddings"] = torch.tensor(fields["axial_position_shape"]).prod().item()
    return fields
