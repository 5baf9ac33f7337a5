"""DistilBERT's heads; those for texts read the first token."""

from __future__ import annotations

from torch import Tensor, nn

from ..nn.activation import make_activation
from ..nn.dropout import Dropout
from .base.heads import (
    ForMaskedLM,
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    LinearLMHeadModel,
)
from .base.outputs import BodyOutput
from .distilbert import DistilBertConfig, DistilBertModel, DistilBertPreTrainedModel


class DistilBertForMaskedLM(DistilBertPreTrainedModel, LinearLMHeadModel, ForMaskedLM):
    scorer = "vocab_projector"

    def __init__(self, config: DistilBertConfig):
        super().__init__(config)
        self.activation = make_activation(config.hidden_act)
        self.distilbert = DistilBertModel(self.config)
        self.vocab_transform = nn.Linear(config.hidden_size, config.hidden_size)
        self.vocab_layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.vocab_projector = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def word_logits(self, rows: Tensor) -> Tensor:
        return self.vocab_projector(self.vocab_layer_norm(self.activation(self.vocab_transform(rows))))


class FirstTokenClassifier(DistilBertPreTrainedModel):
    """A classifier of texts that reads the vector of the first token, [CLS], through one more layer."""

    def text_logits(self, body: BodyOutput) -> Tensor:
        first = body.layout.first(body.rows)  # B C
        return self.classifier(self.dropout(self.pre_classifier(first).relu()))


class DistilBertForSequenceClassification(FirstTokenClassifier, ForSequenceClassification):
    def __init__(self, config: DistilBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.distilbert = DistilBertModel(self.config)
        self.pre_classifier = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.dropout = Dropout(config.classifier_dropout)
        self.post_init()


class DistilBertForMultipleChoice(FirstTokenClassifier, ForMultipleChoice):
    def __init__(self, config: DistilBertConfig):
        super().__init__(config)
        self.distilbert = DistilBertModel(self.config)
        self.pre_classifier = nn.Linear(config.hidden_size, config.hidden_size)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.dropout = Dropout(config.classifier_dropout)
        self.post_init()


class DistilBertForTokenClassification(DistilBertPreTrainedModel, ForTokenClassification):
    def __init__(self, config: DistilBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.distilbert = DistilBertModel(self.config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class DistilBertForQuestionAnswering(DistilBertPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: DistilBertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.distilbert = DistilBertModel(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.dropout = Dropout(config.qa_dropout)
        self.post_init()

    def span_logits(self, rows: Tensor) -> Tensor:
        return self.qa_outputs(self.dropout(rows))
