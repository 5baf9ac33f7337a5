"""An encoder-decoder of any two models: the body of one encodes the source, a causal model decodes the target.

The decoder's layers get cross-attention, which its own checkpoint lacks and training must learn (Rothe et al. 2020:
BERT2BERT, BERT2GPT and their like).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..checkpoints.config_fields import boolean, checked, integer
from ..checkpoints.keymap import KeyMap
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ArgumentError, ConfigError, InputError, shown
from ..nn.quantize import weight_names
from .auto import AutoConfig, AutoModel, AutoModelForCausalLM, config_class
from .base.outputs import BaseModelOutput, BodyOutput, Seq2SeqLMOutput
from .base.pretrained_model import PreTrainedModel
from .base.seq2seq import Seq2SeqModel

PARTS = ("encoder", "decoder")


def check_part(name: str, value: Any) -> PretrainedConfig:
    """The configuration of a part, from its object or the dictionary in a file."""
    if isinstance(value, PretrainedConfig):
        return value
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} must be the configuration of a model, got {shown(value)}")
    return config_class(value.get("model_type"), f"the {name}").from_dict(value)


@dataclass(repr=False, eq=False)
class EncoderDecoderConfig(PretrainedConfig):
    """The configurations of both parts.

    >>> from glassformer import BertConfig
    >>> config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(), BertConfig())
    >>> config.decoder.is_decoder, config.decoder.add_cross_attention
    (True, True)
    """

    model_type = "encoder-decoder"

    encoder: PretrainedConfig = checked(None, check_part)
    decoder: PretrainedConfig = checked(None, check_part)
    _: KW_ONLY
    vocab_size: int | None = integer(None, optional=True)  # the decoder's
    tie_encoder_decoder: bool = boolean(False)  # one set of weights for what both have
    is_encoder_decoder: bool = boolean(True)
    decoder_start_token_id: int | None = integer(None, low=0, optional=True)

    @classmethod
    def from_encoder_decoder_configs(
        cls, encoder_config: PretrainedConfig, decoder_config: PretrainedConfig, **fields: Any
    ) -> EncoderDecoderConfig:
        """The configuration of a model made of two; the second one's copy becomes a decoder with cross-attention."""
        decoder = type(decoder_config).from_dict(decoder_config.to_dict())
        decoder.record_change(is_decoder=True, add_cross_attention=True)
        decoder.validate()
        return cls(encoder=type(encoder_config).from_dict(encoder_config.to_dict()), decoder=decoder, **fields)

    def validate(self) -> None:
        width = self.decoder.extra.get("cross_attention_hidden_size")
        if width not in (None, self.decoder.hidden_size):
            raise ConfigError(f"cross_attention_hidden_size = {width} is not supported: the decoder projects nothing")
        self.__dict__["vocab_size"] = self.decoder.vocab_size

    @property
    def source_vocab_size(self) -> int:
        return self.encoder.vocab_size

    @property
    def num_hidden_layers(self) -> int:
        """Of the encoder, as in other encoder-decoders."""
        return self.encoder.num_hidden_layers

    @property
    def hidden_size(self) -> int:
        """Of the encoder."""
        return self.encoder.hidden_size


