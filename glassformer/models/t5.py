"""T5 (Raffel et al. 2020): an encoder-decoder that turns text into text, with distances in place of positions.

Layers normalise first, by the root mean square alone; no product has a bias, and scores are not scaled. What a query
adds for its distance to a key comes from a table of the first layer, which all layers share. Version 1.1 gates its
feed-forward and has an output layer of its own.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.config_fields import boolean, checked, integer, number, typed
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ConfigError, shown
from ..nn.activation import ACTIVATIONS
from ..nn.attention import SelfAttention, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project
from ..nn.linear import Linear
from .base.body import LayerStack
from .base.embeddings import Embeddings
from .base.encoder_decoder import Decoder, Encoder
from .base.outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
    ModelOutput,
    Seq2SeqModelOutput,
)
from .base.pretrained_model import PreTrainedModel
from .base.seq2seq import EncoderDecoderBody
from .base.signature import OUTPUTS, takes

CONFIG = {
    "d_model": "hidden_size",
    "d_kv": "head_width",
    "d_ff": "intermediate_size",
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "dropout_rate": "hidden_dropout_prob",
    "layer_norm_epsilon": "layer_norm_eps",
}
GATED = "gated-"  # before the activation in `feed_forward_proj`


def attention_rows(part: str, theirs: str, place: int, name: str) -> list[Row]:
    """The weights of one attention of every layer."""
    file, ours = f"{part}.block.{{i}}.layer.{place}.", f"{part}.layer.{{i}}.{name}."
    parts = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
    rows = [Row(f"{file}{theirs}.{each}.*", f"{ours}{own}.*") for each, own in parts.items()]
    return [*rows, Row(f"{file}layer_norm.*", f"{ours}LayerNorm.*")]


def stack_rows(part: str, last: int) -> list[Row]:
    """The weights of the encoder or the decoder, whose feed-forward is the part of that number in a layer."""
    file, ours = f"{part}.block.{{i}}.layer.{last}.", f"{part}.layer.{{i}}."
    table = "SelfAttention.relative_attention_bias.weight"
    return [
        *attention_rows(part, "SelfAttention", 0, "attention"),
        Row(f"{part}.block.0.layer.0.{table}", f"{part}.relative_attention_bias.weight"),
        Row(f"{file}DenseReluDense.wi.*", f"{ours}intermediate.dense.*"),
        Row(f"{file}DenseReluDense.wi_0.*", f"{ours}intermediate.gate.dense.*"),
        Row(f"{file}DenseReluDense.wi_1.*", f"{ours}intermediate.linear.*"),
        Row(f"{file}DenseReluDense.wo.*", f"{ours}output.dense.*"),
        Row(f"{file}layer_norm.*", f"{ours}LayerNorm.*"),
        Row(f"{part}.final_layer_norm.*", f"{part}.LayerNorm.*"),
    ]


WEIGHTS = KeyMap(
    prefix="transformer.",
    body=("shared", "encoder", "decoder"),
    rows=(
        Row(
            "shared.weight",
            "encoder.embeddings.word_embeddings.weight",
            same_in_file=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
        ),
        *stack_rows("encoder", 1),
        *stack_rows("decoder", 2),
        *attention_rows("decoder", "EncDecAttention", 1, "crossattention"),
    ),
    # A bias of cross-attention, which the first files have and nothing ever read.
    leftovers=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
)

# For models without a decoder, which leave that of a file out.
ENCODER_WEIGHTS = replace(WEIGHTS, leftovers=(*WEIGHTS.leftovers, r"decoder\..*"))


def check_feed_forward(name: str, value: Any) -> str:
    """The kind of feed-forward: an activation, with "gated-" before it or not."""
    if not isinstance(value, str) or value.removeprefix(GATED) not in ACTIVATIONS:
        raise ConfigError(f"{name} must be an activation, or {GATED}ACTIVATION, got {shown(value)}")
    return value


@dataclass(repr=False, eq=False)
class T5Config(PretrainedConfig):
    """The shape of a T5; the defaults are the smallest published one. Names of files such as `d_model` work too."""

    model_type = "t5"
    FILE_NAMES = CONFIG
    share_embeddings = True  # source and target have one vocabulary

    vocab_size: int = integer(32128)
    hidden_size: int = integer(512)
    head_width: int = integer(64)
    intermediate_size: int = integer(2048)
    num_hidden_layers: int = integer(6, high=10_000)
    num_decoder_layers: int | None = integer(None, high=10_000, optional=True)  # None: as many as the encoder's
    num_attention_heads: int = integer(8)
    relative_attention_num_buckets: int = integer(32, low=4)
    relative_attention_max_distance: int = integer(128, low=2)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    layer_norm_eps: float = number(1e-6, 0, 1)
    initializer_factor: float = number(1.0, 0, 1e6)
    feed_forward_proj: str = checked("relu", check_feed_forward)
    _: KW_ONLY
    is_encoder_decoder: bool = boolean(True)
    use_cache: bool = boolean(True)
    scale_decoder_outputs: bool | None = typed(None, bool)  # before the output layer; None: as it is tied
    classifier_dropout: float = number(0.0, 0, 1)
    pad_token_id: int | None = integer(0, low=0, optional=True)
    eos_token_id: int | list[int] | None = typed(1, (int, list))
    decoder_start_token_id: int | None = integer(0, low=0, optional=True)

    @property
    def scales_rows(self) -> bool:
        """Whether rows are divided by sqrt(C) before the output layer."""
        scaled = self.scale_decoder_outputs
        return self.tie_word_embeddings if scaled is None else scaled

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "scale_decoder_outputs": self.scales_rows}  # a null means "no" to transformers 5

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_hidden_layers

    @property
    def is_gated(self) -> bool:
        return self.feed_forward_proj.startswith(GATED)

    @property
    def hidden_act(self) -> str:
        """The activation; "gelu" of a gated feed-forward is its approximation by tanh."""
        name = self.feed_forward_proj.removeprefix(GATED)
        return "gelu_new" if self.is_gated and name == "gelu" else name


class T5PreTrainedModel(PreTrainedModel):
    """What every T5 has: its configuration, its table of weights and how weights are initialised."""

    config_class = T5Config
    base_model_prefix = "transformer"
    keymap = WEIGHTS

    def _init_weights(self, module: nn.Module) -> None:
        config, factor = self.config, self.config.initializer_factor
        width, heads, size = config.hidden_size, config.num_attention_heads, config.head_width
        if isinstance(module, nn.RMSNorm):
            module.weight.data.fill_(factor)
        elif isinstance(module, nn.Linear):  # of those inside an attention or a layer, the next cases are the last word
            module.weight.data.normal_(0.0, factor * (1.0 if module.out_features == config.vocab_size else width**-0.5))
            if module.bias is not None:  # of a head
                module.bias.data.zero_()
        elif isinstance(module, T5Attention):
            for name, deviation in (("query", (width * size) ** -0.5), ("key", width**-0.5), ("value", width**-0.5)):
                getattr(module.self, name).weight.data.normal_(0.0, factor * deviation)
            module.output.dense.weight.data.normal_(0.0, factor * (heads * size) ** -0.5)
        elif isinstance(module, T5Layer):
            for layer in module.intermediate.modules():
                if isinstance(layer, nn.Linear):
                    layer.weight.data.normal_(0.0, factor * width**-0.5)
            module.output.dense.weight.data.normal_(0.0, factor * config.intermediate_size**-0.5)
        elif isinstance(module, T5Embeddings):
            module.word_embeddings.weight.data.normal_(0.0, factor)
        elif isinstance(module, T5Stack):
            module.relative_attention_bias.weight.data.normal_(0.0, factor * width**-0.5)


class T5Embeddings(Embeddings):
    """Word vectors alone: positions are distances, which attention adds."""

    def __init__(self, config: T5Config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self,
        input_ids: Tensor | None,
        token_type_ids: Tensor | None,
        position_ids: Tensor,
        inputs_embeds: Tensor | None = None,
    ) -> Tensor:
        """N -> N C"""
        return self.dropout(self.word_embeddings(input_ids) if inputs_embeds is None else inputs_embeds)


class T5Stack(LayerStack):
    """Embeddings, the table of distances, layers and a final normalisation: the encoder or the decoder."""

    is_decoder: bool

    def __init__(self, config: T5Config, count: int):
        super().__init__([T5Layer(config, self.is_decoder) for _ in range(count)], T5Embeddings(config))
        self.config = config
        self.relative_attention_bias = nn.Embedding(config.relative_attention_num_buckets, config.num_attention_heads)
        self.LayerNorm = nn.RMSNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    @property
    def stack(self) -> LayerStack:
        return self

    def run_layers(self, x: Tensor, context: Context) -> Tensor:
        context.bias = self.distance_bias(context)
        return self(x, context)

    def distance_bias(self, context: Context) -> Tensor:
        """What every head adds to the score of a key at some distance: 1 H T S, or B H T S."""
        layout = context.layout
        if layout.distance is not None:
            return self.values_of(layout.distance).permute(0, 3, 1, 2)
        keys = context.past + layout.length  # the queries are the last of them: one value for each diagonal of T S
        distances = keys - 1 - torch.arange(keys + layout.length - 1, device=self.relative_attention_bias.weight.device)
        return self.values_of(distances).t().unfold(-1, keys, 1).flip(1)[None]

    def values_of(self, distances: Tensor) -> Tensor:
        """What every head adds at some distances: ... -> ... H."""
        config, both_ways = self.config, not self.is_decoder
        longest = config.relative_attention_max_distance
        buckets = distance_buckets(distances, config.relative_attention_num_buckets, longest, both_ways)
        return self.relative_attention_bias(buckets)

    def finish(self, x: Tensor) -> Tensor:
        return self.dropout(self.LayerNorm(x))


class T5Encoder(T5Stack, Encoder):
    """Encodes the source; every token attends to every other."""

    def __init__(self, config: T5Config):
        super().__init__(config, config.num_hidden_layers)


class T5Decoder(T5Stack, Decoder):
    """Decodes the target; every token attends to those before it, and to the source."""

    def __init__(self, config: T5Config):
        super().__init__(config, config.decoder_layers)


def distance_buckets(distances: Tensor, buckets: int, longest: int, both_ways: bool) -> Tensor:
    """The bucket of every distance from key to query: one for each short distance, then wider ones up to `longest`.

    With `both_ways`, half of the buckets are for keys behind the query; else such keys are at distance 0.

    >>> distance_buckets(torch.tensor([-1, 0, 1, 9, 40, 500]), 32, 128, both_ways=True).tolist()
    [17, 0, 1, 8, 12, 15]
    """
    first = torch.zeros_like(distances)
    if both_ways:
        buckets //= 2
        first = (distances < 0) * buckets
        distances = distances.abs()
    else:
        distances = distances.clamp(min=0)
    exact = buckets // 2
    share = torch.log(distances.float() / exact) / math.log(longest / exact)
    wide = exact + (share * (buckets - exact)).clamp(min=0).long()
    return first + torch.where(distances < exact, distances, wide.clamp(max=buckets - 1))


class T5Layer(ContextModule):
    """Attention, in the decoder also to the source, then feed-forward; each normalises its input first."""

    def __init__(self, config: T5Config, is_decoder: bool):
        super().__init__()
        width = config.hidden_size
        self.attention = T5Attention(config)
        if is_decoder:
            self.crossattention = T5Attention(config)
        self.LayerNorm = nn.RMSNorm(width, eps=config.layer_norm_eps)
        kind = GatedIntermediate if config.is_gated else Intermediate
        self.intermediate = kind(width, config.intermediate_size, config.hidden_act, bias=False)
        self.dropout = Dropout(config.hidden_dropout_prob)
        self.output = Project(config.intermediate_size, width, config.hidden_dropout_prob, bias=False)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = x + self.attention(x, context)
        if context.cross is not None:
            x = x + self.crossattention(x, context.cross)
        return x + self.output(self.dropout(self.intermediate(self.LayerNorm(x))))


class T5Attention(ContextModule):
    """Normalise, attend, project; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: T5Config):
        super().__init__()
        width, heads, size = config.hidden_size, config.num_attention_heads, config.head_width
        self.LayerNorm = nn.RMSNorm(width, eps=config.layer_norm_eps)
        dropout = config.hidden_dropout_prob
        self.self = SelfAttention(width, heads, dropout, scale=1.0, head_width=size, bias=False)
        self.output = Project(heads * size, width, dropout, bias=False)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.output(self.self(self.LayerNorm(x), context))


