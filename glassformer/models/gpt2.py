"""GPT-2 (Radford et al. 2019): a stack of causal layers that normalise before each part.

Its files use other names, keep queries, keys and values in one tensor and matrices transposed: the two tables say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, choice, integer, number, typed
from ..checkpoints.keymap import KeyMap, Row
from ..nn.activation import ACTIVATIONS
from ..nn.attention import SelfAttention, head_size, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project, in_chunks
from ..nn.random_features import RandomFeatures
from .base.body import Body, LayerStack
from .base.embeddings import Embeddings
from .base.linear_attention import RANDOM_FEATURES, LinearAttentionConfig, make_feature_redraw, make_features
from .base.outputs import BaseModelOutputWithPastAndCrossAttentions, ModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.sequence_summary import SUMMARY_TYPES
from .base.signature import OUTPUTS, SOURCE, TEXT, takes

CONFIG = {
    "n_positions": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "activation_function": "hidden_act",
    "resid_pdrop": "hidden_dropout_prob",
    "embd_pdrop": "embedding_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}

LAYER = "encoder.layer.{i}."
WEIGHTS = KeyMap(
    prefix="transformer.",
    body=("wte", "wpe", "h", "ln_f"),
    rows=(
        Row("wte.*", "embeddings.word_embeddings.*"),
        Row("wpe.*", "embeddings.position_embeddings.*"),
        Row("h.{i}.ln_1.*", LAYER + "attention.LayerNorm.*"),
        Row(
            "h.{i}.attn.c_attn.*",
            tuple(LAYER + f"attention.self.{part}.*" for part in ("query", "key", "value")),
            transpose=True,
        ),
        Row("h.{i}.attn.c_proj.*", LAYER + "attention.output.dense.*", transpose=True),
        Row("h.{i}.ln_cross_attn.*", LAYER + "crossattention.LayerNorm.*"),
        Row("h.{i}.crossattention.q_attn.*", LAYER + "crossattention.self.query.*", transpose=True),
        Row(
            "h.{i}.crossattention.c_attn.*",
            tuple(LAYER + f"crossattention.self.{part}.*" for part in ("key", "value")),
            transpose=True,
        ),
        Row("h.{i}.crossattention.c_proj.*", LAYER + "crossattention.output.dense.*", transpose=True),
        Row("h.{i}.ln_2.*", LAYER + "intermediate.LayerNorm.*"),
        Row("h.{i}.mlp.c_fc.*", LAYER + "intermediate.dense.*", transpose=True),
        Row("h.{i}.mlp.c_proj.*", LAYER + "output.dense.*", transpose=True),
        Row("ln_f.*", "encoder.LayerNorm.*"),
    ),
    optional=(r"encoder\.layer\.\d+\.crossattention", *RANDOM_FEATURES),
    leftovers=(r"h\.\d+\.(attn|crossattention)\.(bias|masked_bias)",),
)


@dataclass(repr=False, eq=False)
class GPT2Config(LinearAttentionConfig):
    """The shape of a GPT-2; the defaults are the smallest published one. Names of files such as `n_embd` work too."""

    model_type = "gpt2"
    FILE_NAMES = CONFIG

    vocab_size: int = integer(50257)
    max_position_embeddings: int = integer(1024)
    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    intermediate_size: int | None = integer(None, optional=True)  # None: four times hidden_size
    hidden_act: str | Callable = activation("gelu_new")
    hidden_dropout_prob: float = number(0.1, 0, 1)
    embedding_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    layer_norm_eps: float = number(1e-5, 0, 1)
    initializer_range: float = number(0.02, 0, 1e6)
    _: KW_ONLY
    scale_attn_weights: bool = boolean(True)
    scale_attn_by_inverse_layer_idx: bool = boolean(False)
    reorder_and_upcast_attn: bool = boolean(False)
    classifier_dropout: float | None = number(None, 0, 1, optional=True)  # of the token classifier; None: 0.1
    summary_type: str = choice("cls_index", SUMMARY_TYPES)
    summary_use_proj: bool = boolean(True)
    summary_activation: str | None = choice(None, (None, *ACTIVATIONS))
    summary_proj_to_labels: bool = boolean(True)
    summary_first_dropout: float = number(0.1, 0, 1)
    summary_last_dropout: float = number(0.0, 0, 1)
    use_cache: bool = boolean(True)
    is_decoder: bool = boolean(True)
    bos_token_id: int | None = integer(50256, low=0, optional=True)
    eos_token_id: int | list[int] | None = typed(50256, (int, list))

    def validate(self) -> None:
        super().validate()
        head_size(self.hidden_size, self.num_attention_heads)

    def attention_scale(self, layer: int) -> float | None:
        """What scores are multiplied with in one layer; None is 1 / sqrt(head size)."""
        if self.scale_attn_weights and not self.scale_attn_by_inverse_layer_idx:
            return None
        scale = head_size(self.hidden_size, self.num_attention_heads) ** -0.5 if self.scale_attn_weights else 1.0
        return scale / (layer + 1) if self.scale_attn_by_inverse_layer_idx else scale


class GPT2PreTrainedModel(PreTrainedModel):
    """What every GPT-2 has: its configuration, its table of weights and how weights are initialised."""

    config_class = GPT2Config
    base_model_prefix = "transformer"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, Project):  # the more layers add to the residual, the smaller the initial weights
            deviation = self.config.initializer_range / math.sqrt(2 * self.config.num_hidden_layers)
            module.dense.weight.data.normal_(0.0, deviation)


class GPT2Model(GPT2PreTrainedModel, Body):
    """Tokens in, causal contextual vectors out."""

    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.is_decoder = True
        self.embeddings = GPT2Embeddings(self.config)
        self.encoder = GPT2Encoder(self.config)
        self.post_init()

    @takes("input_ids", "past_key_values", *TEXT[1:], *SOURCE, "use_cache", *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`;
        `token_type_ids` are looked up among the word vectors."""
        return self.as_output(BaseModelOutputWithPastAndCrossAttentions, self.encode(**inputs), return_dict)


