"""performer-pytorch, called as our models are called: text by text, because it counts padding among the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from glassformer.checkpoints.files import read_json
from glassformer.checkpoints.pretrained_config import PretrainedConfig
from glassformer.models.base.outputs import (
    BaseModelOutputWithPastAndCrossAttentions,
    CausalLMOutputWithCrossAttentions,
    MaskedLMOutput,
    QuestionAnsweringModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)

ARGUMENTS = (
    *("num_tokens", "max_seq_len", "dim", "depth", "heads", "dim_head", "local_attn_heads", "local_window_size"),
    *("causal", "ff_mult", "nb_features", "reversible", "ff_glu", "generalized_attention", "use_scalenorm"),
    *("use_rezero", "tie_embed", "rotary_position_emb", "axial_position_emb", "axial_position_shape"),
    *("qkv_bias", "attn_out_bias"),
)


def library_model(**fields: Any) -> nn.Module:
    """A `PerformerLM` with the arguments that a config of ours has."""
    library = pytest.importorskip("performer_pytorch")
    arguments = {name: value for name, value in fields.items() if name in ARGUMENTS}
    if isinstance(arguments.get("local_attn_heads"), list):
        arguments["local_attn_heads"] = tuple(arguments["local_attn_heads"])
    return library.PerformerLM(**arguments)


class Reference(nn.Module):
    """A `PerformerLM` and a head; `state_dict` has the names of the files."""

    def __init__(self, kind: str, config: dict[str, Any]):
        super().__init__()
        self.kind = kind
        self.library = library_model(**{**config, "tie_embed": not kind.endswith("LM")})
        head = {"PerformerForQuestionAnswering": "qa_outputs"}.get(kind, "classifier")
        if not kind.endswith(("LM", "Model")):
            self.library.add_module(head, nn.Linear(config["dim"], 2))

    def one(self, ids: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Encodings, hidden states and weights of one text, B T; a unit matrix of values gives the weights."""
        states: list[Tensor] = []
        weights: list[Tensor] = []
        handles = []
        for attention, _ in self.library.performer.net.layers:
            handles.append(attention.register_forward_pre_hook(lambda _, inputs: states.append(inputs[0])))
            parts = [attention.fn.fast_attention, attention.fn.local_attn]
            found: list[Tensor] = []

            def see(module, inputs, kwargs, out, found=found):
                unit = torch.eye(ids.shape[1], dtype=out.dtype).expand(*inputs[2].shape[:2], -1, -1)
                found.append(module.forward(*inputs[:2], unit, **kwargs))

            def collect(*_, found=found):
                weights.append(torch.cat(found, 1))

            handles += [part.register_forward_hook(see, with_kwargs=True) for part in parts if part is not None]
            handles.append(attention.register_forward_hook(collect))
        out = self.library(ids, mask=torch.ones_like(ids).bool(), return_encodings=True)
        for handle in handles:
            handle.remove()
        return out, [*states, out], weights

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **given: Any) -> Any:
        batch, length = input_ids.shape
        out, states, weights = self.one(input_ids[:1, :1])
        depth, heads, dtype = len(weights), weights[0].shape[1], out.dtype
        states = [torch.zeros(batch, length, out.shape[-1], dtype=dtype) for _ in range(depth + 1)]
        weights = [torch.zeros(batch, heads, length, length, dtype=dtype) for _ in range(depth)]
        for row in range(batch):
            real = attention_mask[row].bool()
            _, of_row, weights_of_row = self.one(input_ids[row, real][None])
            for into, each in zip(states, of_row, strict=True):
                into[row, real] = each[0]
            for into, each in zip(weights, weights_of_row, strict=True):
                begin = int(real.int().argmax())
                inside = slice(begin, begin + int(real.sum()))
                into[row, :, inside, inside] = each[0]
        last, labels = states[-1], given.get("labels")
        if self.kind == "PerformerModel":
            return BaseModelOutputWithPastAndCrossAttentions(
                last_hidden_state=last, hidden_states=tuple(states), attentions=tuple(weights)
            )
        return self.head(last, attention_mask.bool(), labels, given)

    def head(self, last: Tensor, seen: Tensor, labels: Tensor | None, given: dict[str, Any]) -> Any:
        if self.kind.endswith("LM"):
            logits = self.library.to_out(last)
            kind = CausalLMOutputWithCrossAttentions if "Causal" in self.kind else MaskedLMOutput
            if labels is None:
                return kind(logits=logits)
            scores, targets = (logits[:, :-1], labels[:, 1:]) if "Causal" in self.kind else (logits, labels)
            return kind(loss=F.cross_entropy(scores.flatten(0, 1), targets.flatten()), logits=logits)
        if self.kind == "PerformerForQuestionAnswering":
            hidden = ~seen[..., None]
            starts, ends = self.library.qa_outputs(last).masked_fill(hidden, torch.finfo(last.dtype).min).unbind(-1)
            loss = None
            if "start_positions" in given:
                pairs = ((starts, given["start_positions"]), (ends, given["end_positions"]))
                loss = sum(F.cross_entropy(*pair) for pair in pairs) / 2
            return QuestionAnsweringModelOutput(loss=loss, start_logits=starts, end_logits=ends)
        if self.kind == "PerformerForSequenceClassification":
            logits = self.library.classifier(last[:, 0])
            loss = None if labels is None else F.cross_entropy(logits, labels)
            return SequenceClassifierOutput(loss=loss, logits=logits)
        logits = self.library.classifier(last)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)


class PerformerPytorch:
    """The library as a reference of the contract."""

    def load(self, name: str, folder: Path) -> nn.Module:
        model = Reference(name, read_json(folder / "config.json")).double()
        model.library.load_state_dict(load_file(folder / "model.safetensors"))
        return model.eval()

    def save_new(self, name: str, config: PretrainedConfig, folder: Path) -> nn.Module:
        model = Reference(name, config.to_dict())
        config.save_pretrained(folder)
        save_file({key: each.clone() for key, each in model.library.state_dict().items()}, folder / "model.safetensors")
        return model.eval()
