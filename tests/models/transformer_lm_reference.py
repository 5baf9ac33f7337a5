"""The language model with PyTorch's own encoder: `torch.nn.TransformerEncoder`, called with a causal mask."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.models.base.outputs import BaseModelOutput, CausalLMOutputWithCrossAttentions


class LanguageModelBody(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.width = config["hidden_size"]
        layer = nn.TransformerEncoderLayer(
            self.width,
            config["num_attention_heads"],
            config["intermediate_size"],
            config["hidden_dropout_prob"],
            config["hidden_act"],
            batch_first=True,
            norm_first=config["norm_first"],
        )
        last = nn.LayerNorm(self.width) if config["norm_first"] else None
        self.embedding = nn.Embedding(config["vocab_size"], self.width)
        self.encoder = nn.TransformerEncoder(layer, config["num_hidden_layers"], last, enable_nested_tensor=False)

    def positions(self, length: int) -> Tensor:
        """PE(pos, 2i) = sin(pos / 10000^(2i / d)), PE(pos, 2i + 1) = cos of the same, in float32 as ours."""
        table = torch.zeros(length, self.width)
        for i in range(0, self.width, 2):
            angle = torch.arange(length).float() * torch.exp(torch.tensor(float(i)) * (-math.log(10000.0) / self.width))
            table[:, i], table[:, i + 1] = torch.sin(angle), torch.cos(angle)
        return table

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **_: Any) -> BaseModelOutput:
        length = input_ids.shape[1]
        x = self.embedding(input_ids) * math.sqrt(self.width)
        states, attentions = [x + self.positions(length).to(x.dtype)], []
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        padding = attention_mask == 0
        for layer in self.encoder.layers:
            x = states[-1]
            read = layer.norm1(x) if layer.norm_first else x
            attentions.append(layer.self_attn(read, read, read, padding, True, future, average_attn_weights=False)[1])
            states.append(layer(x, future, padding))
        states[-1] = self.encoder(states[0], future, padding)
        return BaseModelOutput(states[-1], tuple(states), tuple(attentions))


class LanguageModel(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.transformer = LanguageModelBody(config)
        if not config.get("tie_word_embeddings", True):
            self.fc_out = nn.Linear(config["hidden_size"], config["vocab_size"], bias=config.get("output_bias", False))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None, **_: Any) -> Any:
        x = self.transformer(input_ids, attention_mask)[0]
        logits = self.fc_out(x) if hasattr(self, "fc_out") else x @ self.transformer.embedding.weight.T
        loss = None if labels is None else F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutputWithCrossAttentions(loss=loss, logits=logits)
