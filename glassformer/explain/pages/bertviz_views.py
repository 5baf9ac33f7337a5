"""Head view, model view and neuron view, with the arguments of bertviz: pages for a notebook or a file."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from ...errors import InputError
from ...models.base.pretrained_model import PreTrainedModel
from ...nn.attention import AttentionInputs
from ...text.tokenizer import PreTrainedTokenizer
from ..reading import Part, Reading
from ..subject import Subject
from .attention_page import Attention, Page, Vectors, make_page

Layers = Sequence[Tensor]  # one for each layer, 1 H T S
MAX_VECTOR_BYTES = 4_000_000  # a page has queries and keys up to this size
SPACES = str.maketrans({"Ġ": " ", "▁": " ", "Ċ": "\n"})  # how vocabularies write spaces and line ends


def head_view(
    attention: Layers | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    encoder_attention: Layers | None = None,
    decoder_attention: Layers | None = None,
    cross_attention: Layers | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Iterable[int] | None = None,
    html_action: str = "view",
) -> Page | None:
    """Lines between tokens, as strong as the weights of one or several heads of a layer.

    >>> out = model(**batch, output_attentions=True)                                # doctest: +SKIP
    >>> head_view(out.attentions, tokens)                                           # doctest: +SKIP
    """
    kinds = read_attention(
        (attention, encoder_attention, decoder_attention, cross_attention),
        (tokens, encoder_tokens, decoder_tokens),
        sentence_b_start,
        prettify_tokens,
        include_layers,
        None,
    )
    return display_or_return(make_page("head", kinds, title="Head view", layer=layer, heads=heads), html_action)


def model_view(
    attention: Layers | None = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    display_mode: str = "dark",
    encoder_attention: Layers | None = None,
    decoder_attention: Layers | None = None,
    cross_attention: Layers | None = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Iterable[int] | None = None,
    include_heads: Iterable[int] | None = None,
    html_action: str = "view",
) -> Page | None:
    """A thumbnail of every head of every layer; a selected one is shown large, as lines and as a heat-map.

    >>> model_view(out.attentions, tokens, display_mode="light")                    # doctest: +SKIP
    """
    kinds = read_attention(
        (attention, encoder_attention, decoder_attention, cross_attention),
        (tokens, encoder_tokens, decoder_tokens),
        sentence_b_start,
        prettify_tokens,
        include_layers,
        include_heads,
    )
    page = make_page("model", kinds, title="Model view", theme=check_theme(display_mode))
    return display_or_return(page, html_action)


@torch.no_grad()
def neuron_view(
    model: PreTrainedModel,
    model_type: str | None,
    tokenizer: PreTrainedTokenizer,
    sentence_a: str,
    sentence_b: str | None = None,
    display_mode: str = "dark",
    layer: int | None = None,
    head: int | None = None,
    html_action: str = "view",
) -> Page | None:
    """How a weight is computed: query, keys, their product, the scores and their softmax, for any head.

    `model` is any model of ours, the one of `transformers_neuron_view` or another. An encoder-decoder reads the first
    sentence and writes the second, or its own text.

    >>> neuron_view(model, "bert", tokenizer, "The cat sat on the mat")             # doctest: +SKIP
    """
    if model_type is not None and model_type != model.config.model_type:
        raise InputError(f"model_type is {model_type!r}, and the model is a {model.config.model_type}")
    reading = Subject(model, tokenizer).read(sentence_a, sentence_b)
    vectors = vectors_of_reading(reading)
    if not vectors:
        raise InputError(
            f"the attention of a {model.config.model_type} has no queries and keys; head_view shows its weights"
        )
    page = make_page(
        "neuron",
        attention_of_reading(reading),
        title="Neuron view",
        vectors=vectors,
        layer=layer,
        heads=None if head is None else [head],
        theme=check_theme(display_mode),
    )
    return display_or_return(page, html_action)


# --- pages of a reading ----------------------------------------------------------------------------------------------


def page_of_reading(
    reading: Reading,
    kind: str | None = None,
    layer: int | None = None,
    heads: Sequence[int] | None = None,
    language: str = "en",
) -> Page:
    """All views of a text on one page; with queries and keys unless they are large."""
    vectors = vectors_of_reading(reading)
    size = sum(4 * (q.numel() + k.numel()) for part in vectors.values() for q, k in part.heads.values())
    return make_page(
        "see",
        attention_of_reading(reading),
        title=f"{reading.subject.name}: {reading.text[:80]}",
        vectors=vectors if size <= MAX_VECTOR_BYTES else None,
        kind=kind,
        layer=layer,
        heads=heads,
        language=language,
    )


def attention_of_reading(reading: Reading) -> dict[str, Attention]:
    """Every kind of attention."""
    second = next((i for i, segment in enumerate(reading.segments) if segment), None)
    found = {}
    for name, part in reading.parts.items():
        heads = {
            (layer, head): weights
            for layer, numbers in reading.subject.heads_of_part(part).items()
            for head, weights in zip(numbers, reading.weights(layer, kind=part.kind), strict=True)
        }
        left, right = part.left, part.right
        found[name] = Attention(left.tokens, right.tokens, heads, left.special, right.special, second)
    return found


def vectors_of_reading(reading: Reading) -> dict[str, Vectors]:
    """Queries and keys for the neuron view, of every kind of attention that has them."""
    return {name: vectors_of_part(reading, part) for name, part in reading.parts.items() if part.has_vectors}


def vectors_of_part(reading: Reading, part: Part) -> Vectors:
    heads, biases, scales = {}, {}, {}
    for layer, numbers in reading.subject.heads_of_part(part).items():
        inputs = reading.attention_inputs(layer, part.kind)
        scales[layer] = scale_of(inputs)
        bias = score_bias_of(inputs)
        for slot, head in enumerate(numbers):
            heads[layer, head] = inputs.q[:, slot], inputs.k[:, slot]
            if bias is not None:
                biases[layer, head] = bias[slot]
    return Vectors(heads, biases, scales, part.is_causal)


def scale_of(inputs: AttentionInputs) -> float:
    """What scores are multiplied by."""
    return inputs.q.shape[-1] ** -0.5 if inputs.scale is None else inputs.scale


def score_bias_of(inputs: AttentionInputs) -> Tensor | None:
    """What is added to scores before scaling, in all heads: H T S."""
    found = []
    if inputs.score_bias is not None:
        found.append(inputs.score_bias(inputs.layout.heads(inputs.q), inputs.source.heads(inputs.k)))
    if inputs.bias is not None:
        found.append(inputs.bias / scale_of(inputs))  # which is added after scaling
    if inputs.features is not None:  # linear attention: what products lack to the logarithm of its weights
        weights = inputs.weights(range(inputs.q.shape[1]))
        products = inputs.layout.heads(inputs.q) @ inputs.source.heads(inputs.k).mT
        found = [weights.clamp(min=torch.finfo(weights.dtype).tiny).log() / scale_of(inputs) - products]
    shape = (1, inputs.q.shape[1], inputs.layout.length, inputs.source.length)
    return sum(bias.expand(shape) for bias in found)[0] if found else None


# --- arguments of the views ------------------------------------------------------------------------------------------


def read_attention(
    given_weights: tuple[Layers | None, ...],
    given_tokens: tuple[Sequence[str] | None, ...],
    sentence_b_start: int | None,
    prettify_tokens: bool,
    include_layers: Iterable[int] | None,
    include_heads: Iterable[int] | None,
) -> dict[str, Attention]:
    """The arguments of a view as the kinds of attention that it shows."""
    plain, encoder, decoder, cross = given_weights
    tokens, of_encoder, of_decoder = (
        None if each is None else [str(token).translate(SPACES) if prettify_tokens else str(token) for token in each]
        for each in given_tokens
    )
    if plain is not None and (encoder is not None or decoder is not None or cross is not None):
        raise InputError("give either attention, or encoder_attention, decoder_attention and cross_attention")
    requested = {
        "all": (plain, tokens, tokens, "tokens"),
        "encoder": (encoder, of_encoder, of_encoder, "encoder_tokens"),
        "decoder": (decoder, of_decoder, of_decoder, "decoder_tokens"),
        "cross": (cross, of_decoder, of_encoder, "decoder_tokens and encoder_tokens"),
    }
    if sentence_b_start is not None:
        if plain is None:
            raise InputError("sentence_b_start is for attention with tokens; an encoder-decoder has no second sentence")
        if not 0 < sentence_b_start < len(tokens or ()):
            most = len(tokens or ()) - 1
            raise InputError(f"sentence_b_start must be between 1 and {most}, got {sentence_b_start}")
    kinds = {}
    for name, (layers, left, right, needed) in requested.items():
        if layers is None:
            continue
        if left is None or right is None:
            raise InputError(f"{name} attention needs {needed}")
        second = sentence_b_start if name == "all" else None
        kinds[name] = Attention(left, right, select_heads(layers, include_layers, include_heads), second=second)
    if not kinds:
        raise InputError(
            "give attention with tokens, or encoder_attention, decoder_attention or cross_attention; a model returns "
            "them with output_attentions=True"
        )
    return kinds


def select_heads(
    layers: Layers, include_layers: Iterable[int] | None, include_heads: Iterable[int] | None
) -> dict[tuple[int, int], Tensor]:
    numbers = range(len(layers)) if include_layers is None else list(include_layers)
    found = {}
    for layer in numbers:
        if not 0 <= layer < len(layers):
            raise InputError(f"include_layers: there are layers 0 to {len(layers) - 1}, got {layer}")
        weights = layers[layer]
        if not isinstance(weights, Tensor) or weights.dim() not in (3, 4) or (weights.dim() == 4 and len(weights) != 1):
            shape = list(getattr(weights, "shape", [])) or type(weights).__name__
            raise InputError(f"the attention of a layer has the shape 1 H T S, got {shape}: show one text at a time")
        weights = weights.reshape(weights.shape[-3:])
        for head in range(len(weights)) if include_heads is None else list(include_heads):
            if not 0 <= head < len(weights):
                raise InputError(f"include_heads: there are heads 0 to {len(weights) - 1}, got {head}")
            found[layer, head] = weights[head]
    if not found:
        raise InputError("there is no layer or no head to show")
    return found


def check_theme(display_mode: str) -> str:
    if display_mode not in ("dark", "light"):
        raise InputError(f"display_mode is 'dark' or 'light', got {display_mode!r}")
    return display_mode


def display_or_return(page: Page, html_action: str) -> Page | None:
    """The page, or None after a notebook has shown it."""
    if html_action not in ("view", "return"):
        raise InputError(f"html_action is 'view' or 'return', got {html_action!r}")
    notebook: Any = sys.modules.get("IPython")
    if html_action == "view" and notebook is not None and notebook.get_ipython() is not None:
        notebook.display.display(page)
        return None
    return page
