"""Longformer's heads: those of RoBERTa, which also say which tokens are global."""

from __future__ import annotations

from torch import Tensor, nn

from ..nn.dropout import Dropout
from .base.heads import (
    ForMaskedLM,
    ForMultipleChoice,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    LayeredLMHeadModel,
)
from .base.outputs import (
    BodyOutput,
    LongformerMaskedLMOutput,
    LongformerMultipleChoiceModelOutput,
    LongformerQuestionAnsweringModelOutput,
    LongformerSequenceClassifierOutput,
    LongformerTokenClassifierOutput,
)
from .base.signature import OUTPUTS, reordered
from .longformer import (
    INPUTS,
    BesideSeparator,
    LongformerConfig,
    LongformerModel,
    LongformerPreTrainedModel,
    first_token,
)
from .roberta_heads import RobertaClassificationHead, RobertaLMHead


class LongformerForMaskedLM(LongformerPreTrainedModel, LayeredLMHeadModel, ForMaskedLM):
    """No token is global unless `global_attention_mask` names it."""

    output_class = LongformerMaskedLMOutput
    forward = reordered(ForMaskedLM.forward, *INPUTS, "labels", *OUTPUTS)

    def __init__(self, config: LongformerConfig):
        super().__init__(config)
        self.longformer = LongformerModel(self.config, add_pooling_layer=False)
        self.lm_head = RobertaLMHead(self.config)
        self.post_init()


class LongformerForSequenceClassification(LongformerPreTrainedModel, ForSequenceClassification):
    """The first token is global, unless the caller names others."""

    output_class = LongformerSequenceClassifierOutput
    forward = reordered(ForSequenceClassification.forward, *INPUTS, "labels", *OUTPUTS)

    def __init__(self, config: LongformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.longformer = LongformerModel(self.config, add_pooling_layer=False, global_tokens=first_token)
        self.classifier = RobertaClassificationHead(self.config)
        self.post_init()

    def text_logits(self, body: BodyOutput) -> Tensor:
        return self.classifier(body.layout.first(body.rows))


class LongformerForTokenClassification(LongformerPreTrainedModel, ForTokenClassification):
    """No token is global unless `global_attention_mask` names it."""

    output_class = LongformerTokenClassifierOutput
    forward = reordered(ForTokenClassification.forward, *INPUTS, "labels", *OUTPUTS)

    def __init__(self, config: LongformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.longformer = LongformerModel(self.config, add_pooling_layer=False)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class LongformerForQuestionAnswering(LongformerPreTrainedModel, ForQuestionAnswering):
    """The tokens of the question are global, unless the caller names others."""

    output_class = LongformerQuestionAnsweringModelOutput
    forward = reordered(ForQuestionAnswering.forward, *INPUTS, "start_positions", "end_positions", *OUTPUTS)

    def __init__(self, config: LongformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        question = BesideSeparator(config.sep_token_id, before=True)
        self.longformer = LongformerModel(self.config, add_pooling_layer=False, global_tokens=question)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()


class LongformerForMultipleChoice(LongformerPreTrainedModel, ForMultipleChoice):
    """The tokens of the choice are global, unless the caller names others."""

    output_class = LongformerMultipleChoiceModelOutput
    forward = reordered(
        ForMultipleChoice.forward,
        "input_ids",
        "token_type_ids",
        "attention_mask",
        "global_attention_mask",
        "head_mask",
        "labels",
        "position_ids",
        "inputs_embeds",
        *OUTPUTS,
    )

    def __init__(self, config: LongformerConfig):
        super().__init__(config)
        choice = BesideSeparator(config.sep_token_id, before=False)
        self.longformer = LongformerModel(self.config, global_tokens=choice)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, 1)
        self.post_init()
