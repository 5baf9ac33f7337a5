"""RoBERTa (Liu et al. 2019): BERT without next sentences, whose positions begin behind the padding index.

A token has the number of tokens before it as its position, plus `pad_token_id + 1`; padding has `pad_token_id`. All
else is BERT's. XLM-RoBERTa and CamemBERT are RoBERTa with other vocabularies.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from torch import Tensor, nn

from ..checkpoints.config_fields import integer, typed
from ..checkpoints.keymap import KeyMap
from ..nn.layout import Layout
from .base.linear_attention import RANDOM_FEATURES
from .bert import BertConfig, BertEmbeddings, BertModel, BertPreTrainedModel


@dataclass(repr=False, eq=False)
class RobertaConfig(BertConfig):
    """The shape of a RoBERTa. The files of roberta-base have 514 positions, for 512 tokens, and one token type."""

    model_type = "roberta"

    vocab_size: int = integer(50265)
    _: KW_ONLY
    SHAPING = ("pad_token_id",)
    pad_token_id: int = integer(1, low=0)  # positions begin behind it
    bos_token_id: int | None = integer(0, low=0, optional=True)
    eos_token_id: int | list[int] | None = typed(2, (int, list))


WEIGHTS = KeyMap(
    prefix="roberta.",
    body=("embeddings", "encoder", "pooler"),
    optional=("pooler", r"encoder\.layer\.\d+\.crossattention", *RANDOM_FEATURES),
    old_names=((".gamma", ".weight"), (".beta", ".bias")),
    leftovers=(r"embeddings\.position_ids", r"embeddings\.token_type_ids"),
    overruled=("lm_head.bias",),
)


class RobertaPreTrainedModel(BertPreTrainedModel):
    """What every RoBERTa has: its configuration and its table of weights."""

    config_class = RobertaConfig
    base_model_prefix = "roberta"
    keymap = WEIGHTS


class RobertaModel(RobertaPreTrainedModel, BertModel):
    """Tokens in, contextual vectors out.

    >>> import torch
    >>> model = RobertaModel(RobertaConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2, vocab_size=50))
    >>> model(torch.tensor([[0, 7, 2]])).last_hidden_state.shape, model.max_length
    (torch.Size([1, 3, 24]), 510)
    """

    def make_embeddings(self) -> BertEmbeddings:
        return RobertaEmbeddings(self.config)

    @property
    def max_length(self) -> int:
        is_absolute = self.config.position_embedding_type == "absolute"
        return self.config.max_position_embeddings - (self.embeddings.first_position if is_absolute else 0)

    def positions(self, places: Tensor, layout: Layout, input_ids: Tensor | None = None, past: int = 0) -> Tensor:
        if input_ids is None:
            return places + self.embeddings.first_position
        return layout.pack(self.embeddings.positions_of(input_ids, past))


class RobertaEmbeddings(BertEmbeddings):
    """BERT's embeddings with other positions."""

    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        count, padding = config.max_position_embeddings, config.pad_token_id
        vector_of_padding = padding if padding < count else None
        self.position_embeddings = nn.Embedding(count, config.hidden_size, padding_idx=vector_of_padding)
        self.first_position = padding + 1

    def positions_of(self, input_ids: Tensor, past: int = 0) -> Tensor:
        """The positions of all tokens of a batch, B T: padding counts for nothing, wherever it is."""
        padding = self.first_position - 1
        real = input_ids != padding
        return (real.cumsum(-1) + past) * real + padding

    def default_positions(self, input_ids: Tensor | None, inputs: Tensor, past: int = 0) -> Tensor:
        columns = super().default_positions(input_ids, inputs, past)
        return columns + self.first_position if input_ids is None else self.positions_of(input_ids, past)
