"""ALBERT (Lan et al. 2019): BERT whose layers share their weights, and whose word vectors are narrower than the model.

Layers come in groups: all of a group are one module that runs again and again (`inner_group_num` of them in turn). Word
vectors have `embedding_size` columns and are projected. Each layer normalises after its residual sums, as BERT's do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any

from torch import Tensor

from ..checkpoints.config_fields import activation, choice, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError
from ..nn.attention import ScoreBias, head_size
from ..nn.feedforward import AddNorm
from ..nn.layout import Layout
from .base.body import Body, LayerStack
from .base.outputs import BaseModelOutputWithPoolingAndCrossAttentions, ModelOutput
from .base.signature import OUTPUTS, TEXT, takes
from .bert import POSITIONS, BertPooler, BertPreTrainedModel, ProjectedEmbeddings
from .bert_layers import BertAttention, BertLayer, BertSelfAttention


@dataclass(repr=False, eq=False)
class AlbertConfig(PretrainedConfig):
    """The shape of an ALBERT; the defaults are albert-xxlarge. `num_hidden_groups` groups share out the layers."""

    model_type = "albert"
    FILE_NAMES = {"classifier_dropout_prob": "classifier_dropout"}

    vocab_size: int = integer(30000)
    embedding_size: int = integer(128)
    hidden_size: int = integer(4096)
    num_hidden_layers: int = integer(12, high=10_000)
    num_hidden_groups: int = integer(1)
    num_attention_heads: int = integer(64)
    intermediate_size: int = integer(16384)
    inner_group_num: int = integer(1, high=10_000)
    hidden_act: str | Callable = activation("gelu_new")
    hidden_dropout_prob: float = number(0.0, 0, 1)
    attention_probs_dropout_prob: float = number(0.0, 0, 1)
    max_position_embeddings: int = integer(512)
    type_vocab_size: int = integer(2)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    classifier_dropout: float | None = number(0.1, 0, 1, optional=True)
    position_embedding_type: str = choice("absolute", POSITIONS)
    _: KW_ONLY
    pad_token_id: int | None = integer(0, low=0, optional=True)
    bos_token_id: int | None = integer(2, low=0, optional=True)
    eos_token_id: int | list[int] | None = integer(3, low=0, optional=True)

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        if self.num_hidden_groups > self.num_hidden_layers:
            raise ConfigError(
                f"num_hidden_groups must be at most num_hidden_layers, got {self.num_hidden_groups} groups for "
                f"{self.num_hidden_layers} layers"
            )
        if self.num_hidden_layers * self.inner_group_num > 10_000:
            raise ConfigError(
                f"num_hidden_layers x inner_group_num must be at most 10,000, got {self.num_hidden_layers} x "
                f"{self.inner_group_num}"
            )
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: an ALBERT only encodes, BertConfig has decoders")


THEIRS = {  # of one layer, beside our names
    "attention.query.*": "attention.self.query.*",
    "attention.key.*": "attention.self.key.*",
    "attention.value.*": "attention.self.value.*",
    "attention.distance_embedding.*": "attention.self.distance_embedding.*",
    "attention.dense.*": "attention.output.dense.*",
    "attention.LayerNorm.*": "attention.output.LayerNorm.*",
    "ffn.*": "intermediate.dense.*",
    "ffn_output.*": "output.dense.*",
    "full_layer_layer_norm.*": "output.LayerNorm.*",
}


@cache
def weights_of(layers: int, groups: int, inner: int) -> KeyMap:
    """The table of weights: files hold every group once, and ours has it where it runs first."""
    return KeyMap(
        prefix="albert.",
        body=("embeddings", "encoder", "pooler"),
        rows=(
            Row("encoder.embedding_hidden_mapping_in.*", "embeddings.projection.*"),
            *(
                Row(f"encoder.albert_layer_groups.{group}.albert_layers.{member}.{theirs}", f"encoder.layer.{i}.{ours}")
                for i, (group, member) in enumerate(members_of(layers, groups, inner))
                for theirs, ours in THEIRS.items()
            ),
            Row("pooler.*", "pooler.dense.*"),
        ),
        optional=("pooler",),
        old_names=((".gamma", ".weight"), (".beta", ".bias")),
        leftovers=(r"embeddings\.position_ids", r"embeddings\.token_type_ids"),
        overruled=("predictions.bias",),
    )


def members_of(layers: int, groups: int, inner: int) -> list[tuple[int, int]]:
    """The group that each layer belongs to, and its place there.

    >>> members_of(4, 2, 1)
    [(0, 0), (0, 0), (1, 0), (1, 0)]
    """
    return [(int(i / (layers / groups)), member) for i in range(layers) for member in range(inner)]


class AlbertPreTrainedModel(BertPreTrainedModel):
    """What every ALBERT has: its configuration, its table of weights, and layers that share theirs."""

    config_class = AlbertConfig
    base_model_prefix = "albert"

    @property
    def keymap(self) -> KeyMap:  # type: ignore[override]
        return weights_of(*shape_of(self.config))

    def tied_names(self) -> dict[str, str]:
        layers, prefix = list(self.layers), "" if self.base_model is self else f"{self.base_model_prefix}."
        shared = {
            f"{prefix}encoder.layer.{i}.{name}": f"{prefix}encoder.layer.{layers.index(layer)}.{name}"
            for i, layer in enumerate(layers)
            for name, _ in layer.named_parameters()
            if layers.index(layer) != i
        }
        return {**shared, **super().tied_names()}


def shape_of(config: AlbertConfig) -> tuple[int, int, int]:
    return config.num_hidden_layers, config.num_hidden_groups, config.inner_group_num


class AlbertModel(AlbertPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> import torch
    >>> shape = {"embedding_size": 8, "hidden_size": 24, "num_attention_heads": 2, "intermediate_size": 48}
    >>> model = AlbertModel(AlbertConfig(vocab_size=50, **shape))
    >>> model(torch.tensor([[2, 7, 3]])).last_hidden_state.shape, len(model.layers), model.layer(0) is model.layer(11)
    (torch.Size([1, 3, 24]), 12, True)
    """

    def __init__(self, config: AlbertConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.is_decoder = False
        self.embeddings = ProjectedEmbeddings(self.config)
        self.encoder = AlbertEncoder(self.config)
        self.pooler = BertPooler(self.config) if add_pooling_layer else None
        self.post_init()

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        return None if self.pooler is None else self.pooler(rows, layout)

    @takes(*TEXT, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`."""
        return self.as_output(BaseModelOutputWithPoolingAndCrossAttentions, self.encode(**inputs), return_dict)


class AlbertEncoder(LayerStack):
    """The stack of layers; those of a group are the same module."""

    def __init__(self, config: AlbertConfig):
        members = members_of(*shape_of(config))
        modules = {member: AlbertLayer(config) for member in dict.fromkeys(members)}
        super().__init__([modules[member] for member in members])


class AlbertLayer(BertLayer):
    """BERT's layer without dropout after the feed-forward."""

    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.attention = AlbertAttention(config)
        self.output = AddNorm(config.intermediate_size, config.hidden_size, config.layer_norm_eps, dropout=0.0)


class AlbertAttention(BertAttention):
    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.self = AlbertSelfAttention(config)


class AlbertSelfAttention(BertSelfAttention):
    def relative_score_bias(self, layout: Layout) -> ScoreBias:
        """BERT's scores of distances, not divided by the square root of the head size."""
        scores = super().relative_score_bias(layout)
        return lambda q, k: scores(q, k) * self.attention_head_size**0.5
