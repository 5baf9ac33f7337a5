"""What an architecture is compared with: its class in transformers, or plain torch that reads the same files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from glassformer.checkpoints.files import read_json
from glassformer.checkpoints.pretrained_config import PretrainedConfig


class Reference(Protocol):
    """Models that are called like ours and return what ours return; `name` is that of our class."""

    def load(self, name: str, folder: Path) -> nn.Module:
        """The model of a folder that we wrote, in float64. No weight may be missing, and none left over."""

    def save_new(self, name: str, config: PretrainedConfig, folder: Path) -> nn.Module:
        """A model with random weights, written into a folder as its own library writes it."""


@dataclass(frozen=True)
class Transformers:
    """The class of the same name in transformers."""

    arguments: Mapping[str, Any] = field(default_factory=dict)  # with which it computes what ours computes

    def load(self, name: str, folder: Path) -> nn.Module:
        kind = getattr(pytest.importorskip("transformers"), name)
        model, info = kind.from_pretrained(folder, dtype=torch.float64, output_loading_info=True, **self.arguments)
        assert not info["missing_keys"], (name, info)
        assert not info["unexpected_keys"], (name, info)
        return model.double().eval()  # some parameters are read in float32 all the same

    def save_new(self, name: str, config: PretrainedConfig, folder: Path) -> nn.Module:
        transformers = pytest.importorskip("transformers")
        model = getattr(transformers, name)(getattr(transformers, type(config).__name__)(**config.to_diff_dict()))
        model.save_pretrained(folder)
        return model.eval()


class Deberta(Transformers):
    """transformers with the LayerNorm of torch: its own for DeBERTa computes in float32, whatever the weights are."""

    def load(self, name: str, folder: Path) -> nn.Module:
        model = super().load(name, folder)
        for module in list(model.modules()):
            for child_name, child in module.named_children():
                if type(child).__name__ == "DebertaLayerNorm":
                    norm = nn.LayerNorm(len(child.weight), eps=child.variance_epsilon, dtype=torch.float64)
                    norm.load_state_dict(child.state_dict())
                    setattr(module, child_name, norm)
        return model


class Precise(Transformers):
    """transformers with weights of attention in the dtype of the model: some of its classes compute them in float32."""

    def load(self, name: str, folder: Path) -> nn.Module:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        def attend(module: Any, q: Any, k: Any, v: Any, mask: Any, scaling: float, **_: Any) -> tuple:
            weights = (q @ k.transpose(2, 3) * scaling + (0 if mask is None else mask)).softmax(-1)
            return (weights @ v).transpose(1, 2), weights

        ALL_ATTENTION_FUNCTIONS.register("precise", attend)
        model = super().load(name, folder)
        for module in model.modules():
            if hasattr(module, "config"):
                module.config._attn_implementation_internal = "precise"
        return model


class Longformer(Transformers):
    """transformers with a softmax in the type of the weights: its own computes in float32, whatever they are."""

    def load(self, name: str, folder: Path) -> nn.Module:
        model = super().load(name, folder)
        sys.modules["transformers.models.longformer.modeling_longformer"].nn = SoftmaxInOwnType()
        return model


class SoftmaxInOwnType:
    """torch.nn, whose functional.softmax keeps the type of its input."""

    def __init__(self) -> None:
        self.functional = SimpleNamespace(**vars(nn.functional))
        self.functional.softmax = lambda x, dim, dtype=None: x.softmax(dim)

    def __getattr__(self, name: str) -> Any:
        return getattr(nn, name)


@dataclass(frozen=True)
class Plain:
    """Modules of the test itself, whose parameters are named as in the files; each is made from a config.json."""

    classes: Mapping[str, Callable[[dict[str, Any]], nn.Module]]  # the name of our class -> the plain one

    def load(self, name: str, folder: Path) -> nn.Module:
        model = self.classes[name](read_json(folder / "config.json")).double()
        missing, unexpected = model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
        first_names = dict(model.named_parameters())  # files hold what is tied under its first name
        assert not unexpected and not first_names.keys() & {*missing}, (name, missing, unexpected)
        return model.eval()

    def save_new(self, name: str, config: PretrainedConfig, folder: Path) -> nn.Module:
        model = self.classes[name](config.to_dict())
        config.save_pretrained(folder)
        save_file(dict(model.named_parameters()), folder / "model.safetensors")
        return model.eval()
