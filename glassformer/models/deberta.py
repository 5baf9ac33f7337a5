"""DeBERTa (He et al. 2020): BERT whose scores tell what a token is from where it stands ("disentangled attention").

Content attends to the vectors of distances, and these to content; the layers share a table of distances. Positions need
not be added to the input. Its layers are in `deberta_layers.py`, its heads in `deberta_heads.py`; DeBERTa v2 and v3 are
in `deberta_v2.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, checked, choice, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, shown
from ..nn.activation import ACTIVATIONS
from ..nn.attention import head_size
from ..nn.dropout import Dropout
from ..nn.layout import Layout
from .base.body import Body
from .base.embeddings import Embeddings, padding_index
from .base.outputs import BaseModelOutput, ModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.signature import OUTPUTS, TEXT, takes
from .deberta_layers import DebertaEncoder

LAYER = "encoder.layer.{i}."
WEIGHTS = KeyMap(
    prefix="deberta.",
    body=("embeddings", "encoder"),
    rows=(
        Row(
            LAYER + "attention.self.in_proj.weight",
            tuple(LAYER + f"attention.self.{part}.weight" for part in ("query", "key", "value")),
            interleaved=True,
            heads="num_attention_heads",
        ),
        Row(LAYER + "attention.self.q_bias", LAYER + "attention.self.query.bias"),
        Row(LAYER + "attention.self.v_bias", LAYER + "attention.self.value.bias"),
        Row(LAYER + "attention.self.pos_proj.*", LAYER + "attention.self.position_key.*"),
        Row(LAYER + "attention.self.pos_q_proj.*", LAYER + "attention.self.position_query.*"),
    ),
    optional=("pooler",),
    old_names=((".gamma", ".weight"), (".beta", ".bias")),
    leftovers=(r"embeddings\.position_ids",),
    overruled=("cls.predictions.bias",),
)


KINDS = ("c2p", "p2c", "none", "")


def check_attention_kinds(name: str, value: Any) -> list[str] | None:
    """Content to position, position to content: a list, or a string as in the first files, "c2p|p2c"."""
    kinds = [kind.strip() for kind in value.lower().split("|")] if isinstance(value, str) else value
    if kinds is not None and not (isinstance(kinds, list) and all(kind in KINDS for kind in kinds)):
        raise ConfigError(f"{name} takes 'c2p' (content to position) and 'p2c', got {shown(value)}")
    return kinds


@dataclass(repr=False, eq=False)
class DebertaConfig(PretrainedConfig):
    """The shape of a DeBERTa; the defaults are those of transformers, without relative positions."""

    model_type = "deberta"
    has_key_bias = False
    share_att_key = False
    DERIVED = ("embedding_size", "pooler_hidden_size", "cls_dropout")  # not written where they are None

    vocab_size: int = integer(50265)
    hidden_size: int = integer(768)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(12)
    intermediate_size: int = integer(3072)
    hidden_act: str | Callable = activation("gelu")
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(512)
    type_vocab_size: int = integer(0, low=0)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-7, 0, 1)
    relative_attention: bool = boolean(False)
    max_relative_positions: int = integer(-1, low=-1)  # -1, 0: max_position_embeddings
    pad_token_id: int | None = integer(0, low=0, optional=True)
    position_biased_input: bool = boolean(True)
    pos_att_type: list[str] | None = checked(None, check_attention_kinds)
    pooler_dropout: float = number(0, 0, 1)
    pooler_hidden_act: str = choice("gelu", ACTIVATIONS)
    _: KW_ONLY
    legacy: bool = boolean(True)  # the head of masked words: as in BERT, or the one that DeBERTa was trained with
    embedding_size: int | None = integer(None, optional=True)  # None: hidden_size
    pooler_hidden_size: int | None = integer(None, optional=True)
    cls_dropout: float | None = number(None, 0, 1, optional=True)  # None: hidden_dropout_prob

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        for name in ("is_decoder", "add_cross_attention"):
            if getattr(self, name):
                raise ConfigError(f"{name}=True: a DeBERTa only encodes, BertConfig has decoders")
        size = self.hidden_size
        if self.pooler_hidden_size not in (None, size):
            raise ConfigError(f"pooler_hidden_size must be hidden_size {size}, not {self.pooler_hidden_size}")
        if not self.legacy and self.word_size != size:
            raise ConfigError(f"legacy=False needs embedding_size {size} (hidden_size), not {self.word_size}")

    @property
    def word_size(self) -> int:
        """The width of the embeddings."""
        return self.embedding_size or self.hidden_size

    @property
    def farthest(self) -> int:
        """The distance from which on none are told apart."""
        return self.max_relative_positions if self.max_relative_positions > 0 else self.max_position_embeddings

    @property
    def span(self) -> int:
        """How many vectors the table of distances has for either direction."""
        return self.farthest

    @property
    def score_terms(self) -> int:
        """How many terms the scale of scores counts: every word of `pos_att_type`, also "none"."""
        return 1 + len(self.pos_att_type or ())

    def to_dict(self) -> dict[str, Any]:
        values = super().to_dict()
        return {name: value for name, value in values.items() if value is not None or name not in self.DERIVED}


class DebertaPreTrainedModel(PreTrainedModel):
    """What every DeBERTa has: its configuration and its table of weights."""

    config_class = DebertaConfig
    base_model_prefix = "deberta"
    keymap = WEIGHTS


class DebertaModel(DebertaPreTrainedModel, Body):
    """Tokens in, contextual vectors out.

    >>> import torch
    >>> shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
    >>> model = DebertaModel(DebertaConfig(**shape, relative_attention=True, pos_att_type="c2p|p2c"))
    >>> model(torch.tensor([[1, 7, 2]])).last_hidden_state.shape
    torch.Size([1, 3, 24])
    """

    is_decoder = False

    def __init__(self, config: DebertaConfig):
        super().__init__(config)
        self.embeddings = DebertaEmbeddings(self.config)
        self.encoder = self.make_encoder()
        self.post_init()

    def make_encoder(self) -> DebertaEncoder:
        return DebertaEncoder(self.config)

    @property
    def max_length(self) -> int | None:
        """Without a table of positions nothing limits a text: far distances share a vector."""
        return self.config.max_position_embeddings if self.config.position_biased_input else None

    @takes(*TEXT, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`."""
        return self.as_output(BaseModelOutput, self.encode(**inputs), return_dict)


