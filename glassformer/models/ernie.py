"""ERNIE (Sun et al. 2019, 2020): BERT that was trained to fill in entities and phrases, and is told its task.

With `use_task_id`, versions 2.0 and 3.0 add a vector of the task to every token. All else is BERT's.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config_fields import boolean, integer
from ..errors import InputError
from ..nn.layout import Layout
from ..nn.tensor_inputs import check_ids
from .base.body import pack_ids
from .base.outputs import BaseModelOutputWithPoolingAndCrossAttentions, ModelOutput
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert import WEIGHTS as BERT_WEIGHTS
from .bert import BertConfig, BertEmbeddings, BertModel, BertPreTrainedModel

WEIGHTS = replace(BERT_WEIGHTS, prefix="ernie.")


@dataclass(repr=False, eq=False)
class ErnieConfig(BertConfig):
    """The shape of an ERNIE."""

    model_type = "ernie"

    _: KW_ONLY
    task_type_vocab_size: int = integer(3)
    use_task_id: bool = boolean(False)


class ErniePreTrainedModel(BertPreTrainedModel):
    """What every ERNIE has: its configuration and its table of weights."""

    config_class = ErnieConfig
    base_model_prefix = "ernie"
    keymap = WEIGHTS


class ErnieModel(ErniePreTrainedModel, BertModel):
    """Tokens in, contextual vectors out.

    >>> import torch
    >>> shape = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50}
    >>> model = ErnieModel(ErnieConfig(**shape, use_task_id=True))
    >>> model(torch.tensor([[1, 7, 2]]), task_type_ids=torch.tensor([[1, 1, 1]])).pooler_output.shape
    torch.Size([1, 24])
    """

    extra_inputs = ("task_type_ids",)

    def make_embeddings(self) -> BertEmbeddings:
        return ErnieEmbeddings(self.config)

    def pack_extras(self, extras: dict[str, Any], layout: Layout) -> Tensor | None:
        """The task of every token, N; None is the first of all tasks."""
        tasks = pack_ids(extras.get("task_type_ids"), layout, "task_type_ids")
        if tasks is not None and not self.config.use_task_id:
            raise InputError("task_type_ids are for an ERNIE with use_task_id=True: leave them out")
        check_ids(tasks, self.config.task_type_vocab_size, "task_type_ids: task", layout)
        return tasks

    def embed(
        self, ids: Tensor | None, types: Tensor | None, positions: Tensor, vectors: Tensor | None, extras: Any
    ) -> Tensor:
        return self.embeddings(ids, types, positions, vectors, task_type_ids=extras)

    @takes(*TEXT[:3], "task_type_ids", *TEXT[3:], *SOURCE, *CACHE, *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Run the model on a padded batch B T. Arguments as in `BertModel`; `task_type_ids` name a task per token."""
        return self.as_output(BaseModelOutputWithPoolingAndCrossAttentions, self.encode(**inputs), return_dict)


class ErnieEmbeddings(BertEmbeddings):
    """BERT's embeddings, and the vector of the task."""

    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.task_type_embeddings = None
        if config.use_task_id:
            self.task_type_embeddings = nn.Embedding(config.task_type_vocab_size, config.hidden_size)

    def forward(
        self,
        input_ids: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        task_type_ids: Tensor | None = None,
    ) -> Tensor:
        """B T -> B T C, or N -> N C with the `position_ids` of every row."""
        x = self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds
        if self.task_type_embeddings is not None:
            tasks = self.task_type_embeddings
            x = x + (tasks.weight[0] if task_type_ids is None else tasks(task_type_ids))
        return super().forward(None, token_type_ids, position_ids, x)
