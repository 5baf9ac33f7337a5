"""GPT-2's heads: the next word, and a label for a text."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..nn.linear import Linear
from .base.generation_mixin import GenerationMixin
from .base.heads import CausalLMHeadModel, LastTokenClassifier
from .base.outputs import CausalLMOutputWithCrossAttentions, SequenceClassifierOutputWithPast
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
