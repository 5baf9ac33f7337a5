"""DeBERTa v2 and v3 (He et al. 2021): DeBERTa with far distances in buckets.

Queries and keys of distances can come from the layers' own projections (`share_att_key`), the table of distances can be
normalised, and a convolution can run beside the first layer. A v3 has the shape of a v2, and was trained as ELECTRA is.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import boolean, checked, choice, integer
from ..checkpoints.keymap import KeyMap, Row
from ..errors import ConfigError
from ..json_fields import is_string
from ..nn.activation import ACTIVATIONS
from ..nn.context import Context
from ..nn.dropout import Dropout
from ..nn.layout import Layout
from .deberta import LAYER, WEIGHTS, DebertaConfig, DebertaModel, DebertaPreTrainedModel
from .deberta_layers import DebertaEncoder, DebertaLayer, zero_masked

ATTENTION, CONVOLUTION = LAYER + "attention.self.", "encoder.layer.0.convolution."
WEIGHTS = KeyMap(
    prefix="deberta.",
    body=WEIGHTS.body,
    rows=(
        *(Row(f"{ATTENTION}{part}_proj.*", f"{ATTENTION}{part}.*") for part in ("query", "key", "value")),
        Row(ATTENTION + "pos_key_proj.*", ATTENTION + "position_key.*"),
        Row(ATTENTION + "pos_query_proj.*", ATTENTION + "position_query.*"),
        Row("encoder.conv.conv.*", CONVOLUTION + "conv.*"),
        Row("encoder.conv.LayerNorm.*", CONVOLUTION + "LayerNorm.*"),
    ),
    optional=WEIGHTS.optional,
    old_names=WEIGHTS.old_names,
    leftovers=WEIGHTS.leftovers,
    overruled=WEIGHTS.overruled,
)


@dataclass(repr=False, eq=False)
class DebertaV2Config(DebertaConfig):
    """The shape of a DeBERTa v2 or v3; the defaults are those of transformers, without relative positions."""

    model_type = "deberta-v2"
    has_key_bias = True
    DERIVED = (*DebertaConfig.DERIVED, "attention_head_size")

    vocab_size: int = integer(128100)
    hidden_size: int = integer(1536)
    num_hidden_layers: int = integer(24, high=10_000)
    num_attention_heads: int = integer(24)
    intermediate_size: int = integer(6144)
    _: KW_ONLY
    position_buckets: int = integer(-1, low=-1)  # -1, 0: every distance has a vector of its own
    share_att_key: bool = boolean(False)
    norm_rel_ebd: str = checked("none", is_string)  # "layer_norm": the table of distances is normalised
    conv_kernel_size: int = integer(0, low=0)  # 0: no convolution
    conv_groups: int = integer(1)
    conv_act: str = choice("tanh", ACTIVATIONS)
    attention_head_size: int | None = integer(None, optional=True)

    def validate(self) -> None:
        super().validate()
        size = self.hidden_size // self.num_attention_heads
        if self.attention_head_size not in (None, size):
            raise ConfigError(f"attention_head_size must be hidden_size / num_attention_heads, {size}, in a DeBERTa")
        if self.conv_kernel_size and self.conv_kernel_size % 2 == 0:
            raise ConfigError(f"conv_kernel_size must be odd, got {self.conv_kernel_size}")

    @property
    def span(self) -> int:
        return self.position_buckets if self.position_buckets > 0 else self.farthest

    @property
    def score_terms(self) -> int:
        return 1 + sum(kind in (self.pos_att_type or ()) for kind in ("c2p", "p2c"))

    @property
    def normalises_distances(self) -> bool:
        return "layer_norm" in [kind.strip() for kind in self.norm_rel_ebd.lower().split("|")]


class DebertaV2PreTrainedModel(DebertaPreTrainedModel):
    """What every DeBERTa v2 has: its configuration and its table of weights."""

    config_class = DebertaV2Config
    keymap = WEIGHTS


class DebertaV2Model(DebertaV2PreTrainedModel, DebertaModel):
    """Tokens in, contextual vectors out; `DebertaModel` with another encoder."""

    def make_encoder(self) -> DebertaEncoder:
        return DebertaV2Encoder(self.config)


class DebertaV2Encoder(DebertaEncoder):
    """The stack of layers, with buckets of distances."""

    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.farthest = config.farthest
        self.position_buckets = config.position_buckets
        if config.normalises_distances:
            self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def make_layers(self, config: Any) -> list[nn.Module]:
        layers: list[nn.Module] = [DebertaLayer(config) for _ in range(config.num_hidden_layers)]
        if config.conv_kernel_size:
            layers[0] = ConvolutionalLayer(config)
        return layers

    def buckets(self, distances: Tensor) -> Tensor:
        return log_buckets(distances, self.position_buckets, self.farthest) if self.position_buckets > 0 else distances

    def normalise(self, vectors: Tensor) -> Tensor:
        return self.LayerNorm(vectors) if hasattr(self, "LayerNorm") else vectors


def log_buckets(distances: Tensor, count: int, farthest: int) -> Tensor:
    """Near distances as they are; beyond half of the `count` in each direction, buckets that widen with the logarithm.

    >>> log_buckets(torch.tensor([-3, 0, 4, 5, 8, 16, 31]), count=8, farthest=32).tolist()
    [-3, 0, 4, 5, 6, 7, 7]
    """
    near = count // 2
    far = distances.abs().clamp(min=near)
    ratio = torch.log(far / near) / torch.log(torch.tensor((farthest - 1) / near))  # float32, as bounds were trained
    bucket = (torch.ceil(ratio * (near - 1)) + near) * distances.sign()
    return torch.where(distances.abs() <= near, distances, bucket.long())


class ConvolutionalLayer(DebertaLayer):
    """A layer to whose output a convolution of its input is added."""

    def __init__(self, config: DebertaV2Config):
        super().__init__(config)
        self.convolution = Convolution(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        layout = context.layout
        return zero_masked(self.convolution(x, super().forward(x, context), layout), layout)


class Convolution(nn.Module):
    """A convolution over each sequence, added to other states and normalised."""

    def __init__(self, config: DebertaV2Config):
        super().__init__()
        size, width = config.hidden_size, config.conv_kernel_size
        self.conv = nn.Conv1d(size, size, width, padding=width // 2, groups=config.conv_groups)
        self.activation = ACTIVATIONS[config.conv_act]()
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.LayerNorm = nn.LayerNorm(size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, states: Tensor, layout: Layout) -> Tensor:
        """N C and N C -> N C, or B T C as a direct call has them."""
        rows = x.reshape(-1, x.shape[-1])
        lengths = torch.tensor([run.length for run in layout.runs for _ in range(run.count)], device=x.device)
        sequence = torch.arange(len(lengths), device=x.device).repeat_interleave(lengths)
        places = torch.arange(len(rows), device=x.device) + sequence * (self.conv.kernel_size[0] // 2)
        # One long sequence with gaps of zeros, so that no window reaches from one text into another.
        spaced = rows.new_zeros(int(places[-1]) + 1, x.shape[-1]).index_copy(0, places, rows)
        convolved = self.conv(spaced.t()[None])[0].t()[places].view_as(x)
        return self.LayerNorm(states + self.activation(self.dropout(convolved)))
