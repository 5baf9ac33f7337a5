"""GPT-2's heads: the next word, and a label for a text."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..nn.loss import text_loss
from .gpt2 import GPT2Config, GPT2Model, GPT2PreTrainedModel
from .heads import next_word_loss, problem_type, score_tokens
from .outputs import BodyOutput, CausalLMOutputWithCrossAttentions, SequenceClassifierOutputWithPast


class GPT2LMHeadModel(GPT2PreTrainedModel):
    """Which word comes next? The weights that score words are those of the word embeddings."""

    def __init__(self, config: GPT2Config):
        super().__init__(config)
        self.transformer = GPT2Model(self.config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Linear:
        return self.lm_head

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head = new_embeddings

    def tied_names(self) -> dict[str, str]:
        if not self.config.tie_word_embeddings:
            return {}
        return {"lm_head.weight": "transformer.embeddings.word_embeddings.weight"}

    def _resize_output(self, size: int, shared: int) -> None:
        old = self.lm_head
        self.lm_head = nn.Linear(old.in_features, size, bias=False, device="meta")
        if not self.config.tie_word_embeddings:
            weight = old.weight.data.new_empty(size, old.in_features).normal_(0.0, self.config.initializer_range)
            weight[:shared] = old.weight.data[:shared]
            self.lm_head.weight = nn.Parameter(weight)

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
        _, logits = score_tokens(self.lm_head, body)  # B T V
        out = CausalLMOutputWithCrossAttentions(
            loss=None if labels is None else next_word_loss(logits, labels, body),
            logits=logits,
            past_key_values=body.past_key_values,
            hidden_states=body.hidden_states,
            attentions=body.attentions,
            cross_attentions=body.cross_attentions,
        )
        return out.given_as(self.config.return_dict if return_dict is None else return_dict)


class GPT2ForSequenceClassification(GPT2PreTrainedModel):
    """A label for a text, judged from its last token."""

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
        logits = self.score(self.last_tokens(body, input_ids))  # B L
        out = SequenceClassifierOutputWithPast(
            loss=None if labels is None else text_loss(logits, labels, problem_type(self, labels)),
            logits=logits,
            past_key_values=body.past_key_values,
            hidden_states=body.hidden_states,
            attentions=body.attentions,
        )
        return out.given_as(self.config.return_dict if return_dict is None else return_dict)

    def last_tokens(self, body: BodyOutput, input_ids: Tensor | None) -> Tensor:
        """The vector of every text's last token: the last that is no padding."""
        layout, padding = body.layout, self.config.pad_token_id
        real = layout.unpack(torch.ones_like(body.rows[:, 0])).bool()  # B T
        if padding is not None and input_ids is not None:
            real = real & (input_ids != padding)
        elif layout.batch > 1 and layout.index is None and padding is None and input_ids is not None:
            raise InputError("several texts need config.pad_token_id or an attention_mask, to tell where each one ends")
        places = torch.arange(layout.length, device=real.device).expand_as(real)
        last = places.masked_fill(~real, 0).amax(1)  # B
        return body.last_hidden_state[torch.arange(layout.batch, device=real.device), last]
