"""ELECTRA (Clark et al. 2020): BERT trained to tell which tokens of a text a small generator has replaced.

Generator and discriminator are both this model. Word vectors may be narrower than the model (`embedding_size`), and are
projected then. There is no pooler; all else is BERT's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from ..checkpoints.config_fields import activation, boolean, choice, integer, number
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..nn.activation import ACTIVATIONS
from ..nn.attention import head_size
from .base.outputs import BaseModelOutputWithPastAndCrossAttentions, ModelOutput
from .base.sequence_summary import SUMMARY_TYPES
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert import POSITIONS, BertEmbeddings, BertModel, BertPreTrainedModel, ProjectedEmbeddings


@dataclass(repr=False, eq=False)
class ElectraConfig(PretrainedConfig):
    """The shape of an ELECTRA; the defaults are the discriminator of electra-small."""

    model_type = "electra"

    vocab_size: int = integer(30522)
    embedding_size: int = integer(128)
    hidden_size: int = integer(256)
    num_hidden_layers: int = integer(12, high=10_000)
    num_attention_heads: int = integer(4)
    intermediate_size: int = integer(1024)
    hidden_act: str | Callable = activation("gelu")
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(512)
    type_vocab_size: int = integer(2)
    initializer_range: float = number(0.02, 0, 1e6)
    layer_norm_eps: float = number(1e-12, 0, 1)
    summary_type: str = choice("first", SUMMARY_TYPES)
    summary_use_proj: bool = boolean(True)
    summary_activation: str | None = choice("gelu", (None, *ACTIVATIONS))
    summary_last_dropout: float = number(0.1, 0, 1)
    _: KW_ONLY
    pad_token_id: int | None = integer(0, low=0, optional=True)
    position_embedding_type: str = choice("absolute", POSITIONS)
    use_cache: bool = boolean(True)
    classifier_dropout: float | None = number(None, 0, 1, optional=True)
    summary_proj_to_labels: bool = boolean(False)
    summary_first_dropout: float = number(0.0, 0, 1)

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)


WEIGHTS = KeyMap(
    prefix="electra.",
    body=("embeddings", "embeddings_project", "encoder"),
    rows=(Row("embeddings_project.*", "embeddings.projection.*"),),
    optional=(r"encoder\.layer\.\d+\.crossattention",),
    old_names=((".gamma", ".weight"), (".beta", ".bias")),
    leftovers=(r"embeddings\.position_ids", r"embeddings\.token_type_ids"),
)


class ElectraPreTrainedModel(BertPreTrainedModel):
    """What every ELECTRA has: its configuration and its table of weights."""

    config_class = ElectraConfig
    base_model_prefix = "electra"
    keymap = WEIGHTS


class ElectraModel(ElectraPreTrainedModel, BertModel):
    """Tokens in, contextual vectors out.

    >>> import torch
    >>> shape = {"embedding_size": 8, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    >>> model = ElectraModel(ElectraConfig(vocab_size=50, **shape))
    >>> model(torch.tensor([[2, 7, 3]])).last_hidden_state.shape
    torch.Size([1, 3, 24])
    """

    def __init__(self, config: ElectraConfig):
        super().__init__(config, add_pooling_layer=False)

    def make_embeddings(self) -> BertEmbeddings:
        is_projected = self.config.embedding_size != self.config.hidden_size
        return ProjectedEmbeddings(self.config) if is_projected else BertEmbeddings(self.config)

    @takes(*TEXT, *SOURCE, *CACHE, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T; padded positions come back as zeros. Arguments as in `BertModel`."""
        return self.as_output(BaseModelOutputWithPastAndCrossAttentions, self.encode(**inputs), return_dict)
