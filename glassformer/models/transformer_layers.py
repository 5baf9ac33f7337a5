"""The layers of the 2017 Transformer, called as the tutorials call them or on the stream of real tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from torch import Tensor, nn

from ..errors import InputError
from ..nn import bare
from ..nn.cache import LayerCache, Room
from ..nn.dropout import Dropout
from ..nn.feedforward import Intermediate, Project
from ..nn.mask import check_tensor, hide
from ..nn.multi_head import MultiHeadAttention, either, per_head
from ..nn.layout import Layout


@dataclass
class Seen:
    """What layers note while somebody looks."""

    attentions: list[Tensor] = field(default_factory=list)  # each B H T S
    cross_attentions: list[Tensor] = field(default_factory=list)


def add_norm(x: Tensor, part: Callable[[Tensor], Tensor], norm: nn.Module, norm_first: bool) -> Tensor:
    """Add what a part makes of x to x, and normalise afterwards ("post-norm", the paper) or before ("pre-norm")."""
    return x + part(norm(x)) if norm_first else norm(x + part(x))


class ResidualAttention(MultiHeadAttention):
    """Multi-head attention with its residual sum and normalisation."""

    def __init__(self, d_model: int, num_heads: int, dropout: float, eps: float, norm_first: bool):
        super().__init__(d_model, num_heads, dropout)
        self.LayerNorm = nn.LayerNorm(d_model, eps=eps)
        self.norm_first = norm_first

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        layout: Layout,
        memory: Tensor | None = None,
        source: Layout | None = None,
        past: Room | None = None,
        head_mask: Tensor | None = None,
        seen: list[Tensor] | None = None,
    ) -> Tensor:
        """Rows of `layout` look at each other, or at the rows `memory` of `source`; weights are put into `seen`."""

        def attend(x: Tensor) -> Tensor:
            context, *weights = self.self(
                x,
                head_mask=head_mask,
                encoder_hidden_states=memory,
                past_key_value=past,
                output_attentions=seen is not None,
                layout=layout,
                source=source,
            )
            if seen is not None:
                seen.extend(weights)
            return self.output(context)

        return add_norm(x, attend, self.LayerNorm, self.norm_first)

    def bare(self, copies: bare.Copies, crosses: bool = False) -> bare.Step:
        """`forward` for one token of every continuation, without its modules."""
        attend = (bare.crossing if crosses else bare.attention)(self.self, copies)
        project, normalise, first = bare.linear(self.output.dense, copies), bare.norm(self.LayerNorm), self.norm_first

        def step(x: Tensor, room: Room, mask: Tensor | None, batch: int) -> Tensor:
            return add_norm(x, lambda x: project(attend(x, room, mask, batch)), normalise, first)

        return step


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward.

    >>> import torch
    >>> EncoderLayer(16, 4, 32, 0.1)(torch.randn(2, 5, 16)).shape
    torch.Size([2, 5, 16])
    """

    crosses = False

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
        heads = either("num_heads", num_heads, "n_heads", n_heads)
        of_weights = dropout if attention_dropout is None else attention_dropout
        self.attention = ResidualAttention(d_model, heads, of_weights, eps, norm_first)
        if self.crosses:
            self.crossattention = ResidualAttention(d_model, heads, of_weights, eps, norm_first)
        for attention in (self.attention, *([self.crossattention] if self.crosses else [])):
            attention.output.dropout.p = dropout
        self.intermediate = Intermediate(d_model, d_ff, activation)
        self.dropout = Dropout(dropout)
        self.output = Project(d_ff, d_model, dropout)
        self.LayerNorm = nn.LayerNorm(d_model, eps=eps)
        self.norm_first = norm_first

    def feed_forward(self, x: Tensor) -> Tensor:
        def widen_and_narrow(x: Tensor) -> Tensor:
            return self.output(self.dropout(self.intermediate(x)))

        return add_norm(x, widen_and_narrow, self.LayerNorm, self.norm_first)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        *,
        layout: Layout | None = None,
        head_mask: Tensor | None = None,
        seen: Seen | None = None,
    ) -> Tensor:
        """B T C with a mask that is 0 where a key is hidden, or rows N C of a layout."""
        layout = layout or seen_through(mask, x, x, self.attention.d_model)
        x = self.attention(x, layout, head_mask=head_mask, seen=seen and seen.attentions)
        return self.feed_forward(x)


class DecoderLayer(EncoderLayer):
    """Self-attention, attention to what the encoder read, then feed-forward.

    >>> layer = DecoderLayer(16, 4, 32, 0.1)
    >>> import torch
    >>> future = torch.ones(3, 3).tril()
    >>> layer(torch.randn(2, 3, 16), torch.randn(2, 5, 16), tgt_mask=future).shape
    torch.Size([2, 3, 16])
    """

    crosses = True

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        memory: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        *,
        layout: Layout | None = None,
        source: Layout | None = None,
        past: LayerCache | None = None,
        head_mask: Tensor | None = None,
        cross_head_mask: Tensor | None = None,
        seen: Seen | None = None,
    ) -> Tensor:
        """B T C and B S C with masks that are 0 where a key is hidden, or rows N C and M C of two layouts."""
        width = self.attention.d_model
        layout = layout or seen_through(tgt_mask, x, x, width)
        source = source or seen_through(src_mask, x, memory, width)
        own, crossed = (None, None) if past is None else (past.own, past.crossed)
        x = self.attention(x, layout, past=own, head_mask=head_mask, seen=seen and seen.attentions)
        x = self.crossattention(
            x, layout, memory, source, crossed, head_mask=cross_head_mask, seen=seen and seen.cross_attentions
        )
        return self.feed_forward(x)

    def bare(self, copies: bare.Copies) -> Callable[..., Tensor]:
        """`forward` for one token of every continuation, without its modules."""
        attend, cross = self.attention.bare(copies), self.crossattention.bare(copies, crosses=True)
        widen, narrow = bare.linear(self.intermediate.dense, copies), bare.linear(self.output.dense, copies)
        activate, normalise = bare.activation(self.intermediate.intermediate_act_fn), bare.norm(self.LayerNorm)

        def step(x: Tensor, kept: LayerCache, mask: Tensor | None, source_mask: Tensor | None, batch: int) -> Tensor:
            x = cross(attend(x, kept.own, mask, batch), kept.crossed, source_mask, batch)
            return add_norm(x, lambda x: narrow(activate(widen(x))), normalise, self.norm_first)

        return step


TransformerEncoderLayer = EncoderLayer
TransformerDecoderLayer = DecoderLayer


def seen_through(mask: Tensor | None, queries: Tensor, keys: Tensor, width: int) -> Layout:
    """The layout of keys B S C, when queries B T C look at them through a mask."""
    for x in (queries, keys):
        check_tensor(x, "what a layer reads")
        if x.dim() != 3 or len(x) != len(queries) or x.shape[-1] != width:
            raise InputError(f"a layer reads B T {width}, got {list(queries.shape)} and beside it {list(keys.shape)}")
    if mask is None:
        return Layout.full(*keys.shape[:2])
    heads = mask.shape[1] if mask.dim() == 4 else 1
    shown = per_head(mask, (len(queries), heads, queries.shape[1], keys.shape[1])) != 0
    return Layout.full(*keys.shape[:2], mask=hide(~shown, keys.dtype))