class GatedIntermediate(nn.Module):
    """Widen twice, and multiply the one by the activated other."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str, bias: bool = True):
        super().__init__()
        self.gate = Intermediate(hidden_size, intermediate_size, activation, bias)
        self.linear = Linear(hidden_size, intermediate_size, bias=bias)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.gate(hidden_states) * self.linear(hidden_states)


# The arguments of a forward, in the order of the tutorials.
READ = (
    *("input_ids", "attention_mask", "decoder_input_ids", "decoder_attention_mask"),
    *("head_mask", "decoder_head_mask", "cross_attn_head_mask"),
    *("encoder_outputs", "past_key_values", "inputs_embeds", "decoder_inputs_embeds"),
)


def sort_inputs(inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool | None]]:
    """The arguments of a forward for the encoder and for the decoder, and what is recorded."""
    source = {name: inputs.get(name) for name in ("input_ids", "inputs_embeds", "head_mask")}
    target = {
        name: inputs.get(f"decoder_{name}") for name in ("input_ids", "attention_mask", "head_mask", "inputs_embeds")
    }
    target |= {name: inputs.get(name) for name in ("past_key_values", "use_cache")}
    target["cross_head_mask"] = inputs.get("cross_attn_head_mask")
    return source, target, {name: inputs.get(name) for name in OUTPUTS[:2]}


class T5Model(EncoderDecoderBody, T5PreTrainedModel):
    """Source and target in, contextual vectors of the target out."""

    def __init__(self, config: T5Config):
        super().__init__(config)
        self.encoder = T5Encoder(self.config)
        self.decoder = T5Decoder(self.config)
        self.post_init()

    @takes(*READ, "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        return_dict: bool | None = None,
    ) -> ModelOutput | tuple:
        """The decoder's vectors (B T C) for `decoder_input_ids`, given the source `input_ids` (B S)."""
        source, target, recorded = sort_inputs(inputs)
        body, encoded = self.read(source, attention_mask, target, encoder_outputs, recorded)
        states = {"last_hidden_state": body.last_hidden_state}
        return self.as_seq2seq_output(Seq2SeqModelOutput, body, return_dict, **states, **encoded)


class T5EncoderModel(T5PreTrainedModel):
    """The encoder alone: tokens in, contextual vectors out."""

    is_body = True
    is_decoder = False
    keymap = ENCODER_WEIGHTS

    def __init__(self, config: T5Config):
        super().__init__(config)
        self.encoder = T5Encoder(self.config)
        self.post_init()

    @property
    def embeddings(self) -> nn.Module:
        return self.encoder.embeddings

    @property
    def decoding_body(self) -> T5Encoder:
        """The only body it has."""
        return self.encoder

    def encode(self, *inputs: Any, **named: Any) -> Any:
        return self.encoder.encode(*inputs, **named)

    @takes("input_ids", "attention_mask", "head_mask", "inputs_embeds", *OUTPUTS)
    def forward(self, inputs: dict[str, Any], return_dict: bool | None = None) -> ModelOutput | tuple:
        """Encode a padded batch B T; padded positions come back as zeros."""
        return self.as_output(BaseModelOutputWithPastAndCrossAttentions, self.encoder.encode(**inputs), return_dict)