class GPT2Embeddings(Embeddings):
    """Word and position vectors, added."""

    def __init__(self, config: GPT2Config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.dropout = Dropout(config.embedding_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        words = self.word_embeddings
        x = (words(input_ids) if inputs_embeds is None else inputs_embeds) + self.position_embeddings(position_ids)
        return self.dropout(x if token_type_ids is None else x + words(token_type_ids))

    @property
    def type_count(self) -> int:
        return self.word_embeddings.num_embeddings


class GPT2Encoder(LayerStack):
    """The stack of layers, and the normalisation after the last one."""

    def __init__(self, config: GPT2Config):
        super().__init__([GPT2Layer(config, i) for i in range(config.num_hidden_layers)])
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.feature_redraw = make_feature_redraw(config)

    def finish(self, hidden_states: Tensor) -> Tensor:
        return self.LayerNorm(hidden_states)


class GPT2Layer(ContextModule):
    """Attention, then feed-forward; each normalises its input and adds to the residual ("pre-norm")."""

    def __init__(self, config: GPT2Config, index: int):
        super().__init__()
        self.chunk_size_feed_forward = config.chunk_size_feed_forward
        size = head_size(config.hidden_size, config.num_attention_heads)
        self.attention = GPT2Attention(config, index, make_features(config, size, config.attention_scale(index)))
        if config.add_cross_attention:
            self.crossattention = GPT2Attention(config, index)
        self.intermediate = GPT2Intermediate(config)
        self.output = Project(intermediate_size(config), config.hidden_size, config.hidden_dropout_prob)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = x + self.attention(x, context)
        if context.cross is not None:
            x = x + self.crossattention(x, context.cross)
        if self.chunk_size_feed_forward:
            return in_chunks(self.feed_forward_chunk, self.chunk_size_feed_forward, x, context.layout.batch)
        return x + self.output(self.intermediate(x))

    def feed_forward_chunk(self, hidden_states: Tensor) -> Tensor:
        return hidden_states + self.output(self.intermediate(hidden_states))


class GPT2Attention(ContextModule):
    """Normalise, attend, project; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: GPT2Config, index: int, features: RandomFeatures | None = None):
        super().__init__()
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.self = SelfAttention(
            config.hidden_size,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            scale=config.attention_scale(index),
            features=features,
        )
        self.output = Project(config.hidden_size, config.hidden_size, config.hidden_dropout_prob)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(self.LayerNorm(x), context))


class GPT2Intermediate(Intermediate):
    """Normalise, widen and activate."""

    def __init__(self, config: GPT2Config):
        super().__init__(config.hidden_size, intermediate_size(config), config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return super().forward(self.LayerNorm(hidden_states))


def intermediate_size(config: GPT2Config) -> int:
    return config.intermediate_size or 4 * config.hidden_size