class EncoderDecoderModel(Seq2SeqModel):
    """Reads a text with one model and writes another with a second one.

    >>> import torch
    >>> from glassformer import BertConfig, GPT2Config
    >>> shape = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
    >>> config = EncoderDecoderConfig.from_encoder_decoder_configs(BertConfig(**shape), GPT2Config(**shape))
    >>> model = EncoderDecoderModel(config).eval()
    >>> model(torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[1, 8]])).logits.shape
    torch.Size([1, 2, 50])
    """

    is_body = True
    config_class = EncoderDecoderConfig
    base_model_prefix = "encoder_decoder"

    def __init__(
        self,
        config: EncoderDecoderConfig | None = None,
        encoder: PreTrainedModel | None = None,
        decoder: PreTrainedModel | None = None,
    ):
        if config is None:
            if encoder is None or decoder is None:
                raise ArgumentError("EncoderDecoderModel takes a config, or an encoder and a decoder")
            config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder.config, decoder.config)
        super().__init__(config)
        self.encoder = AutoModel.from_config(self.config.encoder) if encoder is None else encoder
        self.decoder = AutoModelForCausalLM.from_config(self.config.decoder) if decoder is None else decoder
        check_parts(self.encoder, self.decoder)
        self.decoding_body.ids_name = "decoder_input_ids"
        self.config.encoder, self.config.decoder = self.encoder.config, self.decoder.config
        self.enc_to_dec_proj: nn.Linear | None = None
        if self.config.encoder.hidden_size != self.config.decoder.hidden_size:
            self.enc_to_dec_proj = nn.Linear(self.config.encoder.hidden_size, self.config.decoder.hidden_size)
            self.enc_to_dec_proj.apply(self._init_weights)
        self.keymap = KeyMap.of_parts(
            encoder=(self.encoder.keymap, False),
            decoder=(self.decoder.keymap, self.decoder.base_model is not self.decoder),
        )
        self.prune_as_configured()
        self.tie_weights()
        self.record_new_weights()

    def _init_weights(self, module: nn.Module) -> None:
        self.decoder._init_weights(module)

    def record_new_weights(self) -> None:
        """Parts that are loaded already keep their own records."""
        if not (self.encoder.is_loaded and self.decoder.is_loaded):
            super().record_new_weights()
            return
        for name in PARTS:
            part = getattr(self, name)
            self.load_report.initialised += [f"{name}.{each}" for each in part.load_report.initialised]
            self._initialised |= {
                f"{name}.{each}": {f"{name}.{weight}": values for weight, values in samples.items()}
                for each, samples in part._initialised.items()
            }
        if self.enc_to_dec_proj is not None and not self.enc_to_dec_proj.weight.is_meta:
            self.record_new_part("enc_to_dec_proj")

    @classmethod
    def from_encoder_decoder_pretrained(
        cls,
        encoder_pretrained_model_name_or_path: str | Path | None = None,
        decoder_pretrained_model_name_or_path: str | Path | None = None,
        **fields: Any,
    ) -> EncoderDecoderModel:
        """Load two checkpoints into one model. Fields with `encoder_` or `decoder_` before them are for the parts, the
        others for the config; `encoder_model` and `decoder_model` are models that are there already.

        >>> EncoderDecoderModel.from_encoder_decoder_pretrained("./bert/", "./gpt2/")  # doctest: +SKIP
        """
        encoder_fields, decoder_fields = ({}, {})
        for name in list(fields):
            for prefix, own in (("encoder_", encoder_fields), ("decoder_", decoder_fields)):
                if name.startswith(prefix) and name not in EncoderDecoderConfig.field_names():
                    own[name.removeprefix(prefix)] = fields.pop(name)
        paths = (encoder_pretrained_model_name_or_path, decoder_pretrained_model_name_or_path)
        encoder = load_part("encoder", AutoModel, paths[0], encoder_fields, is_decoder=False, add_cross_attention=False)
        decoder = load_part(
            "decoder", AutoModelForCausalLM, paths[1], decoder_fields, is_decoder=True, add_cross_attention=True
        )
        config = EncoderDecoderConfig.from_encoder_decoder_configs(encoder.config, decoder.config, **fields)
        return cls(config, encoder, decoder).eval()

    # -- parts -------------------------------------------------------------------------------------------------

    def get_encoder(self) -> PreTrainedModel:
        return self.encoder

    def get_decoder(self) -> PreTrainedModel:
        return self.decoder

    @property
    def decoding_body(self) -> Any:
        return self.decoder.base_model

    @property
    def layers(self) -> list[nn.Module]:
        return [*self.encoder.layers, *self.decoder.layers]

    def get_output_embeddings(self) -> nn.Linear:
        return self.decoder.get_output_embeddings()

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.decoder.set_output_embeddings(new_embeddings)

    def word_logits(self, rows: Tensor) -> Tensor:
        return self.decoder.word_logits(rows)

    def tied_names(self) -> dict[str, str]:
        """Those of both parts; with `tie_encoder_decoder`, every weight of the decoder that the encoder has too."""
        tied = {}
        for part in PARTS:
            names = getattr(self, part).tied_names()
            tied |= {f"{part}.{alias}": f"{part}.{name}" for alias, name in names.items()}
        if self.config.tie_encoder_decoder:
            body = "decoder." if self.decoding_body is self.decoder else f"decoder.{self.decoder.base_model_prefix}."
            own = set(weight_names(self.encoder))
            shared = [name for name in weight_names(self.decoding_body) if name in own]
            tied |= {body + name: f"encoder.{name}" for name in shared}
        return {alias: tied.get(name, name) for alias, name in tied.items()}

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        raise InputError("resize the parts: model.encoder.resize_token_embeddings and model.decoder's, then load anew")

    def prune_heads(self, heads_to_prune: Mapping[int, Any], cross: Mapping[int, Any] | None = None) -> None:
        """Remove heads; the encoder's layers come first, and the decoder's are numbered after them."""
        if self.config.tie_encoder_decoder:
            raise InputError("tie_encoder_decoder=True: encoder and decoder share their heads, so none can be pruned")
        super().prune_heads(heads_to_prune, cross)

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        self.encoder.gradient_checkpointing_enable(enabled)
        self.decoder.gradient_checkpointing_enable(enabled)

    @property
    def is_gradient_checkpointing(self) -> bool:
        return self.encoder.is_gradient_checkpointing and self.decoder.is_gradient_checkpointing

    # -- reading and writing -----------------------------------------------------------------------------------

    def as_source(self, memory: BodyOutput) -> BodyOutput:
        rows = memory.rows if self.enc_to_dec_proj is None else self.enc_to_dec_proj(memory.rows)
        return BodyOutput(rows, memory.layout)

    def source_of_outputs(self, states: Tensor, attention_mask: Tensor | None) -> dict[str, Tensor | None]:
        states = states if self.enc_to_dec_proj is None else self.enc_to_dec_proj(states)
        return super().source_of_outputs(states, attention_mask)

    def forward(  # type: ignore[override]
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        past_key_values: tuple | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        token_type_ids: Tensor | None = None,
        decoder_token_type_ids: Tensor | None = None,
        head_mask: Tensor | None = None,
        decoder_head_mask: Tensor | None = None,
        cross_attn_head_mask: Tensor | None = None,
    ) -> Seq2SeqLMOutput | tuple:
        """Score the words after each of `decoder_input_ids` (B T), given the source `input_ids` (B S).

        With `labels`, the target, the decoder reads them shifted by one, and their mean loss is returned.
        `encoder_outputs` of an earlier call replace the source; its mask is still needed. `decoder_head_mask` applies
        to the cross-attention too, as in each decoder alone, unless that has a mask of its own.
        """
        source = {
            "input_ids": input_ids,
            "inputs_embeds": inputs_embeds,
            "token_type_ids": token_type_ids,
            "head_mask": head_mask,
        }
        target = {
            "head_mask": decoder_head_mask,
            "cross_head_mask": cross_attn_head_mask,
            "input_ids": decoder_input_ids,
            "inputs_embeds": decoder_inputs_embeds,
            "token_type_ids": decoder_token_type_ids,
            "attention_mask": decoder_attention_mask,
            "past_key_values": past_key_values,
            "use_cache": use_cache,
        }
        recorded = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        return self.read_and_write(source, attention_mask, target, encoder_outputs, labels, recorded, return_dict)


def check_parts(encoder: PreTrainedModel, decoder: PreTrainedModel) -> None:
    """Raise for two models that do not fit together."""
    if encoder.get_output_embeddings() is not None:
        raise InputError(
            f"the encoder is a body without a head, such as AutoModel loads it; got {type(encoder).__name__}"
        )
    layer = decoder.base_model.stack.layer[0]
    if not decoder.config.is_decoder or not hasattr(layer, "crossattention"):
        raise InputError(
            f"this {type(decoder).__name__} is no decoder: set is_decoder=True and add_cross_attention=True"
        )


def load_part(
    name: str, kind: type, path: str | Path | None, fields: dict[str, Any], **settings: bool
) -> PreTrainedModel:
    """A model that is given, or that of a checkpoint, configured to be an encoder or a decoder."""
    model = fields.pop("model", None)
    if model is not None:
        return model
    if path is None:
        raise ArgumentError(f"name the checkpoint of the {name}, or give {name}_model")
    config = fields.pop("config", None)
    if config is None:
        config = AutoConfig.from_pretrained(path)
        config.update(settings)
    return kind.from_pretrained(path, config=config, **fields)
