"""A Performer's heads: the next word, a masked word, labels for texts and tokens, and answers."""

from __future__ import annotations

import logging
from typing import Any

from torch import Tensor, nn

from ..nn.dropout import Dropout
from ..nn.linear import Linear
from .base.generation_mixin import GenerationMixin
from .base.heads import (
    CausalLMHeadModel,
    ForMaskedLM,
    ForQuestionAnswering,
    ForSequenceClassification,
    ForTokenClassification,
    LinearLMHeadModel,
)
from .base.outputs import BodyOutput, CausalLMOutputWithCrossAttentions
from .base.pretrained_io import is_rebuilding
from .base.signature import CACHE, OUTPUTS, takes
from .performer import INPUTS, PerformerConfig, PerformerModel, PerformerPreTrainedModel

log = logging.getLogger("glassformer")


class PerformerLMHead(PerformerPreTrainedModel):
    """The body and the layer that scores words, as the library's `PerformerLM` has them."""

    scorer = "to_out"
    is_causal: bool

    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        if self.config.is_decoder != self.is_causal and not is_rebuilding():
            sees = "sees the words it should predict" if self.is_causal else "sees only the words before a masked one"
            log.warning("%s with causal=%s %s", type(self).__name__, self.config.is_decoder, sees)
        self.performer = PerformerModel(self.config)
        has_bias = not self.config.tie_word_embeddings
        self.to_out = Linear(self.config.hidden_size, self.config.vocab_size, bias=has_bias)
        self.post_init()


class PerformerForCausalLM(GenerationMixin, PerformerLMHead, CausalLMHeadModel):
    """Which word comes next?"""

    is_causal = True

    @takes(*INPUTS, "labels", *CACHE, *OUTPUTS)
    def forward(
        self, inputs: dict[str, Any], labels: Tensor | None = None, return_dict: bool | None = None
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word."""
        return self.predict(self.performer.encode(**inputs), labels, return_dict)


class PerformerForMaskedLM(PerformerLMHead, LinearLMHeadModel, ForMaskedLM):
    """Which word is at each position?"""

    is_causal = False


class PerformerForSequenceClassification(PerformerPreTrainedModel, ForSequenceClassification):
    """Reads the first token, or the last one of a causal model."""

    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.performer = PerformerModel(self.config)
        self.dropout = Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def text_logits(self, body: BodyOutput) -> Tensor:
        pick = body.layout.last if self.config.is_decoder else body.layout.first
        return self.classifier(self.dropout(pick(body.rows)))


class PerformerForTokenClassification(PerformerPreTrainedModel, ForTokenClassification):
    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.performer = PerformerModel(self.config)
        self.dropout = Dropout(config.classifier_dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()


class PerformerForQuestionAnswering(PerformerPreTrainedModel, ForQuestionAnswering):
    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.performer = PerformerModel(self.config)
        self.qa_outputs = nn.Linear(config.hidden_size, 2)
        self.post_init()
