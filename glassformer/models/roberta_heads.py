"""RoBERTa's heads: those of BERT, with its own way to score words and to classify texts."""

from __future__ import annotations

import logging
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..nn.dropout import Dropout
from ..nn.linear import Linear
from .base.generation_mixin import GenerationMixin
from .base.heads import (
    CausalLMHeadModel,
    ForMaskedLM,
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    LayeredLMHeadModel,
)
from .base.outputs import BodyOutput, CausalLMOutputWithCrossAttentions
from .base.pretrained_io import is_rebuilding
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert_heads import classifier_dropout
from .roberta import RobertaConfig, RobertaModel, RobertaPreTrainedModel

log = logging.getLogger("glassformer")


class RobertaLMHead(nn.Module):
    """Logits over the vocabulary; the weights are those of the word embeddings."""

    def __init__(self, config: RobertaConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.decoder = Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder.bias = self.bias

    def forward(self, features: Tensor) -> Tensor:
        return self.decoder(self.layer_norm(F.gelu(self.dense(features))))


class RobertaClassificationHead(nn.Module):
    """A classifier of texts that reads the vector of the first token through one more layer."""

    def __init__(self, config: RobertaConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = classifier_dropout(config)
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, features: Tensor) -> Tensor:
        """B C of the first tokens, or B T C of all -> B L"""
        first = features[:, 0] if features.dim() == 3 else features
        return self.out_proj(self.dropout(self.activate(self.dense(self.dropout(first)))))

    def activate(self, x: Tensor) -> Tensor:
        return x.tanh()


class RobertaForMaskedLM(RobertaPreTrainedModel, LayeredLMHeadModel, ForMaskedLM):
    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        self.roberta = RobertaModel(self.config, add_pooling_layer=False)
        self.lm_head = RobertaLMHead(self.config)
        self.post_init()


class RobertaForCausalLM(GenerationMixin, RobertaPreTrainedModel, LayeredLMHeadModel, CausalLMHeadModel):
    """RoBERTa as a decoder: the next word, from left to right."""

    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        if not config.is_decoder and not is_rebuilding():
            log.warning("%s without is_decoder=True sees the words it should predict", type(self).__name__)
        self.roberta = RobertaModel(self.config, add_pooling_layer=False)
        self.lm_head = RobertaLMHead(self.config)
        self.post_init()

    @takes(*TEXT, *SOURCE, "labels", *CACHE, *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word, and no cache."""
        if labels is not None:
            inputs["use_cache"] = False
        return self.predict(self.roberta.encode(**inputs), labels, return_dict)


class RobertaForSequenceClassification(RobertaPreTrainedModel, ForSequenceClassification):
    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.roberta = RobertaModel(self.config, add_pooling_layer=False)
        self.classifier = RobertaClassificationHead(self.config)
        self.post_init()

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.classifier(body.layout.first(body.rows))


class RobertaForMultipleChoice(RobertaPreTrainedModel, ForMultipleChoice):
    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        self.roberta = RobertaModel(self.config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()


class RobertaForTokenClassification(RobertaPreTrainedModel, ForTokenClassification):
    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.roberta = RobertaModel(self.config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class RobertaForQuestionAnswering(RobertaPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: RobertaConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.roberta = RobertaModel(self.config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
