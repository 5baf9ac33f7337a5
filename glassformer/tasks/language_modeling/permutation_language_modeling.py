"""permutation-language-modeling: XLNet's training on plain text, words predicted in a random order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...data.document_corpus import Corpus
from ...errors import InputError
from ...models.base.pretrained_model import PreTrainedModel
from ...models.xlnet_heads import XLNetLMHeadModel
from ...nn.loss import IGNORED
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example
from .masked_language_modeling import MaskedLanguageModeling


class PermutationLanguageModeling(MaskedLanguageModeling):
    """Train an XLNet on plain text; it answers like fill-mask.

    A part of the tokens, `mask_fraction`, is predicted one after the other in a random order. A prediction sees where
    its token is, all tokens that are not predicted, and those predicted before it. No token is replaced by the mask.

    >>> task = PermutationLanguageModeling(XLNetLMHeadModel(XLNetConfig()), tokenizer)              # doctest: +SKIP
    >>> Trainer(task, read_rows("text.txt"), None, TrainSettings(output_dir="run")).train()         # doctest: +SKIP
    """

    name = "permutation-language-modeling"
    head = "pre-training"
    masked_share, random_share = 0.0, 0.0

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if not isinstance(model, XLNetLMHeadModel):
            raise InputError(f"{self.name} takes an XLNetLMHeadModel, not a {type(model).__name__}")
        super().__init__(model, tokenizer, **options)

    def mask(
        self, corpus: Corpus, texts: Sequence[np.ndarray], generator: np.random.Generator, labels: Mapping[str, Any]
    ) -> Example:
        example = super().mask(corpus, texts, generator, labels)
        targets = np.flatnonzero(np.array(example.labels["labels"]) != IGNORED)
        order = np.zeros(len(example), dtype=np.int64)
        order[targets] = 1 + generator.permutation(len(targets))
        example.labels["order"] = order.tolist()
        return example

    def masked_logits(self, model: nn.Module, batch: Batch, selected: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the second stream where `selected` (B T) is true, M V, and the indices of these rows in B T.

        Without an order none of the selected tokens is seen.
        """
        order = batch.labels.get("order", selected.long()) * selected  # B T, from 1 where a token is predicted
        hidden = selected[:, None, :] & (order[:, :, None] <= order[:, None, :])  # B T T
        sequences, places = selected.nonzero(as_tuple=True)
        slots = (selected.cumsum(1) - 1)[sequences, places]  # M: which prediction of its sequence each is
        count = max(1, int(selected.sum(1).max()))
        targets = hidden.new_zeros(len(selected), count, selected.shape[1])
        targets[sequences, slots, places] = True
        body = model.base_model.encode(**batch.inputs, perm_mask=hidden, target_mapping=targets, use_mems=False)
        rows = body.rows.unflatten(0, (-1, count))[sequences, slots]
        return model.word_logits(rows), torch.arange(selected.numel(), device=rows.device)[selected.flatten()]
