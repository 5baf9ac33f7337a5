"""Performer (Choromanski et al. 2020), as performer-pytorch 1.1.4 builds it: a pre-norm stack with random features.

Queries and keys are turned by their positions before they become features. Some heads of a layer can be local: they
attend by softmax within blocks of tokens. Its layers are in `performer_layers.py`, its heads in `performer_heads.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, checked, choice, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, shown
from ..nn.activation import ACTIVATIONS
from ..nn.dropout import Dropout
from ..nn.norm import ReZero, ScaleNorm
from ..nn.position import fixed_positions
from ..nn.random_features import redraw_features
from .base.body import Body
from .base.embeddings import Embeddings
from .base.outputs import BaseModelOutputWithPastAndCrossAttentions, ModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.signature import CACHE, OUTPUTS, takes
from .performer_layers import PerformerEncoder

INPUTS = ("input_ids", "attention_mask", "position_ids", "head_mask", "inputs_embeds")

CONFIG = {
    "num_tokens": "vocab_size",
    "max_seq_len": "max_position_embeddings",
    "dim": "hidden_size",
    "depth": "num_hidden_layers",
    "heads": "num_attention_heads",
    "dim_head": "attention_head_size",
    "causal": "is_decoder",
    "emb_dropout": "embedding_dropout_prob",
    "ff_dropout": "hidden_dropout_prob",
    "attn_dropout": "attention_dropout_prob",
    "tie_embed": "tie_word_embeddings",
}

OURS = "encoder.layer.{i}."


def weights_table(attention: str, feed_forward: str) -> KeyMap:
    """The table for files whose layers have these names below `net`."""

    def row(theirs: str, ours: str) -> Row:
        copy = f"performer.proj_updater.instance.{theirs}"  # the library saves the stack twice
        return Row(f"performer.net.{theirs}", OURS + ours, same_in_file=(copy,), write_copies=True)

    return KeyMap(
        prefix="performer.",
        prefix_in_files="",
        body=("token_emb", "pos_emb", "layer_pos_emb", "performer", "norm"),
        rows=(
            Row("token_emb.*", "embeddings.word_embeddings.*"),
            Row("pos_emb.emb.*", "embeddings.position_embeddings.*"),
            Row("pos_emb.emb", "embeddings.fixed_positions"),
            Row("pos_emb.weights.{i}", "embeddings.axial_positions.{i}"),
            Row("layer_pos_emb.emb", "encoder.rotary_positions"),
            row(f"{attention}.norm.*", "attention.norm.*"),
            row(f"{attention}.g", "attention.norm.g"),
            *(
                row(f"{attention}.fn.to_{theirs}.*", f"attention.{ours}.*")
                for theirs, ours in {
                    "q": "self.query",
                    "k": "self.key",
                    "v": "self.value",
                    "out": "output.dense",
                }.items()
            ),
            row(f"{attention}.fn.fast_attention.projection_matrix", "attention.self.features.projection_matrix"),
            row(f"{attention}.fn.local_attn.rel_pos.inv_freq", "attention.self.frequencies"),
            row(f"{feed_forward}.norm.*", "output.norm.*"),
            row(f"{feed_forward}.g", "output.norm.g"),
            row(f"{feed_forward}.fn.fn.w1.*", "intermediate.dense.*"),
            row(f"{feed_forward}.fn.fn.w2.*", "output.dense.*"),
            Row("performer.proj_updater.calls_since_last_redraw", "encoder.feature_redraw.calls_since_last_redraw"),
            Row("norm.*", "encoder.LayerNorm.*"),
        ),
    )


WEIGHTS = weights_table("layers.{i}.0", "layers.{i}.1")
REVERSIBLE = weights_table("blocks.{i}.f.net", "blocks.{i}.g.net")


def check_local_heads(name: str, value: Any) -> int | list[int]:
    """A count for all layers, or one for each."""
    counts = list(value) if isinstance(value, (list, tuple)) else [value]
    if not counts or any(isinstance(each, bool) or not isinstance(each, int) or each < 0 for each in counts):
        raise ConfigError(f"{name} must be a count of heads, or a list of one for each layer, got {shown(value)}")
    return counts if isinstance(value, (list, tuple)) else value


def check_axial_shape(name: str, value: Any) -> list[int] | None:
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or not value or not all(type(each) is int and each > 0 for each in value):
        raise ConfigError(f"{name} must be a list of lengths whose product is max_seq_len, got {shown(value)}")
    return list(value)


@dataclass(repr=False, eq=False)
class PerformerConfig(PretrainedConfig):
    """The shape of a Performer; the names and defaults of `PerformerLM` in performer-pytorch work too.

    Without words of its own (`num_tokens=0`) it is the library's `Performer`, which reads `inputs_embeds`.
    """

    model_type = "performer"
    FILE_NAMES = CONFIG
    layer_norm_eps = 1e-5

    vocab_size: int = integer(20000, low=0)
    max_position_embeddings: int = integer(2048)
    hidden_size: int = integer(512)
    num_hidden_layers: int = integer(6, high=10_000)
    num_attention_heads: int = integer(8)
    attention_head_size: int = integer(64)
    _: KW_ONLY
    local_attn_heads: int | list[int] = checked(0, check_local_heads)
    local_window_size: int = integer(256)
    is_decoder: bool = boolean(False)
    ff_mult: int = integer(4)
    hidden_act: str | Callable = activation("gelu")
    nb_features: int | None = integer(None, optional=True)
    feature_redraw_interval: int | None = integer(1000, optional=True)
    reversible: bool = boolean(False)
    ff_chunks: int = integer(1)
    ff_glu: bool = boolean(False)
    embedding_dropout_prob: float = number(0.0, 0, 1)
    hidden_dropout_prob: float = number(0.0, 0, 1)
    attention_dropout_prob: float = number(0.0, 0, 1)  # of attention's output, and of the weights of local heads
    generalized_attention: bool = boolean(False)
    kernel_fn: str = choice("relu", ACTIVATIONS)
    use_scalenorm: bool = boolean(False)
    use_rezero: bool = boolean(False)
    cross_attend: bool = boolean(False)
    no_projection: bool = boolean(False)
    tie_word_embeddings: bool = boolean(False)
    rotary_position_emb: bool = boolean(True)
    axial_position_emb: bool = boolean(False)
    axial_position_shape: list[int] | None = checked(None, check_axial_shape)
    qkv_bias: bool = boolean(False)
    attn_out_bias: bool = boolean(False)
    shift_tokens: bool = boolean(False)
    # Local heads of a model that is not causal: whether queries turn by one window more than keys of their own place.
    # They do since local-attention 1.8, with which performer-pytorch was trained from 2023 on, and did not before.
    shift_local_queries: bool = boolean(False)
    final_norm: bool = boolean(True)  # behind the stack, as `PerformerLM` has it and `Performer` does not
    initializer_range: float = number(0.02, 0, 1e6)
    classifier_dropout: float = number(0.1, 0, 1)
    use_cache: bool = boolean(True)

    def validate(self) -> None:
        for name in ("cross_attend", "no_projection", "shift_tokens", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True is not computed here: set it to False, in a file made without it")
        if self.hidden_size % self.num_attention_heads:
            raise ConfigError(f"dim must be a multiple of heads, got {self.hidden_size} and {self.num_attention_heads}")
        for name in ("hidden_size", "attention_head_size"):
            if self.rotary_position_emb and getattr(self, name) % 2:
                raise ConfigError(f"{name} must be even for rotary positions, got {getattr(self, name)}")
        if self.attention_head_size % 2 and any(self.local_heads):
            raise ConfigError(f"attention_head_size must be even for local heads, got {self.attention_head_size}")
        if len(self.local_heads) != self.num_hidden_layers or max(self.local_heads) > self.num_attention_heads:
            raise ConfigError(
                f"local_attn_heads must be at most {self.num_attention_heads} in each of {self.num_hidden_layers} "
                f"layers, got {self.local_attn_heads}"
            )
        if self.has_axial_positions and math.prod(self.axial_shape) != self.max_position_embeddings:
            raise ConfigError(
                f"axial_position_shape must multiply to max_seq_len {self.max_position_embeddings}, "
                f"got {self.axial_shape}"
            )

    @property
    def local_heads(self) -> list[int]:
        """How many heads of each layer are local."""
        heads = self.local_attn_heads
        return [heads] * self.num_hidden_layers if isinstance(heads, int) else heads

    @property
    def has_axial_positions(self) -> bool:
        return self.axial_position_emb and not self.rotary_position_emb

    @property
    def axial_shape(self) -> list[int]:
        return self.axial_position_shape or [math.ceil(self.max_position_embeddings / 64), 64]

    @property
    def intermediate_size(self) -> int:
        return self.ff_mult * self.hidden_size


class PerformerPreTrainedModel(PreTrainedModel):
    """What every Performer has: its configuration, its table of weights and how weights are initialised."""

    config_class = PerformerConfig
    base_model_prefix = "performer"
    keymap = WEIGHTS

    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        if self.config.reversible:
            self.keymap = REVERSIBLE

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, ScaleNorm | ReZero):
            module.reset()
        if isinstance(module, nn.ParameterList):
            for parameter in module:
                parameter.data.normal_()

    def fix_projection_matrices_(self) -> None:
        """Redraw random features no more, whatever the interval says."""
        self.base_model.encoder.feature_redraw.interval = None

    def redraw_projections(self) -> None:
        """Redraw random features now."""
        redraw_features(self)

    @classmethod
    def from_performer_pytorch(
        cls, weights: Any, prefix: str = "", dtype: torch.dtype | str | None = None, **fields: Any
    ) -> PerformerPreTrainedModel:
        """The model of a state dict of performer-pytorch's `PerformerLM` or `Performer`, or of a file (.pt) of one.

        Sizes are read from the weights. `fields` are what these do not tell, under the library's names: `causal`,
        `generalized_attention`, `local_attn_heads`, `local_window_size`, `shift_local_queries`, ... `prefix` is that of
        the Performer in the weights of a larger model, whose other weights are not read. `dtype` is as in
        `from_pretrained`.

        >>> from glassformer import PerformerForCausalLM
        >>> model = PerformerForCausalLM.from_performer_pytorch("enwik8.pt", causal=True)    # doctest: +SKIP
        """
        from .performer_files import read_performer_pytorch

        return read_performer_pytorch(cls, weights, prefix, dtype, fields)


class PerformerModel(PerformerPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> config = PerformerConfig(num_tokens=50, max_seq_len=64, dim=32, depth=2, heads=2, dim_head=16)
    >>> PerformerModel(config)(torch.tensor([[7, 9, 4]])).last_hidden_state.shape
    torch.Size([1, 3, 32])
    """

    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        self.is_decoder = self.config.is_decoder
        self.embeddings = PerformerEmbeddings(self.config)
        self.encoder = PerformerEncoder(self.config)
        self.post_init()

    @takes(*INPUTS, *CACHE, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `GPT2Model`."""
        return self.as_output(BaseModelOutputWithPastAndCrossAttentions, self.encode(**inputs), return_dict)


class PerformerEmbeddings(Embeddings):
    """Word and position vectors, added; positions are fixed waves, or learned, whole or along two axes."""

    fixed_positions: Tensor  # T C

    def __init__(self, config: PerformerConfig):
        super().__init__()
        size, length = config.hidden_size, config.max_position_embeddings
        self.length = length
        self.word_embeddings = nn.Embedding(config.vocab_size, size)
        if config.rotary_position_emb:
            self.register_buffer("fixed_positions", torch.empty(length, size))
            self.fill()
        elif config.has_axial_positions:
            shape = config.axial_shape
            sizes = [[1, *(n if i == axis else 1 for i, n in enumerate(shape)), size] for axis in range(len(shape))]
            self.axial_positions = nn.ParameterList(nn.Parameter(torch.empty(each)) for each in sizes)
        elif config.vocab_size:
            self.position_embeddings = nn.Embedding(length, size)
        self.dropout = Dropout(config.embedding_dropout_prob)

    def fill(self) -> None:
        """Compute the table, again for a module that was built on the meta device."""
        device = self.word_embeddings.weight.device
        self.fixed_positions = fixed_positions(*self.fixed_positions.shape, device=device)

    def forward(
        self,
        input_ids: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return self.dropout(x + self.position_vectors(position_ids).to(x.dtype))

    def position_vectors(self, places: Tensor) -> Tensor:
        if "fixed_positions" in self._buffers:
            return self.fixed_positions[places]
        if "position_embeddings" in self._modules:
            return self.position_embeddings(places)
        if "axial_positions" not in self._modules:  # vectors that have positions already
            return self.word_embeddings.weight.new_zeros(())
        total, rest = 0.0, places
        for weights in reversed(list(self.axial_positions)):
            length = weights.numel() // weights.shape[-1]
            total = total + weights.flatten(0, -2)[rest % length]
            rest = rest // length
        return total

    @property
    def position_count(self) -> int:
        return self.length
