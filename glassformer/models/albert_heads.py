"""ALBERT's heads: masked words through the narrow word vectors, the order of two sentences, and those of BERT."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..nn.activation import make_activation
from ..nn.linear import Linear
from ..nn.loss import label_loss
from .albert import AlbertConfig, AlbertModel, AlbertPreTrainedModel
from .base.heads import (
    ForMaskedLM,
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    HeadModel,
    LayeredLMHeadModel,
    pack_labels,
    score_tokens,
)
from .base.outputs import AlbertForPreTrainingOutput, BodyOutput
from .base.signature import OUTPUTS, TEXT, takes
from .bert_heads import classifier_dropout


class AlbertMLMHead(nn.Module):
    """Logits over the vocabulary; the weights are those of the word embeddings."""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.activation = make_activation(config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.decoder = Linear(config.embedding_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder.bias = self.bias

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.decoder(self.LayerNorm(self.activation(self.dense(hidden_states))))


class AlbertSOPHead(nn.Module):
    """Do two sentences stand in their order (0) or swapped (1)?"""

    def __init__(self, config: AlbertConfig):
        super().__init__()
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, pooled_output: Tensor) -> Tensor:
        return self.classifier(self.dropout(pooled_output))


class AlbertWithLMHead(AlbertPreTrainedModel, LayeredLMHeadModel):
    """An ALBERT with a language modeling head, `predictions`."""

    scorer = "predictions"


class AlbertForPreTraining(AlbertWithLMHead, HeadModel):
    """Both tasks of the pre-training: masked words and the order of sentences; their losses are added."""

    sentence_pairs: ClassVar[str] = "order"

    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.albert = AlbertModel(self.config)
        self.predictions = AlbertMLMHead(self.config)
        self.sop_classifier = AlbertSOPHead(self.config)
        self.post_init()

    def pair_logits(self, body: BodyOutput) -> Tensor:
        return self.sop_classifier(body.pooled)

    @takes(*TEXT, "labels", "sentence_order_label", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        labels: Tensor | None = None,
        sentence_order_label: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> AlbertForPreTrainingOutput | tuple:
        body = self.albert.encode(**inputs)
        words, word_logits = score_tokens(self.word_logits, body)  # N V, B T V
        order = self.pair_logits(body)  # B 2
        losses = []
        if labels is not None:
            losses.append(label_loss(words, pack_labels(labels, body)))
        if sentence_order_label is not None:
            losses.append(label_loss(order, sentence_order_label))
        scores = {"prediction_logits": word_logits, "sop_logits": order}
        return self.as_output(AlbertForPreTrainingOutput, body, return_dict, loss=sum(losses) or None, **scores)


class AlbertForMaskedLM(AlbertWithLMHead, ForMaskedLM):
    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.albert = AlbertModel(self.config, add_pooling_layer=False)
        self.predictions = AlbertMLMHead(self.config)
        self.post_init()


class AlbertForSequenceClassification(AlbertPreTrainedModel, ForSequenceClassification):
    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.albert = AlbertModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class AlbertForMultipleChoice(AlbertPreTrainedModel, ForMultipleChoice):
    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.albert = AlbertModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()


class AlbertForTokenClassification(AlbertPreTrainedModel, ForTokenClassification):
    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.albert = AlbertModel(self.config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class AlbertForQuestionAnswering(AlbertPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: AlbertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.albert = AlbertModel(self.config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
