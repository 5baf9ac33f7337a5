"""BigBird's heads: those of BERT, with another classifier, and answers that are not looked for in the question."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.activation import make_activation
from ..nn.dropout import Dropout
from ..nn.loss import span_loss
from ..nn.tensor_inputs import check_tensor
from .base.generation_mixin import GenerationMixin
from .base.heads import (
    CausalLMHeadModel,
    ForMaskedLM,
    ForMultipleChoice,
    ForSequenceClassification,
    ForTokenClassification,
    HeadModel,
)
from .base.outputs import (
    BigBirdForPreTrainingOutput,
    BigBirdForQuestionAnsweringModelOutput,
    BodyOutput,
    CausalLMOutputWithCrossAttentions,
)
from .base.pretrained_io import is_rebuilding
from .base.signature import CACHE, OUTPUTS, SOURCE, TEXT, takes
from .bert_heads import (
    BertOnlyMLMHead,
    BertPreTrainingHeads,
    BertWithLMHead,
    MaskedWordsAndNextSentence,
    classifier_dropout,
)
from .bert_layers import BertIntermediate, BertOutput
from .big_bird import BigBirdConfig, BigBirdModel, BigBirdPreTrainedModel
from .roberta_heads import RobertaClassificationHead

log = logging.getLogger("glassformer")

OUT_OF_QUESTION = 1e6  # how much lower the tokens of the question score


class BigBirdClassificationHead(RobertaClassificationHead):
    """RoBERTa's, with the activation of the layers."""

    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.activation = make_activation(config.hidden_act)

    def activate(self, x: Tensor) -> Tensor:
        return self.activation(x)


class BigBirdForPreTraining(BigBirdPreTrainedModel, MaskedWordsAndNextSentence):
    output_class = BigBirdForPreTrainingOutput

    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.bert = BigBirdModel(self.config)
        self.cls = BertPreTrainingHeads(self.config)
        self.post_init()


class BigBirdForMaskedLM(BigBirdPreTrainedModel, BertWithLMHead, ForMaskedLM):
    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.bert = BigBirdModel(self.config)
        self.cls = BertOnlyMLMHead(self.config)
        self.post_init()


class BigBirdForCausalLM(GenerationMixin, BigBirdPreTrainedModel, BertWithLMHead, CausalLMHeadModel):
    """BigBird as a decoder, with full attention: the next word, from left to right."""

    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        if not config.is_decoder and not is_rebuilding():
            log.warning("BigBirdForCausalLM without is_decoder=True sees the words it should predict")
        self.bert = BigBirdModel(self.config)
        self.cls = BertOnlyMLMHead(self.config)
        self.post_init()

    @takes(*TEXT, *SOURCE, CACHE[0], "labels", CACHE[1], *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word."""
        return self.predict(self.bert.encode(**inputs), labels, return_dict)


class BigBirdForSequenceClassification(BigBirdPreTrainedModel, ForSequenceClassification):
    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BigBirdModel(self.config)
        self.classifier = BigBirdClassificationHead(self.config)
        self.post_init()

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.classifier(body.layout.first(body.rows))


class BigBirdForMultipleChoice(BigBirdPreTrainedModel, ForMultipleChoice):
    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.bert = BigBirdModel(self.config)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()


class BigBirdForTokenClassification(BigBirdPreTrainedModel, ForTokenClassification):
    def __init__(self, config: BigBirdConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BigBirdModel(self.config)
        self.dropout = classifier_dropout(config)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class BigBirdForQuestionAnsweringHead(nn.Module):
    """A further feed-forward layer, and the scores of begin and end."""

    def __init__(self, config: BigBirdConfig):
        super().__init__()
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)

    def forward(self, rows: Tensor) -> Tensor:
        """N C -> N 2"""
        return self.qa_outputs(self.output(self.intermediate(self.dropout(rows)), rows))


class BigBirdForQuestionAnswering(BigBirdPreTrainedModel, HeadModel):
    """Where in the text does the answer begin and end? Not in the question, which the first separator ends."""

    def __init__(self, config: BigBirdConfig, add_pooling_layer: bool = False):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.bert = BigBirdModel(self.config, add_pooling_layer=add_pooling_layer)
        self.qa_classifier = BigBirdForQuestionAnsweringHead(self.config)
        self.post_init()

    @takes(*TEXT[:2], "question_lengths", *TEXT[2:], "start_positions", "end_positions", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        question_lengths: Tensor | None = None,
        start_positions: Tensor | None = None,
        end_positions: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> BigBirdForQuestionAnsweringModelOutput | tuple:
        """`question_lengths` (B 1) count the tokens up to the separator, with it; None: they are counted here.

        Padded positions score the type's lowest number. With labels they are computed, as the original loss has them.
        """
        if (start_positions is None) != (end_positions is None):
            raise InputError("give both start_positions and end_positions, or neither")
        has_labels = start_positions is not None
        given = self.bert.check_inputs(inputs.get("input_ids"), inputs.get("inputs_embeds"))
        question = self.question(inputs.get("input_ids"), question_lengths, given)
        if question is not None and "token_type_ids" not in inputs:
            inputs["token_type_ids"] = 1 - question.long()
        body = self.bert.encode(**inputs, keep_padding=has_labels)
        logits = self.qa_classifier(body.rows)  # N 2
        if question is not None:
            asked = question.clone()
            asked[:, 0] = False
            logits = logits - body.layout.pack(asked)[:, None] * OUT_OF_QUESTION
        laid_out = body.layout.unpack(logits, fill=torch.finfo(logits.dtype).min)  # B T 2
        starts, ends = (part.squeeze(-1).contiguous() for part in laid_out.split(1, dim=-1))
        loss = span_loss(starts, ends, start_positions, end_positions) if has_labels else None
        kind = BigBirdForQuestionAnsweringModelOutput
        return self.as_output(kind, body, return_dict, loss=loss, start_logits=starts, end_logits=ends)

    def question(self, ids: Tensor | None, lengths: Tensor | None, given: Tensor) -> Tensor | None:
        """The tokens up to the first separator: B T."""
        if lengths is None:
            if ids is None or self.config.sep_token_id is None:
                return None
            lengths = (ids == self.config.sep_token_id).int().argmax(-1, keepdim=True) + 1
        check_tensor(lengths, "question_lengths", device=given.device)
        if tuple(lengths.shape) != (len(given), 1):
            raise InputError(f"question_lengths must have the shape {[len(given), 1]}, got {list(lengths.shape)}")
        return torch.arange(given.shape[1], device=given.device) < lengths
