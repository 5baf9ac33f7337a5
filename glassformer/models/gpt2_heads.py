"""GPT-2's heads: the next word, and a label for a text."""

from __future__ import annotations

from torch import Tensor, nn

from ..nn.linear import Linear
from .generation import Generates
from .gpt2 import GPT2Config, GPT2Model, GPT2PreTrainedModel
from .heads import LastTokenModel, NextWordModel
from .outputs import CausalLMOutputWithCrossAttentions, SequenceClassifierOutputWithPast


class GPT2LMHeadModel(Generates, GPT2PreTrainedModel, NextWordModel):
    """Which word comes next? The weights that score words are those of the word embeddings."""

    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.transformer = GPT2Model(self.config)
        self.lm_head = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: tuple | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        head_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        encoder_hidden_states: Tensor | None = None,
        encoder_attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> CausalLMOutputWithCrossAttentions | tuple:
        """With `labels` (the input itself; shifted inside) the mean loss of every next word."""
        body = self.transformer.run(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            head_mask,
            inputs_embeds,
            encoder_hidden_states,
            encoder_attention_mask,
            past_key_values,
            use_cache,
            output_attentions,
            output_hidden_states,
        )
        return self.predict(body, labels, return_dict)


class GPT2ForSequenceClassification(GPT2PreTrainedModel, LastTokenModel):
    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.num_labels = config.num_labels
        self.transformer = GPT2Model(self.config)
        self.score = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        past_key_values: tuple | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        head_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> SequenceClassifierOutputWithPast | tuple:
        body = self.transformer.run(
            input_ids,
            attention_mask,
            token_type_ids,
            position_ids,
            head_mask,
            inputs_embeds,
            past_key_values=past_key_values,
            use_cache=use_cache,
            output_attentions=output_attentions,
            output_hidden_states=output_hidden_states,
        )
        return self.judge(body, input_ids, labels, return_dict)