class DebertaEmbeddings(Embeddings):
    """Word vectors, with those of positions and token types where there are such tables; projected and normalised."""

    def __init__(self, config: DebertaConfig):
        super().__init__()
        size, padding = config.word_size, padding_index(config.pad_token_id, config.vocab_size)
        self.word_embeddings = nn.Embedding(config.vocab_size, size, padding_idx=padding)
        self.position_embeddings = self.token_type_embeddings = self.embed_proj = None
        if config.position_biased_input:
            self.position_embeddings = nn.Embedding(config.max_position_embeddings, size)
        if config.type_vocab_size:
            self.token_type_embeddings = nn.Embedding(config.type_vocab_size, size)
        if size != config.hidden_size:
            self.embed_proj = nn.Linear(size, config.hidden_size, bias=False)
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
        if self.position_embeddings is not None:
            x = x + self.position_embeddings(position_ids)
        if self.token_type_embeddings is not None:
            types = self.token_type_embeddings
            x = x + (types.weight[0] if token_type_ids is None else types(token_type_ids))
        if self.embed_proj is not None:
            x = self.embed_proj(x)
        return self.dropout(self.LayerNorm(x))

    @property
    def type_count(self) -> int:
        return 0 if self.token_type_embeddings is None else self.token_type_embeddings.num_embeddings

    def check(
        self,
        ids: Tensor | None,
        types: Tensor | None,
        positions: Tensor,
        layout: Layout | None = None,
        name: str = "input_ids",
    ) -> None:
        """Token types of a model without a table of them are not read: its tokenizer gives them all the same."""
        super().check(ids, types if self.type_count else None, positions, layout, name)
