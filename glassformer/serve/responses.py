"""The responses of the explorer about models and readings."""

from __future__ import annotations

from typing import Any

import torch

from ..explain.addressing import SELF
from ..explain.analysis import head_measures as measures
from ..explain.pages.bertviz_views import scale_of
from ..explain.reading import Part, Reading
from ..explain.subject import Subject

THUMBNAIL = 48  # pixels along one side
Overview = dict[str, tuple[dict[str, Any], bytes]]  # by kind of attention: its description, and its thumbnails


def describe_model(subject: Subject) -> dict[str, Any]:
    model = subject.model
    return {
        "name": subject.name,
        "class": type(model).__name__,
        "kind": subject.kind,
        "function": subject.function,
        "decoder": subject.is_decoder,
        "heads": subject.heads,
        "parameters": model.num_parameters(),
        "mask": subject.tokenizer.mask_token,
        "writes_beside": bool(model.config.is_encoder_decoder),
    }


def tokens_of(reading: Reading) -> dict[str, Any]:
    return {
        "tokens": reading.tokens,
        "ids": reading.ids,
        "special": reading.side.special,
        "segments": reading.segments,
        "source": None if reading.source is None else reading.source._asdict(),
    }


@torch.no_grad()
def overview(reading: Reading) -> Overview:
    """For every kind of attention: its tokens, its layers, its heads with their measures, and their thumbnails.

    A few heads at a time, so that memory stays small.
    """
    parts = {}
    for name, part in reading.parts.items():
        heads, pictures, layers = [], [], {}
        for layer, numbers in reading.subject.heads_of_part(part).items():
            some_heads = []
            for weights in reading.weights_in_parts(layer, part):
                some_heads.append(measures.measure(weights, part.right.separators, within=part.kind == SELF))
                pictures.append(measures.thumbnails(weights, THUMBNAIL))
            values = {name: torch.cat([each[name] for each in some_heads]) for name in some_heads[0]}
            layers[layer] = {"heads": numbers, "vectors": vector_facts(reading, part, layer)}
            for slot, head in enumerate(numbers):
                each = {key: of_heads[slot].item() for key, of_heads in values.items()}
                heads.append({"layer": layer, "head": head, "measures": each})
        rows, columns = pictures[0].shape[-2:]
        about = {
            "left": part.left._asdict(),
            "right": part.right._asdict(),
            "causal": part.is_causal,
            "heads": heads,
            "layers": layers,
            "thumb": {"rows": rows, "columns": columns},
        }
        parts[name] = about, b"".join(picture.cpu().numpy().tobytes() for picture in pictures)
    return parts


def vector_facts(reading: Reading, part: Part, layer: int) -> dict[str, Any] | None:
    """Facts about the queries and keys of a layer; None where the weights do not come from them."""
    if not part.has_vectors:
        return None
    inputs = reading.attention_inputs(layer, part.kind)
    is_biased = any(each is not None for each in (inputs.score_bias, inputs.bias, inputs.features))
    return {"scale": scale_of(inputs), "biased": is_biased, "size": inputs.q.shape[-1]}


def generation_step(reading: Reading, position: int) -> dict[str, Any]:
    """The likeliest words for position `place`, and the probability of the one chosen there."""
    probabilities = reading.logits(position - 1).float().softmax(-1) if position else None
    if probabilities is None:
        return {"probability": None, "others": []}
    best = probabilities.topk(min(5, len(probabilities)))
    names = reading.subject.names(best.indices.tolist())
    others = [[name, p] for name, p in zip(names, best.values.tolist(), strict=True)]
    return {"probability": probabilities[reading.ids[position]].item(), "others": others}
