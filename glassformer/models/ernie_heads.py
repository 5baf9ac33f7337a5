"""ERNIE's heads: those of BERT."""

from __future__ import annotations

import logging
from typing import Any

from torch import Tensor, nn

from .base.generation_mixin import GenerationMixin
from .base.heads import (
    CausalLMHeadModel,
    ForMaskedLM,
    ForMultipleChoice,
    ForNextSentencePrediction,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
)
from .base.outputs import CausalLMOutputWithCrossAttentions
from .base.pretrained_io import is_rebuilding
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert_heads import (
    BertOnlyMLMHead,
    BertOnlyNSPHead,
    BertPreTrainingHeads,
    BertWithLMHead,
    MaskedWordsAndNextSentence,
    classifier_dropout,
)
from .ernie import ErnieConfig, ErnieModel, ErniePreTrainedModel

log = logging.getLogger("glassformer")


class ErnieForPreTraining(ErniePreTrainedModel, MaskedWordsAndNextSentence):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.ernie = ErnieModel(self.config)
        self.cls = BertPreTrainingHeads(self.config)
        self.post_init()


class ErnieForMaskedLM(ErniePreTrainedModel, BertWithLMHead, ForMaskedLM):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.ernie = ErnieModel(self.config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(self.config)
        self.post_init()


class ErnieForCausalLM(GenerationMixin, ErniePreTrainedModel, BertWithLMHead, CausalLMHeadModel):
    """ERNIE as a decoder: the next word, from left to right."""

    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        if not config.is_decoder and not is_rebuilding():
            log.warning("ErnieForCausalLM without is_decoder=True sees the words it should predict")
        self.ernie = ErnieModel(self.config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(self.config)
        self.post_init()

    @takes(*TEXT, *SOURCE, "labels", *CACHE, *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word, and no cache."""
        if labels is not None:
            inputs["use_cache"] = False
        return self.predict(self.ernie.encode(**inputs), labels, return_dict)


class ErnieForNextSentencePrediction(ErniePreTrainedModel, ForNextSentencePrediction):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.ernie = ErnieModel(self.config)
        self.cls = BertOnlyNSPHead(self.config)
        self.post_init()


class ErnieForSequenceClassification(ErniePreTrainedModel, ForSequenceClassification):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.ernie = ErnieModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class ErnieForMultipleChoice(ErniePreTrainedModel, ForMultipleChoice):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.ernie = ErnieModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()


class ErnieForTokenClassification(ErniePreTrainedModel, ForTokenClassification):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.ernie = ErnieModel(self.config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class ErnieForQuestionAnswering(ErniePreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: ErnieConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.ernie = ErnieModel(self.config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
