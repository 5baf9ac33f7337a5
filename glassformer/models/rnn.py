"""The recurrent encoder-decoder that came before the Transformer (Sutskever et al. 2014).

Without attention the decoder knows the source only by one vector of fixed size. `attention` adds attention to the
encoder's states: "bahdanau" before each step of the decoder (2014), the three of "luong" after it (2015). A
convolutional encoder (Gehring et al. 2017), which reads all words at once, can replace the recurrent one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from ..checkpoints.config_fields import choice, integer, number
from ..checkpoints.keymap import KeyMap
from ..errors import ConfigError, InputError
from ..nn.linear import Linear
from .base.seq2seq import Seq2SeqConfig, Seq2SeqModel
from .rnn_layers import ConvolutionalEncoder, RecurrentDecoder, RecurrentEncoder

ATTENTIONS = ("without", "bahdanau", "luong_dot", "luong_general", "luong_concat")


@dataclass(repr=False, eq=False)
class RNNConfig(Seq2SeqConfig):
    """The shape of a recurrent encoder-decoder."""

    model_type = "rnn"

    vocab_size: int = integer(10000)  # of the target
    hidden_size: int = integer(256)
    num_hidden_layers: int = integer(2, high=100)  # of the encoder, and of the decoder
    cell: str = choice("gru", ("gru", "lstm"))
    attention: str = choice("bahdanau", ATTENTIONS)
    encoder_type: str = choice("recurrent", ("recurrent", "convolutional"))
    kernel_size: int = integer(3)  # words that a convolution sees at once
    hidden_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(5000)
    initializer_range: float = number(0.1, 0, 1e6)

    def validate(self) -> None:
        super().validate()
        if self.hidden_size % 2:
            raise ConfigError(f"hidden_size must be even, half for each direction of reading, got {self.hidden_size}")
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"kernel_size must be odd, as many words before as behind, got {self.kernel_size}")

    @property
    def state_size(self) -> int:
        """The size of a layer's state; an LSTM has an output and a cell state."""
        return self.hidden_size * (2 if self.cell == "lstm" else 1)


class RNNForSeq2SeqLM(Seq2SeqModel):
    """Reads a text word by word and writes another.

    >>> import torch
    >>> model = RNNForSeq2SeqLM(RNNConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1)).eval()
    >>> model(torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[1, 8]])).logits.shape
    torch.Size([1, 2, 50])
    """

    is_body = True
    config_class = RNNConfig
    base_model_prefix = "rnn"
    keymap = KeyMap(prefix="rnn.", body=("encoder", "decoder"))
    layers: Sequence[nn.Module] = ()  # no attention heads to prune or mask

    def __init__(self, config: RNNConfig):
        super().__init__(config)
        config = self.config
        kind = RecurrentEncoder if config.encoder_type == "recurrent" else ConvolutionalEncoder
        self.encoder = kind(config)
        self.decoder = RecurrentDecoder(config)
        self.fc_out = Linear(config.hidden_size, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        deviation = self.config.initializer_range
        for name, parameter in module.named_parameters(recurse=False):
            if name.startswith("bias"):
                parameter.data.zero_()
            elif isinstance(module, nn.Embedding):
                parameter.data.normal_(0.0, deviation)
            elif isinstance(module, nn.LayerNorm):
                parameter.data.fill_(1.0)
            else:
                parameter.data.uniform_(-1.0, 1.0).mul_(math.sqrt(3 / parameter[0].numel()))

    def gradient_checkpointing_enable(self, enabled: bool = True) -> None:
        if enabled:
            raise InputError(f"{type(self).__name__} has no layers: gradient checkpointing is for stacks of them")

    @property
    def is_gradient_checkpointing(self) -> bool:
        return False
