"""ELECTRA's heads: replaced tokens (the discriminator's), words (the generator's), and those of BERT."""

from __future__ import annotations

import logging
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..nn.activation import make_activation
from ..nn.linear import Linear
from ..nn.loss import replaced_loss
from .base.generation_mixin import GenerationMixin
from .base.heads import (
    CausalLMHeadModel,
    ForMaskedLM,
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    HeadModel,
    LinearLMHeadModel,
    pack_labels,
    score_tokens,
)
from .base.outputs import BodyOutput, CausalLMOutputWithCrossAttentions, ElectraForPreTrainingOutput
from .base.pretrained_io import is_rebuilding
from .base.sequence_summary import SequenceSummary
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert_heads import classifier_dropout
from .electra import ElectraConfig, ElectraModel, ElectraPreTrainedModel
from .roberta_heads import RobertaClassificationHead

log = logging.getLogger("glassformer")


class ElectraDiscriminatorPredictions(nn.Module):
    """Was a token replaced? One logit for each."""

    def __init__(self, config: ElectraConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = make_activation(config.hidden_act)
        self.dense_prediction = nn.Linear(config.hidden_size, 1)

    def forward(self, discriminator_hidden_states: Tensor) -> Tensor:
        """... C -> ..."""
        return self.dense_prediction(self.activation(self.dense(discriminator_hidden_states))).squeeze(-1)


class ElectraGeneratorPredictions(nn.Module):
    """From the width of the model to that of the word vectors, which score the words."""

    def __init__(self, config: ElectraConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.embedding_size)
        self.LayerNorm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)

    def forward(self, generator_hidden_states: Tensor) -> Tensor:
        return self.LayerNorm(F.gelu(self.dense(generator_hidden_states)))


class ElectraClassificationHead(RobertaClassificationHead):
    """RoBERTa's, with another activation."""

    def activate(self, x: Tensor) -> Tensor:
        return F.gelu(x)


class ElectraForPreTraining(ElectraPreTrainedModel, HeadModel):
    """The discriminator: which tokens were replaced (1), and which stood in the text (0)?"""

    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        self.electra = ElectraModel(self.config)
        self.discriminator_predictions = ElectraDiscriminatorPredictions(self.config)
        self.post_init()

    def replaced_logits(self, rows: Tensor) -> Tensor:
        """N C -> N"""
        return self.discriminator_predictions(rows)

    @takes(*TEXT, "labels", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> ElectraForPreTrainingOutput | tuple:
        body = self.electra.encode(**inputs)
        scores, logits = score_tokens(self.replaced_logits, body)  # N, B T
        loss = None
        if labels is not None:
            loss = replaced_loss(scores, pack_labels(labels, body))
        return self.as_output(ElectraForPreTrainingOutput, body, return_dict, loss=loss, logits=logits)


class ElectraWithLMHead(ElectraPreTrainedModel, LinearLMHeadModel):
    """An ELECTRA with a language modeling head: the generator."""

    scorer = "generator_lm_head"

    def build(self, config: ElectraConfig) -> None:
        self.electra = ElectraModel(config)
        self.generator_predictions = ElectraGeneratorPredictions(config)
        self.generator_lm_head = Linear(config.embedding_size, config.vocab_size)
        self.post_init()

    def word_logits(self, rows: Tensor) -> Tensor:
        return self.generator_lm_head(self.generator_predictions(rows))


class ElectraForMaskedLM(ElectraWithLMHead, ForMaskedLM):
    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        self.build(self.config)


class ElectraForCausalLM(GenerationMixin, ElectraWithLMHead, CausalLMHeadModel):
    """ELECTRA as a decoder: the next word, from left to right."""

    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        if not config.is_decoder and not is_rebuilding():
            log.warning("ElectraForCausalLM without is_decoder=True sees the words it should predict")
        self.build(self.config)

    @takes(*TEXT, *SOURCE, "labels", *CACHE, *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word, and no cache."""
        if labels is not None:
            inputs["use_cache"] = False
        return self.predict(self.electra.encode(**inputs), labels, return_dict)


class ElectraForSequenceClassification(ElectraPreTrainedModel, ForSequenceClassification):
    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.electra = ElectraModel(self.config)
        self.classifier = ElectraClassificationHead(self.config)
        self.post_init()

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.classifier(body.layout.first(body.rows))


class ElectraForMultipleChoice(ElectraPreTrainedModel, ForMultipleChoice):
    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        self.electra = ElectraModel(self.config)
        self.sequence_summary = SequenceSummary(self.config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.classifier(self.sequence_summary(body))


class ElectraForTokenClassification(ElectraPreTrainedModel, ForTokenClassification):
    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.electra = ElectraModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class ElectraForQuestionAnswering(ElectraPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: ElectraConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.electra = ElectraModel(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
