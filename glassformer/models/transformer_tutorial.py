"""`Transformer(src_vocab_size, tgt_vocab_size, ...)`: the same model with the tutorials' arguments, masks and names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..errors import ArgumentError, InputError
from ..nn.layout import Layout
from ..nn.multi_head import resolve_alias
from ..nn.second_names import SecondNames, second_keywords
from ..nn.tensor_inputs import check_tensor
from .base.outputs import Seq2SeqLMOutput
from .transformer import TransformerConfig, TransformerForSeq2SeqLM
from .transformer_stacks import TransformerStack
from .transformer_tutorial_names import names_positional_arguments, to_our_names, to_tutorial_names


class Transformer(SecondNames, TransformerForSeq2SeqLM):
    """Source and target ids in, scores of the next target words out; id 0 is padding.

    Arguments after the number of heads may be positional where the orders of the two tutorials cannot be confused.

    >>> model = Transformer(100, 120, d_model=16, n_heads=2, n_layers=2, d_ff=32).eval()
    >>> model(torch.tensor([[5, 6, 7, 0]]), torch.tensor([[1, 8]])).shape
    torch.Size([1, 2, 120])
    """

    second_names = {
        "src_embedding": "encoder.embeddings.word_embeddings",
        "tgt_embedding": "decoder.embeddings.word_embeddings",
        "pos_encoding": ("encoder.embeddings.pos_encoding", "decoder.embeddings.pos_encoding"),
        "dropout": "encoder.embeddings.pos_encoding.dropout",
        "encoder_layers": "encoder.layer",
        "decoder_layers": "decoder.layer",
    }

    @names_positional_arguments
    def __init__(
        self,
        src_vocab_size: int | TransformerConfig,
        tgt_vocab_size: int | None = None,
        d_model: int = 512,
        n_heads: int | None = None,
        *,
        n_layers: int | None = None,
        d_ff: int = 2048,
        dropout: float = 0.1,
        max_len: int | None = None,
        num_heads: int | None = None,
        num_encoder_layers: int | None = None,
        num_decoder_layers: int | None = None,
        max_seq_len: int | None = None,
    ):
        if isinstance(src_vocab_size, TransformerConfig):
            if tgt_vocab_size is not None:
                raise ArgumentError("a config replaces all other arguments: pass it alone")
            config = src_vocab_size
        elif tgt_vocab_size is None:
            raise ArgumentError("Transformer takes the sizes of two vocabularies: src_vocab_size and tgt_vocab_size")
        else:
            config = TransformerConfig(
                vocab_size=tgt_vocab_size,
                source_vocab_size=src_vocab_size,
                hidden_size=d_model,
                num_attention_heads=resolve_alias("n_heads", n_heads, "num_heads", num_heads, 8),
                num_hidden_layers=resolve_alias("n_layers", n_layers, "num_encoder_layers", num_encoder_layers, 6),
                num_decoder_layers=resolve_alias("n_layers", n_layers, "num_decoder_layers", num_decoder_layers, 6),
                intermediate_size=d_ff,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=dropout,
                max_position_embeddings=resolve_alias("max_len", max_len, "max_seq_len", max_seq_len, 5000),
                share_embeddings=False,
                tie_word_embeddings=False,
                output_bias=True,
                pad_token_id=0,
            )
        super().__init__(config)
        self.encoder.ids_name, self.decoder.ids_name = "src", "tgt"

    @property
    def d_model(self) -> int:
        return self.config.hidden_size

    # -- the tutorials' weights --------------------------------------------------------------------------------

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load weights under our names, or under those of either tutorial's own `Transformer`."""
        return super().load_state_dict(to_our_names(self, state_dict), strict, assign)

    def tutorial_state_dict(self, attention: str = "W_q") -> dict[str, Tensor]:
        """The weights for a tutorial's own `Transformer`: the one whose attention has `W_q`, or the one with `W_Q`.

        >>> model = Transformer(9, 9, d_model=4, n_heads=2, n_layers=1, d_ff=8)
        >>> [name for name in model.tutorial_state_dict("W_Q") if name.endswith("W_Q.weight")][:2]
        ['encoder_layers.0.self_attn.W_Q.weight', 'decoder_layers.0.self_attn.W_Q.weight']
        """
        return to_tutorial_names(self, attention)

    # -- masks -------------------------------------------------------------------------------------------------

    def make_src_mask(self, src: Tensor) -> Tensor:
        """Which source words are real: B 1 1 S"""
        check_tensor(src, "src")
        return (src != self.padding)[:, None, None]

    def make_tgt_mask(self, tgt: Tensor) -> Tensor:
        """Which target words are visible to each: real ones that are not in its future: B 1 T T"""
        check_tensor(tgt, "tgt")
        past = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).tril()
        return (tgt != self.padding)[:, None, None] & past

    @property
    def padding(self) -> int:
        return self.config.pad_token_id or 0

    # -- from ids to scores ------------------------------------------------------------------------------------

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """B S -> B S C; padded positions are computed too, and masked."""
        return self.run_stack(self.encoder, src, self.make_src_mask(src) if src_mask is None else src_mask)

    @second_keywords(enc_output="encoder_output", memory="encoder_output")
    def decode(
        self, tgt: Tensor, encoder_output: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """B T, B S C -> B T C, the vectors that `fc_out` scores words with."""
        tgt_mask = self.make_tgt_mask(tgt) if tgt_mask is None else tgt_mask
        self.decoder.source_layout(encoder_output, None, len(tgt), keep_padding=True)  # a check
        return self.run_stack(self.decoder, tgt, encoder_output, src_mask, tgt_mask)

    def run_stack(self, stack: TransformerStack, ids: Tensor, *inputs: Tensor | None) -> Tensor:
        """Run embeddings and layers by direct calls, as the tutorials do: B T -> B T C."""
        stack.check_inputs(ids, None)
        layout = Layout.full(*ids.shape)
        stack.check_length(layout.length)
        rows, positions = layout.pack(ids), layout.columns(ids.device)
        stack.embeddings.check(rows, None, positions, layout, stack.ids_name)
        x = layout.unpack(stack.embeddings(rows, None, positions))
        for layer in stack.layer:
            if stack.gradient_checkpointing and stack.training:
                x = checkpoint(layer, x, *inputs, use_reentrant=False)
            else:
                x = layer(x, *inputs)
        return stack.finish(x)

    def forward(  # type: ignore[override]
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        *,
        output_attentions: bool = False,
    ) -> Tensor | Seq2SeqLMOutput:
        """B S, B T -> B T V. Masks default to the padding.

        With `output_attentions` the result is an object that holds the `logits` and the weights of all attentions.
        """
        if output_attentions:
            if src_mask is not None or tgt_mask is not None:
                raise InputError("output_attentions=True uses the padding as mask: pass no src_mask or tgt_mask")
            real = (src != self.padding, tgt != self.padding)
            return super().forward(src, real[0], tgt, real[1], output_attentions=True, return_dict=True)
        src_mask = self.make_src_mask(src) if src_mask is None else src_mask
        return self.fc_out(self.decode(tgt, self.encode(src, src_mask), src_mask, tgt_mask))
