"""Models whose outputs hold the queries and keys of every layer beside the weights, as bertviz' neuron view has them.

Their last output is a tuple with {'attn', 'queries', 'keys'} for each layer (B H T S, B H T D, B H S D).
"""

from __future__ import annotations

from typing import Any

from ...models.base.body import Body
from ...models.base.signature import TEXT, takes
from ...models.bert import BertModel as PlainBertModel
from ...models.distilbert import DistilBertModel as PlainDistilBertModel
from ...models.gpt2 import GPT2Model as PlainGPT2Model
from ...models.openai_gpt import OpenAIGPTModel as PlainOpenAIGPTModel


class NeuronView(Body):
    """A body that returns queries, keys and weights of its attention, in plain tuples."""

    @takes("input_ids", "token_type_ids", "attention_mask", *TEXT[3:], "output_hidden_states")
    def forward(self, inputs: dict[str, Any]) -> tuple:
        """(last hidden state, the pooled vector if there is one, hidden states if requested, attention)"""
        with self.capture(True, queries=True) as seen:
            body = self.encode(**inputs, use_cache=False, output_attentions=False)
        layers = [{"attn": seen.attention[i], "queries": seen.queries[i], "keys": seen.keys[i]} for i in seen.attention]
        parts = (body.last_hidden_state, body.pooled, body.hidden_states, tuple(layers))
        return tuple(part for part in parts if part is not None)


class BertModel(NeuronView, PlainBertModel):
    """BERT that returns its queries and keys.

    >>> import torch
    >>> model = BertModel(glassformer.BertConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=2,
    ...     vocab_size=50))
    >>> output = model(torch.tensor([[2, 7, 3]]))
    >>> list(output[-1][0]), output[-1][0]["attn"].shape
    (['attn', 'queries', 'keys'], torch.Size([1, 2, 3, 3]))
    """


class DistilBertModel(NeuronView, PlainDistilBertModel):
    """DistilBERT that returns its queries and keys."""


class GPT2Model(NeuronView, PlainGPT2Model):
    """GPT-2 that returns its queries and keys."""


class OpenAIGPTModel(NeuronView, PlainOpenAIGPTModel):
    """GPT that returns its queries and keys."""
