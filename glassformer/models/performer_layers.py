"""The layers of a Performer: heads with random features, local heads, and the ways to add and normalise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ..nn.activation import make_activation
from ..nn.attention import SelfAttention, prune_attention
from ..nn.context import Context, ContextModule
from ..nn.dropout import Dropout
from ..nn.feedforward import Project
from ..nn.linear import Linear
from ..nn.local_heads import LocalAndLinearHeads
from ..nn.norm import ReZero, ScaleNorm
from ..nn.position import fixed_positions, rotate_halves, rotate_pairs
from ..nn.random_features import SOFTMAX_EPSILON, FeatureRedraw, RandomFeatures
from .base.body import LayerStack

if TYPE_CHECKING:
    from .performer import PerformerConfig


class PerformerEncoder(LayerStack):
    """The stack of layers; a reversible one carries two streams, which are added at its end."""

    rotary_positions: Tensor  # T D

    def __init__(self, config: PerformerConfig):
        super().__init__([PerformerLayer(config, local) for local in config.local_heads])
        self.reversible = config.reversible
        self.feature_redraw = FeatureRedraw(config.feature_redraw_interval)
        self.LayerNorm = nn.LayerNorm(config.hidden_size) if config.final_norm else None
        if config.rotary_position_emb:
            shape = (config.max_position_embeddings, config.attention_head_size)
            self.register_buffer("rotary_positions", torch.empty(shape))
            self.fill()

    def fill(self) -> None:
        """Compute the table, again for a module that was built on the meta device."""
        if "rotary_positions" in self._buffers:
            device = next(self.parameters()).device
            self.rotary_positions = fixed_positions(*self.rotary_positions.shape, device=device)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if "rotary_positions" in self._buffers:
            places = context.positions
            context.extras = self.rotary_positions[context.layout.columns(x.device) if places is None else places]
        if not self.reversible:
            return super().forward(x, context)
        x = super().forward(torch.cat((x, x), -1), context)
        if context.hidden_states is not None:
            first, *others, last = context.hidden_states
            both = [torch.add(*each.chunk(2, -1)) for each in others]
            context.hidden_states = [first.chunk(2, -1)[0], *both, last]
        return x

    def finish(self, x: Tensor) -> Tensor:
        x = torch.add(*x.chunk(2, -1)) if self.reversible else x
        return x if self.LayerNorm is None else self.LayerNorm(x)


class PerformerLayer(ContextModule):
    """Attention, then feed-forward; each normalises its input and adds to the residual ("pre-norm")."""

    def __init__(self, config: PerformerConfig, local_heads: int):
        super().__init__()
        self.reversible, self.ff_chunks = config.reversible, config.ff_chunks
        self.attention = PerformerAttention(config, local_heads)
        self.intermediate = PerformerIntermediate(config)
        self.output = PerformerOutput(config)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        if self.reversible:  # each stream is computed from the other one alone (Gomez et al. 2017)
            one, other = x.chunk(2, -1)
            one = one + self.attention(other, context)
            return torch.cat((one, other + self.feed_forward(one)), -1)
        x = x + self.attention(x, context)
        return x + self.feed_forward(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        parts = [self.output(self.intermediate(self.output.before(part))) for part in x.chunk(self.ff_chunks, -2)]
        return self.output.after(parts[0] if len(parts) == 1 else torch.cat(parts, -2))


class Residual(nn.Module):
    """What happens around a part whose result is added to the residual: norms before it, or a small factor behind."""

    def __init__(self, config: PerformerConfig):
        super().__init__()
        if config.use_scalenorm:
            self.norm = ScaleNorm()
        else:
            self.norm = ReZero() if config.use_rezero else nn.LayerNorm(config.hidden_size)

    def before(self, x: Tensor) -> Tensor:
        return x if isinstance(self.norm, ReZero) else self.norm(x)

    def after(self, x: Tensor) -> Tensor:
        return self.norm(x) if isinstance(self.norm, ReZero) else x


class PerformerAttention(Residual, ContextModule):
    """Normalise, attend, project; heads can be cut out of it."""

    is_attention = True

    def __init__(self, config: PerformerConfig, local_heads: int):
        super().__init__(config)
        self.self = PerformerSelfAttention(config, local_heads)
        dropout = config.attention_dropout_prob
        self.output = Project(self.self.all_head_size, config.hidden_size, dropout, bias=config.attn_out_bias)
        self.pruned_heads: set[int] = set()

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    def forward(self, x: Tensor, context: Context) -> Tensor:
        return self.after(self.output(self.self(self.before(x), context)))


class PerformerSelfAttention(SelfAttention):
    """Queries, keys and values of all heads; the last of them can be local."""

    frequencies: Tensor  # D / 2: of the angles by which local heads turn

    def __init__(self, config: PerformerConfig, local_heads: int):
        size, count = config.attention_head_size, config.num_attention_heads
        epsilon = None if config.generalized_attention else SOFTMAX_EPSILON
        features = RandomFeatures(
            size, config.nb_features, config.generalized_attention, config.kernel_fn, None, epsilon
        )
        if config.is_decoder:  # the library's factor of all features is left out here
            features.sum_epsilon = 1e-6 * (
                1 if config.generalized_attention else len(features.projection_matrix) ** 0.5
            )
        dropout = config.attention_dropout_prob if local_heads else 0.0
        super().__init__(config.hidden_size, count, dropout, head_width=size, bias=config.qkv_bias, features=features)
        self.is_decoder, self.window = config.is_decoder, config.local_window_size
        self.shift_local_queries = config.shift_local_queries and not config.is_decoder
        self.has_rotary_positions = config.rotary_position_emb
        self.first_local, self.unpruned = count - local_heads, count
        if local_heads:
            self.register_buffer("frequencies", torch.empty(size // 2))
            self.fill()

    def fill(self) -> None:
        """Compute the angles, again for a module that was built on the meta device."""
        if "frequencies" in self._buffers:
            size = self.attention_head_size
            self.frequencies = 1 / 10000 ** (torch.arange(0, size, 2, device=self.query.weight.device).float() / size)

    @property
    def global_heads(self) -> int:
        """How many of the heads that are left have random features; the others, behind them, are local."""
        return sum(head < self.first_local for head in (self.heads or range(self.unpruned)))

    @property
    def linear_attention(self) -> RandomFeatures | LocalAndLinearHeads:
        if self.first_local == self.unpruned:
            return self.features
        return LocalAndLinearHeads(self.features, self.global_heads, self.window, self.attention_head_size)

    def at_positions(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        first, parts = self.global_heads, []
        places = context.layout.columns(q.device) if context.positions is None else context.positions
        if self.has_rotary_positions:
            table = context.extras
            if table is None:  # in a direct call
                table = fixed_positions(int(places.max()) + 1, self.attention_head_size, device=q.device)[places]
            parts = [rotate_pairs(x[:, :first], table.to(x.dtype)) for x in (q, k)]
        else:
            parts = [q[:, :first], k[:, :first]]
        if first == q.shape[1]:
            return parts[0], parts[1]
        shifts = (self.window if self.shift_local_queries else 0, 0)
        turned = [
            rotate_halves(x[:, first:], (places + shift).double()[:, None] * self.frequencies.double())
            for x, shift in zip((q, k), shifts, strict=True)
        ]
        return torch.cat((parts[0], turned[0]), 1), torch.cat((parts[1], turned[1]), 1)


class PerformerIntermediate(nn.Module):
    """The first half of the feed-forward: widen and activate, or activate one half as the gate of the other."""

    def __init__(self, config: PerformerConfig):
        super().__init__()
        self.gated = config.ff_glu
        self.dense = Linear(config.hidden_size, config.intermediate_size * (2 if config.ff_glu else 1))
        self.intermediate_act_fn = make_activation(config.hidden_act)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dense(x)
        if self.gated:
            x, gated = x.chunk(2, -1)
            return self.dropout(self.intermediate_act_fn(x) * gated)
        return self.dropout(self.intermediate_act_fn(x))


class PerformerOutput(Residual):
    """The second half, with the norm of both."""

    def __init__(self, config: PerformerConfig):
        super().__init__(config)
        self.dense = Linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        return self.dense(x)
