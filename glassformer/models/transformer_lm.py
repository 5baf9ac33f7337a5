"""The language model of the Transformer's encoder: word vectors, sinusoidal positions, layers with a causal mask.

It is the encoder of the 2017 Transformer that reads from left to right, with a linear layer over the vocabulary. Its
files have the names of `torch.nn.TransformerEncoder`, so weights that were trained with that module can be read.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config_fields import boolean, choice, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError
from ..nn.activation import ACTIVATIONS
from ..nn.attention import head_size
from ..nn.linear import Linear
from .base.body import Body
from .base.generation_mixin import GenerationMixin
from .base.heads import CausalLMHeadModel
from .base.outputs import BaseModelOutputWithPastAndCrossAttentions, CausalLMOutputWithCrossAttentions, ModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.signature import CACHE, OUTPUTS, takes
from .transformer import POSITIONS, initialise_weights
from .transformer_stacks import EncoderLayers, TransformerEmbeddings

INPUTS = ("input_ids", "attention_mask", "position_ids", "head_mask", "inputs_embeds")

THEIRS, OURS = "encoder.layers.{i}.", "encoder.layer.{i}."
QUERY_KEY_VALUE = tuple(OURS + f"attention.self.{part}." for part in ("query", "key", "value"))
WEIGHTS = KeyMap(
    prefix="transformer.",
    body=("embedding", "position_embedding", "encoder"),
    rows=(
        Row("embedding.*", "embeddings.word_embeddings.*"),
        Row("position_embedding.*", "embeddings.position_embeddings.*"),
        Row(THEIRS + "self_attn.in_proj_weight", tuple(name + "weight" for name in QUERY_KEY_VALUE)),
        Row(THEIRS + "self_attn.in_proj_bias", tuple(name + "bias" for name in QUERY_KEY_VALUE)),
        Row(THEIRS + "self_attn.out_proj.*", OURS + "attention.output.dense.*"),
        Row(THEIRS + "norm1.*", OURS + "attention.LayerNorm.*"),
        Row(THEIRS + "linear1.*", OURS + "intermediate.dense.*"),
        Row(THEIRS + "linear2.*", OURS + "output.dense.*"),
        Row(THEIRS + "norm2.*", OURS + "LayerNorm.*"),
        Row("encoder.norm.*", "encoder.LayerNorm.*"),
    ),
)


@dataclass(repr=False, eq=False)
class TransformerLMConfig(PretrainedConfig):
    """The shape of a language model of Transformer encoder layers; the defaults are those of the tutorial."""

    model_type = "transformer-lm"

    vocab_size: int = integer(33278)  # the words of WikiText-2
    hidden_size: int = integer(256)
    num_hidden_layers: int = integer(4, high=10_000)
    num_attention_heads: int = integer(8)
    intermediate_size: int = integer(512)
    hidden_act: str = choice("relu", ACTIVATIONS)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(5000)
    layer_norm_eps: float = number(1e-5, 0, 1)
    _: KW_ONLY
    position_embedding_type: str = choice("sinusoidal", POSITIONS)
    norm_first: bool = boolean(False)
    output_bias: bool = boolean(False)
    use_cache: bool = boolean(True)
    is_decoder: bool = boolean(True)

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        for name, expected in (("is_decoder", True), ("add_cross_attention", False), ("chunk_size_feed_forward", 0)):
            if getattr(self, name) != expected:
                raise ConfigError(f"{name} must be {expected} in a language model of the type {self.model_type}")


class TransformerLMPreTrainedModel(PreTrainedModel):
    """What both classes have: the configuration, the table of weights and how weights are initialised."""

    config_class = TransformerLMConfig
    base_model_prefix = "transformer"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        initialise_weights(module, self.config)


class TransformerLMModel(TransformerLMPreTrainedModel, Body):
    """Tokens in, causal contextual vectors out.

    >>> import torch
    >>> config = TransformerLMConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=2)
    >>> TransformerLMModel(config)(torch.tensor([[5, 6, 7]])).last_hidden_state.shape
    torch.Size([1, 3, 16])
    """

    def __init__(self, config: TransformerLMConfig):
        super().__init__(config)
        self.is_decoder = True
        self.embeddings = TransformerEmbeddings(self.config, self.config.vocab_size)
        self.encoder = EncoderLayers(self.config)
        self.post_init()

    @takes(*INPUTS, *CACHE, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `GPT2Model`."""
        return self.as_output(BaseModelOutputWithPastAndCrossAttentions, self.encode(**inputs), return_dict)


class TransformerLMHeadModel(GenerationMixin, TransformerLMPreTrainedModel, CausalLMHeadModel):
    """Which word comes next? The weights that score words are those of the word embeddings, unless
    `tie_word_embeddings=False`."""

    scorer = "fc_out"

    def __init__(self, config: TransformerLMConfig):
        super().__init__(config)
        self.transformer = TransformerLMModel(self.config)
        self.fc_out = Linear(self.config.hidden_size, self.config.vocab_size, bias=self.config.output_bias)
        self.post_init()

    @takes(*INPUTS, "labels", *CACHE, *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word."""
        return self.predict(self.transformer.encode(**inputs), labels, return_dict)
