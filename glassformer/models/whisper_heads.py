"""What Whisper does: write what is said, or say what kind of sound it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError, shown
from ..nn.linear import Linear
from ..nn.loss import label_loss
from ..nn.tensor_inputs import FLOATING, as_dtype, check_broadcast, check_tensor
from .base.encoder_decoder import Decoder, Encoder
from .base.outputs import BaseModelOutput, ModelOutput, Seq2SeqLMOutput, SequenceClassifierOutput
from .base.pretrained_model import PreTrainedModel
from .base.seq2seq import Seq2SeqModel, last_hidden_state_of
from .base.signature import OUTPUTS, takes
from .whisper import READ, WhisperConfig, WhisperEncoder, WhisperModel, WhisperPreTrainedModel, sort_inputs
from .whisper_generation import WhisperGenerationMixin
from .whisper_openai import generation_settings


class WhisperForConditionalGeneration(WhisperGenerationMixin, Seq2SeqModel, WhisperPreTrainedModel):
    """Writes what is said in a window of sound.

    >>> shape = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "max_source_positions": 10}
    >>> model = WhisperForConditionalGeneration(WhisperConfig(**shape, vocab_size=60000)).eval()
    >>> model(torch.zeros(1, 80, 20), labels=torch.tensor([[50362, 50256]])).logits.shape
    torch.Size([1, 2, 60000])
    """

    is_body = False
    scorer = "proj_out"

    def __init__(self, config: WhisperConfig):
        super().__init__(config)
        self.model = WhisperModel(self.config)
        self.proj_out = Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    @property
    def encoder(self) -> Encoder:  # type: ignore[override]
        return self.model.encoder

    @property
    def decoder(self) -> Decoder:  # type: ignore[override]
        return self.model.decoder

    def tied_names(self) -> dict[str, str]:
        words = "model.decoder.embeddings.word_embeddings.weight"
        return {"proj_out.weight": words} if self.config.tie_word_embeddings else {}

    def get_input_embeddings(self) -> nn.Embedding:
        return self.model.get_input_embeddings()

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        self.model.set_input_embeddings(value)

    def resize_token_embeddings(self, new_num_tokens: int | None = None) -> nn.Embedding:
        return PreTrainedModel.resize_token_embeddings(self, new_num_tokens)

    def read_generation_config(self, folder: Path) -> None:
        if folder.is_file():  # of OpenAI
            from ..generate.config import GenerationConfig

            self._generation_config = GenerationConfig.from_dict(generation_settings(self.config, folder.stem))
        else:
            super().read_generation_config(folder)

    @takes(*READ, "labels", "use_cache", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        encoder_outputs: BaseModelOutput | tuple | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqLMOutput | tuple:
        """Score the words after each of `decoder_input_ids` (B T), given the spectrogram `input_features`.

        With `labels`, the text, the decoder reads them shifted by one, and their mean loss is returned.
        """
        source, target, recorded = sort_inputs(inputs)
        return self.read_and_write(source, None, target, encoder_outputs, labels, recorded, return_dict)


class WhisperForAudioClassification(WhisperPreTrainedModel):
    """What kind of sound is it? The encoder, the mean of its vectors over time, and a classifier.

    With `config.use_weighted_layer_sum` the vectors are a learnt mixture of those of all layers.
    """

    is_body = True

    def __init__(self, config: WhisperConfig):
        super().__init__(config)
        config = self.config
        self.num_labels = config.num_labels
        self.encoder = WhisperEncoder(config)
        if config.use_weighted_layer_sum:
            count = config.num_hidden_layers + 1
            self.layer_weights = nn.Parameter(torch.ones(count) / count)
        self.projector = nn.Linear(config.hidden_size, config.classifier_proj_size)
        self.classifier = nn.Linear(config.classifier_proj_size, config.num_labels)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is self and self.config.use_weighted_layer_sum:
            self.layer_weights.data.fill_(1 / len(self.layer_weights))

    @property
    def embeddings(self) -> nn.Module:
        return self.encoder.embeddings

    def get_input_embeddings(self) -> nn.Module:  # type: ignore[override]
        """The first convolution."""
        return self.encoder.embeddings.conv1

    def set_input_embeddings(self, value: nn.Module) -> None:  # type: ignore[override]
        self.encoder.embeddings.conv1 = value

    @takes("input_features", "head_mask", "encoder_outputs", "labels", *OUTPUTS)
    def forward(
        self,
        inputs: dict[str, Any],
        encoder_outputs: BaseModelOutput | tuple | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> ModelOutput | tuple:
        """Score the labels (B L) of spectrograms. `encoder_outputs` of an earlier call replace them."""
        mixes, wanted = self.config.use_weighted_layer_sum, inputs.get("output_hidden_states")
        if encoder_outputs is None:
            body = self.encoder.encode(**{**inputs, "output_hidden_states": mixes or wanted})
            last, states, seen = body.last_hidden_state, body.hidden_states, body.attentions
        else:
            last, states, seen = self.outputs_of(encoder_outputs)
        if mixes:
            last = torch.einsum("l,lbtc->btc", self.layer_weights.softmax(0), torch.stack(states))
        logits = self.classifier(self.projector(last).mean(1))  # B L
        wants_states = self.encoder.resolve_flag("output_hidden_states", wanted)
        out = SequenceClassifierOutput(
            loss=None if labels is None else label_loss(logits, labels),
            logits=logits,
            hidden_states=states if wants_states else None,
            attentions=seen,
        )
        return out.as_returned(self.config.return_dict if return_dict is None else return_dict)

    def outputs_of(self, encoder_outputs: Any) -> tuple[Tensor, Any, Any]:
        """The last hidden states, all hidden states and the attentions of an earlier call."""
        last = last_hidden_state_of(encoder_outputs)
        if isinstance(encoder_outputs, tuple | list):
            states, seen = (*encoder_outputs[1:3], None, None)[:2]
        else:
            states, seen = encoder_outputs.hidden_states, encoder_outputs.attentions
        weight = self.projector.weight
        check_tensor(last, "encoder_outputs[0]", FLOATING, "B T C", weight.device)
        last = as_dtype(last, weight.dtype, "encoder_outputs[0]")
        if last.shape[-1] != self.config.hidden_size or not last.numel():
            raise InputError(f"encoder_outputs[0] must be {self.config.hidden_size} wide, got {list(last.shape)}")
        if self.config.use_weighted_layer_sum:
            count = len(self.layer_weights)
            if not isinstance(states, tuple | list) or len(states) != count:
                raise InputError(
                    f"encoder_outputs need all {count} hidden states, which are mixed: got {shown(states)}"
                )
            for number, each in enumerate(states):
                check_tensor(each, f"hidden state {number} of encoder_outputs", FLOATING, device=weight.device)
                check_broadcast(each, tuple(last.shape), f"hidden state {number} of encoder_outputs")
        return last, states, seen
