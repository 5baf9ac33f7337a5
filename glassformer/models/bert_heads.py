"""BERT's eight heads: their parts, and the two whose forward is BERT's own."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..nn.activation import make_activation
from ..nn.dropout import Dropout
from ..nn.linear import Linear
from ..nn.loss import label_loss
from .base.generation_mixin import GenerationMixin
from .base.heads import (
    CausalLMHeadModel,
    ForMaskedLM,
    ForMultipleChoice,
    ForNextSentencePrediction,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    HeadModel,
    LayeredLMHeadModel,
    pack_labels,
    score_tokens,
)
from .base.outputs import BertForPreTrainingOutput, BodyOutput, CausalLMOutputWithCrossAttentions
from .base.pretrained_io import is_rebuilding
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert import BertConfig, BertModel, BertPreTrainedModel

log = logging.getLogger("glassformer")


class BertPredictionHeadTransform(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.transform_act_fn = make_activation(config.hidden_act)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.LayerNorm(self.transform_act_fn(self.dense(hidden_states)))


class BertLMPredictionHead(nn.Module):
    """Logits over the vocabulary; the weights are those of the word embeddings."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.transform = BertPredictionHeadTransform(config)
        self.decoder = Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder.bias = self.bias

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.decoder(self.transform(hidden_states))


class BertOnlyMLMHead(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)

    def forward(self, sequence_output: Tensor) -> Tensor:
        return self.predictions(sequence_output)


class BertOnlyNSPHead(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled_output: Tensor) -> Tensor:
        return self.seq_relationship(pooled_output)


class BertPreTrainingHeads(nn.Module):
    def __init__(self, config: BertConfig):
        super().__init__()
        self.predictions = BertLMPredictionHead(config)
        self.seq_relationship = nn.Linear(config.hidden_size, 2)

    def forward(self, sequence_output: Tensor, pooled_output: Tensor) -> tuple[Tensor, Tensor]:
        return self.predictions(sequence_output), self.seq_relationship(pooled_output)


class BertWithLMHead(BertPreTrainedModel, LayeredLMHeadModel):
    """A BERT with a language modeling head, `cls.predictions`."""

    scorer = "cls.predictions"


class MaskedWordsAndNextSentence(BertWithLMHead, HeadModel):
    """Both tasks of the pre-training: masked words and next sentence; their losses are added."""

    sentence_pairs: ClassVar[str] = "next"
    output_class: ClassVar[type[BertForPreTrainingOutput]] = BertForPreTrainingOutput

    def pair_logits(self, body: BodyOutput) -> Tensor:
        return self.cls.seq_relationship(body.pooled)

    @takes(*TEXT, "labels", "next_sentence_label", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        labels: Tensor | None = None,
        next_sentence_label: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> BertForPreTrainingOutput | tuple:
        body = self.base_model.encode(**inputs)
        words, word_logits = score_tokens(self.word_logits, body)  # N V, B T V
        is_next = self.pair_logits(body)  # B 2
        loss = None
        if labels is not None:
            loss = label_loss(words, pack_labels(labels, body))
        if next_sentence_label is not None:
            next_loss = label_loss(is_next, next_sentence_label)
            loss = next_loss if loss is None else loss + next_loss
        scores = {"prediction_logits": word_logits, "seq_relationship_logits": is_next}
        return self.as_output(self.output_class, body, return_dict, loss=loss, **scores)


class BertForPreTraining(MaskedWordsAndNextSentence):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.bert = BertModel(self.config)
        self.cls = BertPreTrainingHeads(self.config)
        self.post_init()


class BertForMaskedLM(BertWithLMHead, ForMaskedLM):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.bert = BertModel(self.config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(self.config)
        self.post_init()


class BertLMHeadModel(GenerationMixin, BertWithLMHead, CausalLMHeadModel):
    """BERT as a decoder: the next word, from left to right."""

    def __init__(self, config: BertConfig):
        super().__init__(config)
        if not config.is_decoder and not is_rebuilding():
            log.warning("BertLMHeadModel without is_decoder=True sees the words it should predict")
        self.bert = BertModel(self.config, add_pooling_layer=False)
        self.cls = BertOnlyMLMHead(self.config)
        self.post_init()

    @takes(*TEXT, *SOURCE, "labels", *CACHE, *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word, and no cache."""
        if labels is not None:
            inputs["use_cache"] = False
        return self.predict(self.bert.encode(**inputs), labels, return_dict)


class BertForNextSentencePrediction(BertPreTrainedModel, ForNextSentencePrediction):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.bert = BertModel(self.config)
        self.cls = BertOnlyNSPHead(self.config)
        self.post_init()


def classifier_dropout(config: BertConfig) -> nn.Dropout:
    p = config.classifier_dropout
    return Dropout(config.hidden_dropout_prob if p is None else p)


class BertForSequenceClassification(BertPreTrainedModel, ForSequenceClassification):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class BertForMultipleChoice(BertPreTrainedModel, ForMultipleChoice):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.bert = BertModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()


class BertForTokenClassification(BertPreTrainedModel, ForTokenClassification):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(self.config, add_pooling_layer=False)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class BertForQuestionAnswering(BertPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: BertConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BertModel(self.config, add_pooling_layer=False)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
