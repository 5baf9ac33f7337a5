"""`attention="performer"`: the config fields of architectures that can attend linearly, and the conversion."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import nn

from ...checkpoints.config_fields import boolean, choice, integer
from ...checkpoints.pretrained_config import PretrainedConfig
from ...errors import ConfigError, InputError, refuse_unknown
from ...nn.activation import ACTIVATIONS
from ...nn.random_features import FeatureRedraw, RandomFeatures

# Optional in tables of weights: the files of a model without them can be loaded as one with them.
RANDOM_FEATURES = (r"encoder\.layer\.\d+\.attention\.self\.features", r"encoder\.feature_redraw")


@dataclass(repr=False, eq=False, kw_only=True)
class LinearAttentionConfig(PretrainedConfig):
    """The fields of self-attention with random features, named as in performer-pytorch."""

    attention: str = choice("softmax", ("softmax", "performer"))
    nb_features: int | None = integer(None, optional=True)  # of each head; None: D ln D for heads of the width D
    generalized_attention: bool = boolean(False)  # features of an activation, in place of those of softmax
    kernel_fn: str = choice("relu", ACTIVATIONS)  # that activation
    feature_redraw_interval: int | None = integer(1000, optional=True)  # passes of training; None: never

    def validate(self) -> None:
        super().validate()
        kind = getattr(self, "position_embedding_type", "absolute")
        if self.attention == "performer" and kind != "absolute":
            raise ConfigError(f"attention='performer' computes no scores to which {kind!r} could add distances")

    def to_dict(self) -> dict[str, Any]:
        """Without these fields where they say nothing, so that other programs find the files they know."""
        values = super().to_dict()
        if self.attention == "softmax":
            for name in FIELDS:
                if values[name] == LinearAttentionConfig.__dataclass_fields__[name].default:
                    del values[name]
        return values


FIELDS = tuple(LinearAttentionConfig.__annotations__)


def make_features(config: Any, head_size: int, scale: float | None = None) -> RandomFeatures | None:
    """The random features of one self-attention, if the config wants them."""
    if getattr(config, "attention", "softmax") != "performer":
        return None
    return RandomFeatures(head_size, config.nb_features, config.generalized_attention, config.kernel_fn, scale)


def make_feature_redraw(config: Any) -> FeatureRedraw | None:
    """What redraws the features of a stack of layers in training."""
    is_linear = getattr(config, "attention", "softmax") == "performer"
    return FeatureRedraw(config.feature_redraw_interval) if is_linear else None


Model = TypeVar("Model", bound=nn.Module)


def to_performer(model: Model, **fields: Any) -> Model:
    """A copy of a trained model whose self-attention has random features: its cost grows linearly with the text.

    `fields` are those of the config: `nb_features`, `generalized_attention`, `kernel_fn`, `feature_redraw_interval`.
    The more features, the nearer its numbers are to those of the model; some training brings it the rest of the way.
    The copy is saved with its projection matrices and loaded like any other model.

    >>> from glassformer import BertConfig, BertModel
    >>> bert = BertModel(BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2))
    >>> to_performer(bert, nb_features=128).config.attention
    'performer'
    """
    config = getattr(model, "config", None)
    if not isinstance(config, LinearAttentionConfig):
        raise InputError(f"{type(model).__name__} has no linear attention: BERT, RoBERTa, ERNIE and GPT-2 have")
    if model.adapter is not None:
        raise InputError("the model has an adapter: merge_lora(model) merges it into the weights")
    refuse_unknown(fields, FIELDS[1:], "to_performer")
    config = type(config).from_dict(config.to_dict(), **{**fields, "attention": "performer"})
    new = type(model)(config).to(model.device, model.stream_dtype)
    missing, unexpected = nn.Module.load_state_dict(new, model.state_dict(), strict=False)
    random = [name for name in missing if "feature" not in name]
    if random or unexpected:
        raise InputError(
            f"the config of this {type(model).__name__} does not describe its weights: {random + unexpected}"
        )
    for name in ("load_report", "_initialised", "_constructed", "generation_config"):
        if hasattr(model, name):
            setattr(new, name, copy.deepcopy(getattr(model, name)))
    return new.train(model.training)
