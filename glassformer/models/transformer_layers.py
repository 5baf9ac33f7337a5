"""The layers of the 2017 Transformer, called as the tutorials call them or on the stream of real tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..errors import InputError
from ..nn.context import Context, ContextModule, Source
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project
from ..nn.layout import Layout
from ..nn.mask import mask_to_bias
from ..nn.multi_head import MultiHeadAttention, broadcastable_mask, resolve_alias
from ..nn.second_names import SecondNames, second_keywords
from ..nn.tensor_inputs import check_tensor


class ResidualAttention(MultiHeadAttention):
    """Multi-head attention with its residual sum and normalisation."""

    def __init__(self, d_model: int, num_heads: int, dropout: float, eps: float, norm_first: bool):
        super().__init__(d_model, num_heads, dropout)
        self.LayerNorm = nn.LayerNorm(d_model, eps=eps)
        self.norm_first = norm_first

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """In a layer (rows, context) -> rows; called directly as any `MultiHeadAttention`, without sum and norm."""
        if len(inputs) == 2 and isinstance(inputs[1], Context):
            return self.attend_and_add(*inputs)
        return super().forward(*inputs, **named)

    def attend_and_add(self, x: Tensor, context: Context) -> Tensor:
        """Rows attend to each other, or to the source of the context."""
        if self.norm_first:
            return x + self.output(self.self(self.LayerNorm(x), context))
        return self.LayerNorm(x + self.output(self.self(x, context)))


class FeedForwardParts(SecondNames, nn.Sequential):
    """The feed-forward of a layer: its four modules, one after the other."""

    second_names = {"fc1": "0", "relu": "1", "dropout": "2", "fc2": "3"}


class EncoderLayer(SecondNames, ContextModule):
    """Self-attention, then feed-forward.

    >>> import torch
    >>> EncoderLayer(16, 4, 32, 0.1)(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    has_cross_attention = False
    second_names = {
        "self_attn": "attention",
        "norm1": "attention.LayerNorm",
        "norm2": "LayerNorm",
        "ffn": "ff",
        "fc1": "intermediate.dense",
        "fc2": "output.dense",
    }

    def __init__(
        self,
        d_model: int,
        num_heads: int | None = None,
        d_ff: int = 2048,
        dropout: float = 0.1,
        *,
        n_heads: int | None = None,
        norm_first: bool = False,
        activation: str = "relu",
        attention_dropout: float | None = None,
        eps: float = 1e-5,
    ):
        super().__init__()
        heads = resolve_alias("num_heads", num_heads, "n_heads", n_heads)
        of_weights = dropout if attention_dropout is None else attention_dropout
        self.attention = ResidualAttention(d_model, heads, of_weights, eps, norm_first)
        if self.has_cross_attention:
            self.crossattention = ResidualAttention(d_model, heads, of_weights, eps, norm_first)
        for attention in (self.attention, *([self.crossattention] if self.has_cross_attention else [])):
            attention.output.dropout.p = dropout
        self.intermediate = Intermediate(d_model, d_ff, activation)
        self.dropout = Dropout(dropout)
        self.output = Project(d_ff, d_model, dropout)
        self.LayerNorm = nn.LayerNorm(d_model, eps=eps)
        self.norm_first = norm_first

    def forward(self, x: Tensor, context: Context) -> Tensor:
        x = self.attention(x, context)
        if context.cross is not None:
            x = self.crossattention(x, context.cross)
        if self.norm_first:
            return x + self.feed_forward(self.LayerNorm(x))
        return self.LayerNorm(x + self.feed_forward(x))

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.output(self.dropout(self.intermediate(x)))

    @property
    def ff(self) -> FeedForwardParts:
        """The feed-forward as one module, which shares the layer's parts."""
        widen = self.intermediate
        return FeedForwardParts(widen.dense, widen.intermediate_act_fn, self.dropout, self.output.dense)

    @second_keywords(src_mask="mask")
    def call_directly(self, x: Tensor, mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        """B T C with a mask that is 0 where a key is masked."""
        return self.run(x, Context(masked_layout(mask, x, x, self.attention.d_model)))


class DecoderLayer(EncoderLayer):
    """Self-attention, cross-attention to the encoder's output, then feed-forward.

    >>> layer = DecoderLayer(16, 4, 32, 0.1)
    >>> import torch
    >>> future = torch.ones(3, 3).tril()
    >>> layer(torch.randn(2, 3, 16), torch.randn(2, 5, 16), tgt_mask=future).shape
    torch.Size([2, 3, 16])
    """

    has_cross_attention = True
    second_names = {
        **EncoderLayer.second_names,
        "masked_self_attn": "attention",
        **dict.fromkeys(("enc_dec_attn", "cross_attn"), "crossattention"),
        "norm2": "crossattention.LayerNorm",
        "norm3": "LayerNorm",
    }

    @second_keywords(enc_output="memory", encoder_output="memory")
    def call_directly(  # type: ignore[override]
        self, x: Tensor, memory: Tensor, src_mask: Tensor | None = None, tgt_mask: Tensor | None = None
    ) -> Tensor:
        """B T C and B S C with masks that are 0 where a key is masked."""
        width = self.attention.d_model
        layout = masked_layout(tgt_mask, x, x, width)
        source = Source(memory, masked_layout(src_mask, x, memory, width))
        return self.run(x, Context(layout, cross=Context(layout, source)))


TransformerEncoderLayer = EncoderLayer
TransformerDecoderLayer = DecoderLayer


def masked_layout(mask: Tensor | None, queries: Tensor, keys: Tensor, width: int) -> Layout:
    """The layout of keys B S C with the mask of queries B T C."""
    for x in (queries, keys):
        check_tensor(x, "the input of a layer")
        if x.dim() != 3 or len(x) != len(queries) or x.shape[-1] != width:
            raise InputError(
                f"a layer takes B T {width}, got queries {list(queries.shape)} and keys {list(keys.shape)}"
            )
    if mask is None:
        return Layout.full(*keys.shape[:2])
    heads = mask.shape[1] if mask.dim() == 4 else 1
    mask = broadcastable_mask(mask, (len(queries), heads, queries.shape[1], keys.shape[1]))
    return Layout.full(*keys.shape[:2], mask=mask_to_bias(mask, keys.dtype))
