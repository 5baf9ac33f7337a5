"""The Transformer of "Attention Is All You Need" (Vaswani et al. 2017): an encoder and a decoder made of attention.

Word vectors are scaled by sqrt(C), and sinusoidal position encodings are added. Layers normalise after each residual
sum as in the paper, or before (`norm_first`). `Transformer` is the same model with the tutorials' arguments.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from torch import nn

from ..checkpoints.config_fields import boolean, choice, integer, number
from ..checkpoints.keymap import KeyMap
from ..checkpoints.pretrained_config import PretrainedConfig
from ..nn.activation import ACTIVATIONS
from ..nn.attention import head_size
from ..nn.linear import Linear
from .base.seq2seq import Seq2SeqConfig, Seq2SeqModel
from .transformer_stacks import TransformerDecoder, TransformerEncoder

POSITIONS = ("sinusoidal", "learned")


@dataclass(repr=False, eq=False)
class TransformerConfig(Seq2SeqConfig):
    """The shape of a Transformer; the defaults are the paper's base model."""

    model_type = "transformer"

    vocab_size: int = integer(37000)  # of the target
    hidden_size: int = integer(512)
    num_hidden_layers: int = integer(6, high=10_000)  # of the encoder
    num_decoder_layers: int | None = integer(None, high=10_000, optional=True)  # None: as many as the encoder's
    num_attention_heads: int = integer(8)
    intermediate_size: int = integer(2048)
    hidden_act: str = choice("relu", ACTIVATIONS)
    hidden_dropout_prob: float = number(0.1, 0, 1)
    attention_probs_dropout_prob: float = number(0.1, 0, 1)
    max_position_embeddings: int = integer(5000)
    layer_norm_eps: float = number(1e-5, 0, 1)
    _: KW_ONLY
    position_embedding_type: str = choice("sinusoidal", POSITIONS)
    norm_first: bool = boolean(False)

    def validate(self) -> None:
        super().validate()
        head_size(self.hidden_size, self.num_attention_heads)

    @property
    def decoder_layers(self) -> int:
        return self.num_decoder_layers or self.num_hidden_layers


class TransformerForSeq2SeqLM(Seq2SeqModel):
    """Reads a text and writes another.

    >>> import torch
    >>> config = TransformerConfig(vocab_size=50, hidden_size=16, num_attention_heads=2, num_hidden_layers=2)
    >>> model = TransformerForSeq2SeqLM(config).eval()
    >>> model(torch.tensor([[5, 6, 7]]), decoder_input_ids=torch.tensor([[1, 8]])).logits.shape
    torch.Size([1, 2, 50])
    """

    is_body = True
    config_class = TransformerConfig
    base_model_prefix = "transformer"
    keymap = KeyMap(prefix="transformer.", body=("encoder", "decoder"))

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        config = self.config
        self.encoder = TransformerEncoder(config)
        self.decoder = TransformerDecoder(config)
        self.decoder.embeddings.pos_encoding = self.encoder.embeddings.pos_encoding  # one table is enough
        self.fc_out = Linear(config.hidden_size, config.vocab_size, bias=config.output_bias)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        initialise_weights(module, self.config)


def initialise_weights(module: nn.Module, config: PretrainedConfig) -> None:
    """The first weights of a Transformer: those of the paper's reference implementation."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    if isinstance(module, nn.Embedding):
        module.weight.data.normal_(0.0, config.hidden_size**-0.5)
    if isinstance(module, (nn.Linear, nn.LayerNorm)) and module.bias is not None:
        module.bias.data.zero_()
    if isinstance(module, nn.LayerNorm):
        module.weight.data.fill_(1.0)
