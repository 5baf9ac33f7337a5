"""DistilBERT (Sanh et al. 2019): BERT with half the layers, no segments and no pooler, distilled from a BERT.

What it shares with BERT it imports; its files use other names, as the two tables say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError
from ..nn.attention import head_size
from ..nn.dropout import Dropout
from .base.body import Body
from .base.embeddings import Embeddings, padding_index
from .base.outputs import BaseModelOutput, ModelOutput
from .base.signature import OUTPUTS, takes
from .bert import BertPreTrainedModel
from .bert_layers import BertEncoder

CONFIG = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "seq_classif_dropout": "classifier_dropout",
}

THEIRS, OURS = "transformer.layer.{i}.", "encoder.layer.{i}."
WEIGHTS = KeyMap(
    prefix="distilbert.",
    body=("embeddings", "transformer"),
    rows=(
        Row(THEIRS + "attention.q_lin.*", OURS + "attention.self.query.*"),
        Row(THEIRS + "attention.k_lin.*", OURS + "attention.self.key.*"),
        Row(THEIRS + "attention.v_lin.*", OURS + "attention.self.value.*"),
        Row(THEIRS + "attention.out_lin.*", OURS + "attention.output.dense.*"),
        Row(THEIRS + "sa_layer_norm.*", OURS + "attention.output.LayerNorm.*"),
        Row(THEIRS + "ffn.lin1.*", OURS + "intermediate.dense.*"),
        Row(THEIRS + "ffn.lin2.*", OURS + "output.dense.*"),
        Row(THEIRS + "output_layer_norm.*", OURS + "output.LayerNorm.*"),
    ),
    leftovers=(r"embeddings\.position_ids",),
)


@dataclass(repr=False, eq=False)
class DistilBertConfig(PretrainedConfig):
    """The shape of a DistilBERT; the defaults are distilbert-base-uncased. Names of files such as `dim` work too."""

    model_type = "distilbert"
    FILE_NAMES = CONFIG
    position_embedding_type = "absolute"
    layer_norm_eps = 1e-12

    vocab_size: int = integer(30522)
    max_position_embeddings: int = integer(512)
    sinusoidal_pos_embds: bool = boolean(False)
    num_hidden_layers: int = integer(6, high=10_000)
    num_attention_heads: int = integer(12)
    hidden_size: int = integer(768)
    intermediate_size: int = integer(3072)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    hidden_act: str | Callable = activation("gelu")
    initializer_range: float = number(0.02, 0, 1e6)
    qa_dropout: float = number(0.1, 0, 1)
    classifier_dropout: float = number(0.2, 0, 1)
    _: KW_ONLY
    pad_token_id: int | None = integer(0, low=0, optional=True)

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: a DistilBERT only encodes, BertConfig has decoders")


class DistilBertPreTrainedModel(BertPreTrainedModel):
    """What every DistilBERT has: its configuration, its table of weights and how weights are initialised."""

    config_class = DistilBertConfig
    base_model_prefix = "distilbert"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, SinePositions):
            module.fill()
        else:
            super()._init_weights(module)


class DistilBertModel(DistilBertPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> model = DistilBertModel(DistilBertConfig(dim=24, n_layers=2, n_heads=2, vocab_size=50))
    >>> model(torch.tensor([[2, 7, 3]])).last_hidden_state.shape
    torch.Size([1, 3, 24])
    """

    def __init__(self, config: DistilBertConfig):
        super().__init__(config)
        self.is_decoder = False
        self.embeddings = DistilBertEmbeddings(self.config)
        self.encoder = BertEncoder(self.config)
        self.post_init()

    @takes("input_ids", "attention_mask", "head_mask", "inputs_embeds", *OUTPUTS, "position_ids")
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`."""
        return self.as_output(BaseModelOutput, self.encode(**inputs), return_dict)


class DistilBertEmbeddings(Embeddings):
    """Word and position vectors, added and normalised."""

    without_types = "a DistilBERT has no token types: leave token_type_ids out, as DistilBertTokenizer does"

    def __init__(self, config: DistilBertConfig):
        super().__init__()
        padding = padding_index(config.pad_token_id, config.vocab_size)
        positions = SinePositions if config.sinusoidal_pos_embds else nn.Embedding
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=padding)
        self.position_embeddings = positions(config.max_position_embeddings, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """B T -> B T C, or N -> N C with the `position_ids` of every row."""
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        return self.dropout(self.LayerNorm(x + self.position_embeddings(position_ids)))


class SinePositions(nn.Embedding):
    """Positions as sines and cosines of falling frequency (Vaswani et al. 2017); they are not trained."""

    def __init__(self, num_embeddings: int, embedding_dim: int):
        super().__init__(num_embeddings, embedding_dim)
        self.weight.requires_grad_(False)

    def fill(self) -> None:
        places = torch.arange(self.num_embeddings, dtype=torch.float64)[:, None]
        column = torch.arange(self.embedding_dim)
        angle = places / 10000 ** (column // 2 * 2 / self.embedding_dim).double()  # T C
        self.weight.data.copy_(torch.where(column % 2 == 0, angle.sin(), angle.cos()))
