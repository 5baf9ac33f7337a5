"""Whisper (Radford et al. 2022): an encoder of sound and a decoder that writes what is said.

Two convolutions turn the log-mel spectrogram of 30 seconds, a column for every 10 ms, into a vector for every 20 ms.
Layers normalise first; keys have no bias. What the decoder is to do stands before its text: language, task, timestamps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config_fields import activation, boolean, checked, integer, number, typed
from ..checkpoints.keymap import KeyMap, Row
from ..checkpoints.pretrained_config import PretrainedConfig, resolve_config
from ..checkpoints.weights import Weights
from ..errors import ConfigError, shown
from ..nn.attention import head_size
from .base.body import LayerStack
from .base.encoder_decoder import Decoder, Encoder
from .base.outputs import BaseModelOutput, ModelOutput, Seq2SeqModelOutput
from .base.pretrained_model import PreTrainedModel
from .base.seq2seq import EncoderDecoderBody
from .base.signature import OUTPUTS, takes
from .whisper_layers import (
    STRIDE,
    WhisperEmbeddings,
    WhisperLayer,
    WhisperSoundEmbeddings,
    hide_parts,
    sines_and_cosines,
)
from .whisper_openai import open_openai, openai_file

CONFIG = {
    "d_model": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_dim": "intermediate_size",
    "decoder_ffn_dim": "decoder_intermediate_size",
    "max_target_positions": "max_position_embeddings",
    "activation_function": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "init_std": "initializer_range",
}


def stack_rows(part: str) -> list[Row]:
    """The weights of the layers of the encoder or the decoder."""
    file, ours = f"{part}.layers.{{i}}.", f"{part}.layer.{{i}}."
    rows = []
    for theirs, own in (("self_attn", "attention"), ("encoder_attn", "crossattention")):
        for name, place in (("q", "self.query"), ("k", "self.key"), ("v", "self.value"), ("out", "output.dense")):
            rows.append(Row(f"{file}{theirs}.{name}_proj.*", f"{ours}{own}.{place}.*"))
        rows.append(Row(f"{file}{theirs}_layer_norm.*", f"{ours}{own}.LayerNorm.*"))
    return [
        *rows,
        Row(f"{file}final_layer_norm.*", f"{ours}intermediate.LayerNorm.*"),
        Row(f"{file}fc1.*", f"{ours}intermediate.dense.*"),
        Row(f"{file}fc2.*", f"{ours}output.dense.*"),
        Row(f"{part}.layer_norm.*", f"{part}.LayerNorm.*"),
        Row(f"{part}.embed_positions.weight", f"{part}.embeddings.position_embeddings.weight"),
    ]


WEIGHTS = KeyMap(
    prefix="model.",
    body=("encoder", "decoder"),
    rows=(
        Row("encoder.conv1.*", "encoder.embeddings.conv1.*"),
        Row("encoder.conv2.*", "encoder.embeddings.conv2.*"),
        *stack_rows("encoder"),
        Row("decoder.embed_tokens.weight", "decoder.embeddings.word_embeddings.weight"),
        *stack_rows("decoder"),
    ),
)


def check_tokens(name: str, value: Any) -> list[int] | None:
    """Token ids, or None."""
    if value is None:
        return None
    ids = isinstance(value, list | tuple) and all(type(each) is int and each >= 0 for each in value)
    if not ids:
        raise ConfigError(f"{name} must be a list of token ids, got {shown(value)}")
    return list(value)


@dataclass(repr=False, eq=False)
class WhisperConfig(PretrainedConfig):
    """The shape of a Whisper; the defaults are the smallest one. Names of files such as `d_model` work too."""

    model_type = "whisper"
    FILE_NAMES = CONFIG
    share_embeddings = False  # the source has no vocabulary

    vocab_size: int = integer(51865)
    num_mel_bins: int = integer(80, high=1024)
    num_hidden_layers: int = integer(4, high=10_000)
    num_attention_heads: int = integer(6)
    num_decoder_layers: int | None = integer(None, high=10_000, optional=True)  # None: as many as the encoder's
    decoder_attention_heads: int | None = integer(None, optional=True)  # None: as many as the encoder's
    decoder_intermediate_size: int | None = integer(None, optional=True)  # None: the encoder's
    intermediate_size: int = integer(1536)
    encoder_layerdrop: float = number(0.0, 0, 1)  # how often training leaves out a layer
    decoder_layerdrop: float = number(0.0, 0, 1)
    hidden_act: str | Callable = activation("gelu")
    hidden_size: int = integer(384)
    hidden_dropout_prob: float = number(0.0, 0, 1)
    attention_probs_dropout_prob: float = number(0.0, 0, 1)
    activation_dropout: float = number(0.0, 0, 1)
    initializer_range: float = number(0.02, 0, 1e6)
    max_source_positions: int = integer(1500)
    max_position_embeddings: int = integer(448)  # of the text
    _: KW_ONLY
    is_encoder_decoder: bool = boolean(True)
    use_cache: bool = boolean(True)
    scale_embedding: bool = boolean(False)  # in published files; neither the original nor anything here reads it
    pad_token_id: int | None = integer(50256, low=0, optional=True)
    bos_token_id: int | None = integer(50256, low=0, optional=True)
    eos_token_id: int | list[int] | None = typed(50256, (int, list))
    decoder_start_token_id: int | list[int] | None = typed(50257, (int, list))  # of a list, the first
    suppress_tokens: list[int] | None = checked(None, check_tokens)
    begin_suppress_tokens: list[int] | None = checked(None, check_tokens)
    use_weighted_layer_sum: bool = boolean(False)  # of all layers, for classification
    classifier_proj_size: int = integer(256)
    median_filter_width: int = integer(7)  # of the attention that times of words are read from
    apply_spec_augment: bool = boolean(False)  # in training, parts of the spectrogram are hidden
    mask_time_prob: float = number(0.05, 0, 1)  # the share of columns, in runs of `mask_time_length`
    mask_time_length: int = integer(10)
    mask_time_min_masks: int = integer(2, low=0)
    mask_feature_prob: float = number(0.0, 0, 1)  # the same for bands
    mask_feature_length: int = integer(10)
    mask_feature_min_masks: int = integer(0, low=0)

    def validate(self) -> None:
        head_size(self.hidden_size, self.num_attention_heads)
        head_size(self.hidden_size, self.decoder_heads)
        if self.hidden_size % 2 or self.hidden_size < 4:
            raise ConfigError(f"hidden_size must be even and at least 4 for sines and cosines, got {self.hidden_size}")
        if self.median_filter_width % 2 == 0:
            raise ConfigError(f"median_filter_width must be odd, got {self.median_filter_width}")

    def to_dict(self) -> dict[str, Any]:
        """With the decoder's sizes written out, which other programs do not take from the encoder.

        Published files have the number of layers under two names.
        """
        own = {"decoder_attention_heads": self.decoder_heads, "decoder_layers": self.decoder_layer_count}
        own["num_hidden_layers"] = self.num_hidden_layers
        return {**super().to_dict(), **own, "decoder_ffn_dim": self.decoder_width}

    @property
    def columns(self) -> int:
        """How many columns a spectrogram has."""
        return STRIDE * self.max_source_positions

    @property
    def decoder_layer_count(self) -> int:
        return self.num_decoder_layers or self.num_hidden_layers

    @property
    def decoder_heads(self) -> int:
        return self.decoder_attention_heads or self.num_attention_heads

    @property
    def decoder_width(self) -> int:
        return self.decoder_intermediate_size or self.intermediate_size


class WhisperPreTrainedModel(PreTrainedModel):
    """What every Whisper has: its configuration, its table of weights and how weights are initialised.

    `from_pretrained` reads OpenAI's own `.pt` files too.
    """

    config_class = WhisperConfig
    base_model_prefix = "model"
    keymap = WEIGHTS

    @classmethod
    def open_checkpoint(
        cls, name_or_path: Any, config: Any, hub: dict[str, Any], fields: Mapping[str, Any], use_safetensors: bool
    ) -> tuple[Path, PretrainedConfig, Weights]:
        file = openai_file(name_or_path)
        if file is None:
            return super().open_checkpoint(name_or_path, config, hub, fields, use_safetensors)
        read, weights = open_openai(file, WhisperConfig)
        if config is not None:
            read = resolve_config(WhisperConfig, config, file.parent, hub, {})
        read.update(fields)
        return file, read, weights

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Conv1d):
            module.weight.data.normal_(0.0, self.config.initializer_range)
            module.bias.data.zero_()
        if isinstance(module, WhisperSoundEmbeddings):
            places = module.position_embeddings.weight
            places.data.copy_(sines_and_cosines(*places.shape))


class WhisperStack(LayerStack):
    """Embeddings, layers and a final normalisation: the encoder or the decoder."""

    is_decoder: bool

    def __init__(self, config: WhisperConfig, layers: list[nn.Module], embeddings: nn.Module):
        super().__init__(layers, embeddings)
        self.config = config
        self.LayerNorm = nn.LayerNorm(config.hidden_size)

    @property
    def stack(self) -> LayerStack:
        return self

    def finish(self, x: Tensor) -> Tensor:
        return self.LayerNorm(x)


class WhisperEncoder(WhisperStack, Encoder):
    """Encodes the spectrogram of a window; every 20 ms attend to every other."""

    feature_inputs = ("input_features",)

    def __init__(self, config: WhisperConfig):
        layers: list[nn.Module] = [WhisperLayer(config, is_decoder=False) for _ in range(config.num_hidden_layers)]
        super().__init__(config, layers, WhisperSoundEmbeddings(config))

    @property
    def max_length(self) -> int:
        return self.config.max_source_positions

    def embed_features(self, features: dict[str, Any]) -> Tensor:
        config = self.config
        if self.training and config.apply_spec_augment and features["input_features"] is not None:
            features = {"input_features": hide_parts(features["input_features"], config)}
        return super().embed_features(features)


class WhisperDecoder(WhisperStack, Decoder):
    """Writes the text; every token attends to those before it, and to the sound."""

    def __init__(self, config: WhisperConfig):
        layers: list[nn.Module] = [WhisperLayer(config, is_decoder=True) for _ in range(config.decoder_layer_count)]
        super().__init__(config, layers, WhisperEmbeddings(config))


# The arguments of a forward, in the order of the tutorials.
READ = (
    *("input_features", "attention_mask", "decoder_input_ids", "decoder_attention_mask"),
    *("head_mask", "decoder_head_mask", "cross_attn_head_mask"),
    *("encoder_outputs", "past_key_values", "decoder_inputs_embeds", "decoder_position_ids"),
)


def sort_inputs(inputs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool | None]]:
    """The arguments of a forward for the encoder and for the decoder, and what is recorded.

    `attention_mask`, over the columns of the spectrogram, is accepted and read by nothing: silence is sound.
    """
    source = {name: inputs.get(name) for name in ("input_features", "head_mask")}
    names = ("input_ids", "attention_mask", "head_mask", "inputs_embeds", "position_ids")
    target = {name: inputs.get(f"decoder_{name}") for name in names}
    target |= {name: inputs.get(name) for name in ("past_key_values", "use_cache")}
    target["cross_head_mask"] = inputs.get("cross_attn_head_mask")
    return source, target, {name: inputs.get(name) for name in OUTPUTS[:2]}


class WhisperModel(EncoderDecoderBody, WhisperPreTrainedModel):
    """Sound and text in, contextual vectors of the text out.

    >>> import torch
    >>> shape = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "max_source_positions": 10}
    >>> model = WhisperModel(WhisperConfig(**shape, vocab_size=60000))
    >>> out = model(torch.zeros(1, 80, 20), decoder_input_ids=torch.tensor([[50257, 50362]]))
    >>> out.last_hidden_state.shape, out.encoder_last_hidden_state.shape
    (torch.Size([1, 2, 8]), torch.Size([1, 10, 8]))
    """

    def __init__(self, config: WhisperConfig):
        super().__init__(config)
        self.encoder = WhisperEncoder(self.config)
        self.decoder = WhisperDecoder(self.config)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The word vectors of the decoder."""
        return self.decoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.decoder.embeddings.word_embeddings = value

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        return PreTrainedModel.resize_token_embeddings(self, new_num_tokens)

    @takes(*READ, "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        encoder_outputs: BaseModelOutput | tuple | None = None,
        return_dict: bool | None = None,
    ) -> ModelOutput | tuple:
        """The decoder's vectors (B T C) for `decoder_input_ids`, given the spectrogram `input_features`."""
        source, target, recorded = sort_inputs(inputs)
        body, encoded = self.read(source, None, target, encoder_outputs, recorded)
        states = {"last_hidden_state": body.last_hidden_state}
        return self.as_seq2seq_output(Seq2SeqModelOutput, body, return_dict, **states, **encoded)
