"""The base class of all encoder-decoder models.

Such a model has an `encoder` and a `decoder` (see encoder_decoder.py); generation runs the decoder alone.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...checkpoints.config_fields import boolean, integer
from ...checkpoints.pretrained_config import PretrainedConfig
from ...errors import ConfigError, InputError, shown
from ...nn.loss import IGNORED, label_loss
from ...nn.tensor_inputs import FLOATING, check_tensor
from .encoder_decoder import Decoder, Encoder
from .generation_mixin import GenerationMixin
from .heads import LinearLMHeadModel, pack_labels, score_tokens
from .outputs import BaseModelOutput, BodyOutput, ModelOutput, Seq2SeqLMOutput
from .pretrained_model import PreTrainedModel


@dataclass(repr=False, eq=False)
class Seq2SeqConfig(PretrainedConfig):
    """The vocabulary of an encoder-decoder."""

    vocab_size: int = integer(30000)  # of the target
    source_vocab_size: int | None = integer(None, optional=True)  # None: as many as the target's
    _: KW_ONLY
    share_embeddings: bool = boolean(True)  # one table of vectors for source and target
    output_bias: bool = boolean(False)
    is_encoder_decoder: bool = boolean(True)
    decoder_start_token_id: int | None = integer(None, low=0, optional=True)

    def validate(self) -> None:
        if self.share_embeddings and self.source_words != self.vocab_size:
            raise ConfigError(
                f"shared embeddings need one vocabulary, got {self.source_vocab_size} and {self.vocab_size} words"
            )

    @property
    def source_words(self) -> int:
        return self.source_vocab_size or self.vocab_size


class EncoderDecoderBody(PreTrainedModel):
    """An encoder of the source and a decoder of the target."""

    is_body = True
    encoder: Encoder
    decoder: Decoder

    @property
    def decoding_body(self) -> Any:
        return self.decoder

    def get_input_embeddings(self) -> nn.Embedding:
        return self.encoder.embeddings.word_embeddings

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.encoder.embeddings.word_embeddings = value

    def tied_names(self) -> dict[str, str]:
        """Source and target embeddings if they are shared."""
        source, target = (f"{part}.embeddings.word_embeddings.weight" for part in ("encoder", "decoder"))
        return {target: source} if self.config.share_embeddings else {}

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        if not self.config.share_embeddings:
            raise InputError("source and target have vocabularies of their own; only shared ones can be resized")
        return super().resize_token_embeddings(new_num_tokens)

    @property
    def embeddings(self) -> nn.Module:
        """The embeddings of the source."""
        return self.encoder.embeddings

    @property
    def layers(self) -> list[nn.Module]:
        """The layers of the encoder, then those of the decoder."""
        return [*self.encoder.layer, *self.decoder.layer]

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        self.encoder.gradient_checkpointing = self.decoder.gradient_checkpointing = enabled

    # -- reading and writing -----------------------------------------------------------------------------------

    def start_token(self) -> int:
        """The token before the first word of a target."""
        config = self.config
        for known in (config.decoder_start_token_id, config.bos_token_id, config.pad_token_id):
            if known is not None:
                return known[0] if isinstance(known, list) else known
        raise InputError("the config names no decoder_start_token_id: what comes before the first word is not known")

    def shift_right(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The decoder's inputs for `labels` (B T), and their attention mask."""
        check_tensor(labels, "labels")
        if labels.dim() != 2:
            raise InputError(f"labels must have the shape B T, got {list(labels.shape)}")
        inputs = F.pad(labels[:, :-1], (1, 0), value=self.start_token())
        mask = (labels != IGNORED).flip(1).cumsum(1).flip(1) > 0
        mask[:, 0] = True  # a sequence without labels keeps one position
        return inputs.masked_fill(inputs == IGNORED, self.config.pad_token_id or 0), mask

    def as_source(self, memory: BodyOutput) -> BodyOutput:
        """What the decoder reads of what the encoder returned."""
        return memory

    def read_pair(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        decoder_input_ids: Tensor,
        decoder_attention_mask: Tensor | None,
    ) -> BodyOutput:
        """The decoder's rows for source and target, as training needs them."""
        memory = self.as_source(self.encoder.encode(input_ids, attention_mask))
        return self.decoding_body.encode(decoder_input_ids, decoder_attention_mask, memory=memory)

    def source_for(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> dict[str, Tensor]:
        """The arguments of `decoder.encode` for a source, each tensor with a row for each sequence."""
        memory = self.as_source(self.encoder.encode(input_ids, attention_mask))
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        source = {"encoder_hidden_states": memory.last_hidden_state, "encoder_attention_mask": mask}
        return source if memory.pooled is None else {**source, "state": memory.pooled}

    def read(
        self,
        source: dict[str, Any],
        attention_mask: Tensor | None,
        target: dict[str, Any],
        encoder_outputs: BaseModelOutput | tuple | None,
        recorded: dict[str, bool | None],
    ) -> tuple[BodyOutput, dict[str, Any]]:
        """The decoder's rows, and what the encoder returned by the names of outputs; from the arguments for both."""
        if encoder_outputs is None:
            if all(value is None for value in source.values()):
                raise InputError(f"give the source: {next(iter(source))}, or the encoder_outputs of an earlier call")
            memory = self.encoder.encode(attention_mask=attention_mask, **source, **recorded)
            body = self.decoding_body.encode(memory=self.as_source(memory), **target, **recorded)
            states: Any = (memory.last_hidden_state, memory.hidden_states, memory.attentions)
        else:
            if any(value is not None for value in source.values()):
                raise InputError("give either input_ids or encoder_outputs, not both")
            last = last_hidden_state_of(encoder_outputs)
            given = self.source_of_outputs(last, attention_mask)
            body = self.decoding_body.encode(**given, **target, **recorded)
            states = (last, None, None)
        names = ("encoder_last_hidden_state", "encoder_hidden_states", "encoder_attentions")
        return body, dict(zip(names, states, strict=True))

    def as_seq2seq_output(
        self, kind: type[ModelOutput], body: BodyOutput, return_dict: bool | None, **values: Any
    ) -> ModelOutput | tuple:
        """The return value of a forward: `values`, and what the decoder recorded."""
        out = kind(
            past_key_values=body.past_key_values,
            decoder_hidden_states=body.hidden_states,
            decoder_attentions=body.attentions,
            cross_attentions=body.cross_attentions,
            **values,
        )
        return out.as_returned(self.config.return_dict if return_dict is None else return_dict)

    def source_of_outputs(self, states: Tensor, attention_mask: Tensor | None) -> dict[str, Tensor | None]:
        """The decoder's arguments for the hidden states of an earlier call of the encoder."""
        return {"encoder_hidden_states": states, "encoder_attention_mask": attention_mask}


def last_hidden_state_of(encoder_outputs: Any) -> Tensor:
    """What a decoder reads of the outputs of an earlier call of the encoder."""
    is_plain = isinstance(encoder_outputs, tuple | list) and len(encoder_outputs) > 0
    states = encoder_outputs[0] if is_plain else getattr(encoder_outputs, "last_hidden_state", None)
    if states is None:
        raise InputError(
            f"encoder_outputs must be what an encoder returned, or (last_hidden_state,), got {shown(encoder_outputs)}"
        )
    check_tensor(states, "encoder_outputs[0]", FLOATING, "B S C")
    return states


class Seq2SeqModel(GenerationMixin, EncoderDecoderBody, LinearLMHeadModel):
    """An encoder-decoder with an output layer over the target's vocabulary."""

    scorer = "fc_out"

    def tied_names(self) -> dict[str, str]:
        """Source and target embeddings if they are shared, and the output layer."""
        tied = super().tied_names()
        if self.config.tie_word_embeddings:
            target = "decoder.embeddings.word_embeddings.weight"
            tied[f"{self.scorer}.weight"] = tied.get(target, target)
        return tied

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        head_mask: Tensor | None = None,
        decoder_head_mask: Tensor | None = None,
        cross_attn_head_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqLMOutput | tuple:
        """Score the words after each of `decoder_input_ids` (B T), given the source `input_ids` (B S).

        With `labels`, the target, the decoder reads them shifted by one, and their mean loss is returned.
        `encoder_outputs` of an earlier call replace the source; its mask is still needed.
        """
        source = {"input_ids": input_ids, "head_mask": head_mask}
        target = {
            "input_ids": decoder_input_ids,
            "attention_mask": decoder_attention_mask,
            "head_mask": decoder_head_mask,
            "cross_head_mask": cross_attn_head_mask,
        }
        recorded = {"output_attentions": output_attentions, "output_hidden_states": output_hidden_states}
        return self.read_and_write(source, attention_mask, target, encoder_outputs, labels, recorded, return_dict)

    def read_and_write(
        self,
        source: dict[str, Any],
        attention_mask: Tensor | None,
        target: dict[str, Any],
        encoder_outputs: BaseModelOutput | tuple | None,
        labels: Tensor | None,
        recorded: dict[str, bool | None],
        return_dict: bool | None,
    ) -> Seq2SeqLMOutput | tuple:
        """The return value of a forward, from the arguments for the encoder and for the decoder."""
        if target["input_ids"] is None and target.get("inputs_embeds") is None:
            if labels is None:
                raise InputError("give decoder_input_ids, or labels to learn from")
            target["input_ids"], target["attention_mask"] = self.shift_right(labels)
        body, encoded = self.read(source, attention_mask, target, encoder_outputs, recorded)
        scores, logits = score_tokens(self.word_logits, body)  # N V, B T V
        loss = None if labels is None else label_loss(scores, pack_labels(labels, body))
        return self.as_seq2seq_output(Seq2SeqLMOutput, body, return_dict, loss=loss, logits=logits, **encoded)
