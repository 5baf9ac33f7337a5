"""GPT (Radford et al. 2018): a stack of causal layers that normalise after each residual sum, and nothing after them.

Its layer is the one that BERT adopted; only the causal mask makes it a decoder.
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
from .base.body import Body, LayerStack
from .base.double_heads import DoubleHeadsModel
from .base.generation_mixin import GenerationMixin
from .base.heads import CausalLMHeadModel, LastTokenClassifier
from .base.outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    CausalLMOutputWithCrossAttentions,
    DoubleHeadsModelOutput,
    ModelOutput,
    SequenceClassifierOutputWithPast,
)
from .base.pretrained_model import PreTrainedModel
from .base.sequence_summary import SUMMARY_TYPES, SequenceSummary
from .base.signature import OUTPUTS, TEXT, takes
from .bert_layers import BertLayer
from .gpt2 import GPT2Embeddings

CONFIG = {
    "n_positions": "max_position_embeddings",
    "n_embd": "hidden_size",
    "n_layer": "num_hidden_layers",
    "n_head": "num_attention_heads",
    "afn": "hidden_act",
    "resid_pdrop": "hidden_dropout_prob",
    "embd_pdrop": "embedding_dropout_prob",
    "attn_pdrop": "attention_probs_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}
FILE_ACTIVATIONS = {"gelu": "gelu_new", "relu": "relu", "silu": "silu", "swish": "silu"}  # names in files -> ours

LAYER = "encoder.layer.{i}."
WEIGHTS = KeyMap(
    prefix="transformer.",
    body=("tokens_embed", "positions_embed", "h"),
    rows=(
        Row("tokens_embed.*", "embeddings.word_embeddings.*"),
        Row("positions_embed.*", "embeddings.position_embeddings.*"),
        Row(
            "h.{i}.attn.c_attn.*",
            tuple(LAYER + f"attention.self.{part}.*" for part in ("query", "key", "value")),
            transpose=True,
        ),
        Row("h.{i}.attn.c_proj.*", LAYER + "attention.output.dense.*", transpose=True),
        Row("h.{i}.ln_1.*", LAYER + "attention.output.LayerNorm.*"),
        Row("h.{i}.mlp.c_fc.*", LAYER + "intermediate.dense.*", transpose=True),
        Row("h.{i}.mlp.c_proj.*", LAYER + "output.dense.*", transpose=True),
        Row("h.{i}.ln_2.*", LAYER + "output.LayerNorm.*"),
    ),
    leftovers=(r"h\.\d+\.attn\.bias", r"position_ids"),
)


@dataclass(repr=False, eq=False)
class OpenAIGPTConfig(PretrainedConfig):
    """The shape of a GPT; the defaults are the published one. Names of files such as `n_embd` work too.

    The "gelu" of its files is the tanh form, which other architectures call "gelu_new".
    """

    model_type = "openai-gpt"
    FILE_NAMES = CONFIG
    position_embedding_type = "absolute"

    vocab_size: int = integer(40478)
    max_position_embeddings: int = integer(512)
    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    hidden_act: str = choice("gelu", FILE_ACTIVATIONS)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    embedding_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    layer_norm_eps: float = number(1e-5, 0, 1)
    initializer_range: float = number(0.02, 0, 1e6)
    _: KW_ONLY
    summary_type: str = choice("cls_index", SUMMARY_TYPES)
    summary_use_proj: bool = boolean(True)
    summary_activation: str | None = choice(None, (None, *ACTIVATIONS))
    summary_proj_to_labels: bool = boolean(True)
    summary_first_dropout: float = number(0.1, 0, 1)
    summary_last_dropout: float = number(0.0, 0, 1)
    use_cache: bool = boolean(False)  # the original returns none; ask for it in a call
    is_decoder: bool = boolean(True)

    @property
    def intermediate_size(self) -> int:
        return 4 * self.hidden_size

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        if self.add_cross_attention:
            raise ConfigError("add_cross_attention=True: this architecture has no cross-attention, GPT2Config has")


class OpenAIGPTPreTrainedModel(PreTrainedModel):
    """What every GPT has: its configuration and its table of weights."""

    config_class = OpenAIGPTConfig
    base_model_prefix = "transformer"
    keymap = WEIGHTS


class OpenAIGPTModel(OpenAIGPTPreTrainedModel, Body):
    """Tokens in, causal contextual vectors out."""

    def __init__(self, config: OpenAIGPTConfig):
        super().__init__(config)
        self.is_decoder = True
        self.embeddings = GPT2Embeddings(self.config)
        self.encoder = OpenAIGPTEncoder(self.config)
        self.post_init()

    @takes(*TEXT, *OUTPUTS, "past_key_values", "use_cache")
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `GPT2Model`."""
        return self.as_output(BaseModelOutputWithPastAndCrossAttentions, self.encode(**inputs), return_dict)


class OpenAIGPTEncoder(LayerStack):
    """The stack of layers."""

    def __init__(self, config: OpenAIGPTConfig):
        super().__init__([OpenAIGPTLayer(config) for _ in range(config.num_hidden_layers)])


class OpenAIGPTLayer(BertLayer):
    """Attention, then feed-forward; each is added to what it read and normalised ("post-norm")."""

    def __init__(self, config: OpenAIGPTConfig):
        super().__init__(config)
        self.intermediate.intermediate_act_fn = ACTIVATIONS[FILE_ACTIVATIONS[config.hidden_act]]()


class OpenAIGPTLMHeadModel(GenerationMixin, OpenAIGPTPreTrainedModel, CausalLMHeadModel):
    """Which word comes next? The output layer is tied to the word embeddings."""

    def __init__(self, config: OpenAIGPTConfig):
        super().__init__(config)
        self.transformer = OpenAIGPTModel(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @takes(*TEXT, "labels", *OUTPUTS, "past_key_values", "use_cache")
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word."""
        return self.predict(self.transformer.encode(**inputs), labels, return_dict)


class OpenAIGPTDoubleHeadsModel(OpenAIGPTPreTrainedModel, DoubleHeadsModel):
    """Which word comes next, and which of several texts fits best?"""

    def __init__(self, config: OpenAIGPTConfig):
        super().__init__(config)
        self.config.num_labels = 1  # a score for each choice
        self.transformer = OpenAIGPTModel(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.multiple_choice_head = SequenceSummary(self.config)
        self.post_init()

    @takes(*TEXT, "mc_token_ids", "labels", "mc_labels", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        mc_token_ids: Tensor | None = None,
        labels: Tensor | None = None,
        mc_labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> DoubleHeadsModelOutput | tuple:
        """Arguments as in `GPT2DoubleHeadsModel`."""
        return self.score_choices(inputs, mc_token_ids, labels, mc_labels, return_dict)


class OpenAIGPTForSequenceClassification(OpenAIGPTPreTrainedModel, LastTokenClassifier):
    def __init__(self, config: OpenAIGPTConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = OpenAIGPTModel(self.config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    @takes(*TEXT, "labels", *OUTPUTS, "past_key_values", "use_cache")
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> SequenceClassifierOutputWithPast | tuple:
        return self.classify(self.transformer.encode(**inputs), inputs.get("input_ids"), labels, return_dict)
