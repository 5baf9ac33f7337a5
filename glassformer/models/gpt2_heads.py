"""GPT-2's heads: the next word, the fitting one of several texts, labels for texts and tokens, and answers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..nn.dropout import Dropout
from ..nn.linear import Linear
from .base.double_heads import DoubleHeadsModel
from .base.generation_mixin import GenerationMixin
from .base.heads import CausalLMHeadModel, ForQuestionAnswering, ForTokenClassification, LastTokenClassifier
from .base.outputs import (
    CausalLMOutputWithCrossAttentions,
    DoubleHeadsModelOutput,
    SequenceClassifierOutputWithPast,
    TokenClassifierOutput,
)
from .base.sequence_summary import SequenceSummary
from .base.signature import OUTPUTS, SOURCE, TEXT, takes
from .gpt2 import GPT2Config, GPT2Model, GPT2PreTrainedModel


class GPT2LMHeadModel(GenerationMixin, GPT2PreTrainedModel, CausalLMHeadModel):
    """Which word comes next? The output layer is tied to the word embeddings."""

    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.transformer = GPT2Model(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @takes("input_ids", "past_key_values", *TEXT[1:], *SOURCE, "labels", "use_cache", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word."""
        return self.predict(self.transformer.encode(**inputs), labels, return_dict)


class GPT2DoubleHeadsModel(GPT2PreTrainedModel, DoubleHeadsModel):
    """Which word comes next, and which of several texts fits best?"""

    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.config.num_labels = 1  # a score for each choice
        self.transformer = GPT2Model(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.multiple_choice_head = SequenceSummary(self.config)
        self.post_init()

    @takes("input_ids", "past_key_values", *TEXT[1:], "mc_token_ids", "labels", "mc_labels", "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        mc_token_ids: Tensor | None = None,
        labels: Tensor | None = None,
        mc_labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> DoubleHeadsModelOutput | tuple:
        """Inputs are B choices T, `mc_token_ids` the token that stands for each text (B choices; else its last one).

        `labels` (the input itself) are shifted inside; `mc_labels` (B) name the right choices.
        """
        return self.score_choices(inputs, mc_token_ids, labels, mc_labels, return_dict)


class GPT2ForSequenceClassification(GPT2PreTrainedModel, LastTokenClassifier):
    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = GPT2Model(self.config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    @takes("input_ids", "past_key_values", *TEXT[1:], "labels", "use_cache", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> SequenceClassifierOutputWithPast | tuple:
        return self.classify(self.transformer.encode(**inputs), inputs.get("input_ids"), labels, return_dict)


class GPT2ForTokenClassification(GPT2PreTrainedModel, ForTokenClassification):
    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = GPT2Model(self.config)
        self.dropout = Dropout(0.1 if config.classifier_dropout is None else config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @takes("input_ids", "past_key_values", *TEXT[1:], "labels", "use_cache", *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> TokenClassifierOutput | tuple:
        return super().forward(**inputs, labels=labels, return_dict=return_dict)


class GPT2ForQuestionAnswering(GPT2PreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.transformer = GPT2Model(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
