"""Transformer-XL by its formulas, query by query and key by key, on whole texts that begin behind nothing."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.models.base.outputs import (
    TransfoXLLMHeadModelOutput,
    TransfoXLModelOutput,
    TransfoXLSequenceClassifierOutputWithPast,
)


def table(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(0.3 * torch.randn(rows, columns))


class Words(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.ends, self.width = [*config["cutoffs"], config["vocab_size"]], config["d_model"]
        sizes = [end - begin for begin, end in zip([0, *self.ends], self.ends, strict=False)]
        widths = [config["d_embed"] // config["div_val"] ** i for i in range(len(sizes))]
        self.emb_layers = nn.ModuleList(nn.Embedding(*shape) for shape in zip(sizes, widths, strict=True))
        self.emb_projs = nn.ParameterList(table(self.width, each) for each in widths)

    def forward(self, ids: Tensor) -> Tensor:
        tables = [each.weight @ projection.T for each, projection in zip(self.emb_layers, self.emb_projs, strict=True)]
        return torch.cat(tables)[ids] * self.width**0.5


class Attention(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.heads, self.size = config["n_head"], config["d_head"]
        width, inner = config["d_model"], self.heads * self.size
        self.qkv_net = nn.Linear(width, 3 * inner, bias=False)
        self.r_net, self.o_net = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)
        self.layer_norm = nn.LayerNorm(width, eps=config["layer_norm_epsilon"])
        self.r_w_bias, self.r_r_bias = table(self.heads, self.size), table(self.heads, self.size)

    def forward(self, x: Tensor, seen: Tensor, distances: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv_net(x).unflatten(-1, (3, self.heads, self.size)).unbind(-3)  # B T H D
        r = self.r_net(distances).unflatten(-1, (self.heads, self.size))  # T T H D
        scores = torch.einsum("bihd,bjhd->bhij", q + self.r_w_bias, k)
        scores = scores + torch.einsum("bihd,ijhd->bhij", q + self.r_r_bias, r)
        weights = (scores / self.size**0.5).masked_fill(~seen[:, None], -1e30).softmax(-1)
        read = torch.einsum("bhij,bjhd->bihd", weights, v).flatten(-2)
        return self.layer_norm(x + self.o_net(read)), weights


class FeedForward(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        width, inner = config["d_model"], config["d_inner"]
        self.CoreNet = nn.Sequential(
            nn.Linear(width, inner), nn.ReLU(), nn.Identity(), nn.Linear(inner, width), nn.Identity()
        )
        self.layer_norm = nn.LayerNorm(width, eps=config["layer_norm_epsilon"])

    def forward(self, x: Tensor) -> Tensor:
        return self.layer_norm(x + self.CoreNet(x))


class Layer(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.dec_attn, self.pos_ff = Attention(config), FeedForward(config)


class PlainBody(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        assert not config["mem_len"] and not config["same_length"] and not config["pre_lnorm"] and config["untie_r"]
        self.config = config
        self.word_emb = Words(config)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["n_layer"]))

    def vectors(self, length: int) -> Tensor:
        """Of the distance from every query to every key; frequencies and distances as ours, in float32."""
        width, clamp = self.config["d_model"], self.config["clamp_len"]
        distances = (torch.arange(length)[:, None] - torch.arange(length)).clamp(0, clamp).double()
        powers = torch.arange(0, width, 2).float() / width
        angles = distances[..., None] * (1 / 10000**powers).double()
        return torch.cat((angles.sin(), angles.cos()), -1)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **_: Any) -> TransfoXLModelOutput:
        batch, length = input_ids.shape
        real = torch.ones(batch, length) if attention_mask is None else attention_mask
        seen = torch.ones(length, length).tril().bool() & real.bool()[:, None]
        x = self.word_emb(input_ids)
        states, attentions = [x], []
        for layer in self.layers:
            x, weights = layer.dec_attn(x, seen, self.vectors(length).to(x.dtype))
            x = layer.pos_ff(x)
            states.append(x)
            attentions.append(weights)
        return TransfoXLModelOutput(x, None, tuple(states), tuple(attentions))


class Softmax(nn.Module):
    def __init__(self, config: dict[str, Any], words: Words):
        super().__init__()
        self.ends = words.ends
        self.cluster_weight = table(len(self.ends) - 1, config["d_embed"])
        self.cluster_bias = nn.Parameter(torch.randn(len(self.ends) - 1))
        self.out_layers = nn.ModuleList(nn.Linear(*each.weight.shape[::-1]) for each in words.emb_layers)
        self.out_projs = nn.ParameterList(table(*each.shape) for each in words.emb_projs)

    def forward(self, x: Tensor) -> Tensor:
        scores = [layer(x @ projection) for layer, projection in zip(self.out_layers, self.out_projs, strict=True)]
        clusters = x @ self.out_projs[0] @ self.cluster_weight.T + self.cluster_bias
        head = torch.cat((scores[0], clusters), -1).log_softmax(-1)
        first = len(self.out_layers[0].bias)
        tails = [head[..., first + i, None] + each.log_softmax(-1) for i, each in enumerate(scores[1:])]
        return torch.cat((head[..., :first], *tails), -1)


class PlainLM(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.transformer = PlainBody(config)
        self.crit = Softmax(config, self.transformer.word_emb)
        self.tie()

    def tie(self) -> None:
        words = self.transformer.word_emb
        for i, layer in enumerate(self.crit.out_layers):
            layer.weight = words.emb_layers[i].weight
            if i:
                self.crit.out_projs[i] = words.emb_projs[i]

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None, **_: Any) -> Any:
        scores = self.crit(self.transformer(input_ids, attention_mask)[0])
        if labels is None:
            return TransfoXLLMHeadModelOutput(prediction_scores=scores)
        targets = labels[:, 1:]
        losses = F.nll_loss(scores[:, :-1].mT, targets, reduction="none")
        ends = torch.tensor(self.crit.ends)
        order = (targets[..., None] >= ends).sum(-1).masked_fill(targets < 0, 9).flatten().argsort(stable=True)
        loss = losses.sum() / (targets >= 0).sum()
        return TransfoXLLMHeadModelOutput(losses=losses.flatten()[order].view_as(losses), loss=loss)


class PlainTexts(nn.Module):
    def __init__(self, config: dict[str, Any]):
        super().__init__()
        self.transformer = PlainBody(config)
        self.score = nn.Linear(config["d_model"], config.get("num_labels", 2), bias=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor | None = None, **_: Any) -> Any:
        x = self.transformer(input_ids, attention_mask)[0]
        logits = self.score(x[torch.arange(len(x)), attention_mask.sum(1) - 1])
        loss = None if labels is None else F.cross_entropy(logits, labels)
        return TransfoXLSequenceClassifierOutputWithPast(loss=loss, logits=logits)
