"""BERT (Devlin et al. 2018): a stack of bidirectional layers that normalise after each residual sum.

All of it: encoder or decoder, with cross-attention, cache, relative positions, head masks and pruning.
Its layers are in `bert_layers.py`, its heads in `bert_heads.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, choice, integer, number
from ..checkpoints.keymap import KeyMap
from ..nn.attention import head_size
from ..nn.dropout import Dropout
from ..nn.layout import Layout
from ..nn.linear import Linear
from .base.body import Body
from .base.embeddings import Embeddings, padding_index
from .base.linear_attention import RANDOM_FEATURES, LinearAttentionConfig
from .base.outputs import BaseModelOutputWithPoolingAndCrossAttentions, ModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert_layers import BertEncoder

POSITIONS = ("absolute", "relative_key", "relative_key_query")


@dataclass(repr=False, eq=False)
class BertConfig(LinearAttentionConfig):
    """The shape of a BERT; the defaults are bert-base."""

    model_type = "bert"

    vocab_size: int = integer(30522)
    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    intermediate_size: int = integer(3072)
    hidden_act: str | Callable = activation("gelu")
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(512)
    type_vocab_size: int = integer(2)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    _: KW_ONLY
    pad_token_id: int | None = integer(0, low=0, optional=True)
    position_embedding_type: str = choice("absolute", POSITIONS)
    use_cache: bool = boolean(True)
    classifier_dropout: float | None = number(None, 0, 1, optional=True)

    def validate(self) -> None:
        super().validate()
        head_size(self.hidden_size, self.num_attention_heads)


WEIGHTS = KeyMap(
    prefix="bert.",
    body=("embeddings", "encoder", "pooler"),
    optional=(
        *("pooler", r"encoder\.layer\.\d+\.crossattention", r"cls\.predictions", r"cls\.seq_relationship"),
        *RANDOM_FEATURES,
    ),
    old_names=((".gamma", ".weight"), (".beta", ".bias")),
    leftovers=(r"embeddings\.position_ids", r"embeddings\.token_type_ids"),
    overruled=("cls.predictions.bias",),
)


class BertPreTrainedModel(PreTrainedModel):
    """What every BERT has: its configuration and its table of weights."""

    config_class = BertConfig
    base_model_prefix = "bert"
    keymap = WEIGHTS


class BertModel(BertPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> import torch
    >>> model = BertModel(BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, vocab_size=50))
    >>> out = model(torch.tensor([[2, 7, 3]]))
    >>> out.last_hidden_state.shape, out[1].shape
    (torch.Size([1, 3, 24]), torch.Size([1, 24]))
    """

    def __init__(self, config: BertConfig, add_pooling_layer: bool = True):
        super().__init__(config)
        self.embeddings = self.make_embeddings()
        self.encoder = BertEncoder(self.config)
        self.pooler = BertPooler(self.config) if add_pooling_layer else None
        self.is_decoder = self.config.is_decoder
        self.post_init()

    def make_embeddings(self) -> BertEmbeddings:
        return BertEmbeddings(self.config)

    def pool(self, rows: Tensor, layout: Layout) -> Tensor | None:
        return None if self.pooler is None else self.pooler(rows, layout)

    @takes(*TEXT, *SOURCE, *CACHE, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros.

        `attention_mask` is 1 where a token is real (B T, or B T S for a mask per query). `head_mask` (H, or layers H)
        multiplies the weights of heads. A decoder takes `encoder_hidden_states` (B S C) with their mask, and the
        `past_key_values` of an earlier call, whose tokens `attention_mask` then covers too.
        """
        return self.as_output(BaseModelOutputWithPoolingAndCrossAttentions, self.encode(**inputs), return_dict)


class BertEmbeddings(Embeddings):
    """Word, position and segment vectors, added and normalised."""

    position_ids: Tensor  # 1 T
    token_type_ids: Tensor

    def __init__(self, config: BertConfig, width: int | None = None):
        super().__init__()
        padding, width = padding_index(config.pad_token_id, config.vocab_size), width or config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=padding)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.position_embedding_type = config.position_embedding_type
        # For code that reads them; a forward counts positions itself. Files of some versions hold the first.
        shape = (1, config.max_position_embeddings)
        self.register_buffer("position_ids", torch.empty(shape, dtype=torch.long), persistent=False)
        self.register_buffer("token_type_ids", torch.empty(shape, dtype=torch.long), persistent=False)
        self.fill()

    def fill(self) -> None:
        """Compute the buffers, again for a module that was built on the meta device."""
        device, length = self.word_embeddings.weight.device, self.position_ids.shape[1]
        self.position_ids = torch.arange(length, device=device)[None]
        self.token_type_ids = torch.zeros(1, length, dtype=torch.long, device=device)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.pop(f"{prefix}position_ids", None)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """B T -> B T C, or N -> N C with the `position_ids` of every row."""
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        types = self.token_type_embeddings
        x = x + (types.weight[0] if token_type_ids is None else types(token_type_ids))
        if self.position_embedding_type == "absolute":
            x = x + self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(x))

    @property
    def type_count(self) -> int:
        return self.token_type_embeddings.num_embeddings

    @property
    def position_count(self) -> int | None:
        return super().position_count if self.position_embedding_type == "absolute" else None


class ProjectedEmbeddings(BertEmbeddings):
    """BERT's embeddings of another width (`embedding_size`), and the layer that brings them to that of the model."""

    def __init__(self, config: Any):
        super().__init__(config, config.embedding_size)
        self.projection = Linear(config.embedding_size, config.hidden_size)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.projection(super().forward(*args, **kwargs))


class BertPooler(nn.Module):
    """The vector of the first token, [CLS], through one more layer: the sentence vector of the pre-training."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, hidden_states: Tensor, layout: Layout | None = None) -> Tensor:
        first = hidden_states[:, 0] if layout is None else layout.first(hidden_states)  # B C
        return self.activation(self.dense(first))
