"""Attention: one function for every architecture, fused or explicit; a test pins the two to each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import ConfigError, InputError
from .attention_patterns import Pattern, is_sparse
from .attention_weights import (
    AttentionInputs,
    ReplaceWeights,
    ScoreBias,
    add_biases,
    explicit_attention_weights,
    future_mask,
    run_heads,
    select_heads,
    slice_bias,
    unpack_weights,
)
from .cache import AttentionCache
from .context import Context, ContextModule
from .dropout import Dropout, drop
from .layout import Layout, is_faster_padded, paired_runs
from .linear import Linear
from .scoped_hooks import observe_attention, open_scopes
from .short_attention import attend_to_few, is_short
from .sparse_attention import attend_sparsely, sparse_attention_weights
from .tensor_inputs import check_ids

if TYPE_CHECKING:
    from .local_heads import LocalAndLinearHeads
    from .random_features import RandomFeatures


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    source: Layout | None = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
    score_bias: ScoreBias | None = None,
    head_mask: Tensor | None = None,
    dropout: float = 0.0,
    want_weights: bool = False,
    pattern: Pattern | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Let every query attend to the keys of its own sequence, or to those that a `pattern` lets it see.

    `q` holds the rows (N H D) of `layout`; `k` and `v` hold those of `source` (M H D; the same layout when None),
    or are laid out already (B H S D), as a cache keeps them. Returns N H D, and the weights (B H T S, zero where
    there is padding) if `want_weights`. A tensor `bias` (broadcast to B H T S, by the columns of the batch) is added to
    the scaled scores; a `score_bias` is computed from queries and keys and added before the scaling. The fused kernel
    does the work unless the weights are requested, heads are masked or scores are computed.
    """
    source = source or layout
    if pattern is not None and is_sparse(pattern, layout):
        if source is not layout or k.dim() == 4 or bias is not None or score_bias is not None:
            raise InputError("sparse attention is self-attention without a cache, a bias or scores of distances")
        y = attend_sparsely(q, k, v, layout, pattern, scale=scale, head_mask=head_mask, dropout=dropout)
        if not want_weights:
            return y, None
        weights = sparse_attention_weights(q, k, layout, pattern, scale)
        return y, weights if head_mask is None else weights * head_mask
    explicit = want_weights or head_mask is not None or score_bias is not None

    def block(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> tuple[Tensor, Tensor | None]:
        if explicit or (dropout and q.is_cpu):  # the CPU kernels have no dropout
            return attend_explicitly(q, k, v, mask, causal, scale, score_bias, head_mask, dropout)
        if mask is None and is_short(q, k):
            return attend_to_few(q, k, v, future_mask(k.shape[2], q) if causal else None, scale), None
        if causal and mask is not None:  # the kernel takes one or the other
            mask, causal = mask + future_mask(mask.shape[-1], mask), False
        fused = F.scaled_dot_product_attention
        return fused(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, scale=scale), None

    mask, padded = add_biases(source.mask, bias), k.dim() == 4
    if bias is not None and not padded and source.mask is None:
        mask = None  # every run gets its own part of the bias
    if mask is None and not padded and not explicit and is_faster_padded(layout, source):
        mask, padded = add_biases(source.padding_mask(q), bias), True
    if mask is not None or padded:
        k, v = (x if x.dim() == 4 else source.heads(x) for x in (k, v))
        y, weights = block(layout.heads(q), k, v, mask, False)
        return layout.pack(y.transpose(1, 2)), weights

    causal = layout.causal and source is layout
    outputs, weights_of_runs = [], []
    y = None if torch.is_grad_enabled() or len(layout.runs) == 1 else q.new_empty(*q.shape[:2], v.shape[2])  # N H D
    for q_run, k_run in paired_runs(layout, source):
        blocks = (run_heads(x, run) for x, run in ((q, q_run), (k, k_run), (v, k_run)))
        attended, weights = block(*blocks, slice_bias(bias, q_run, k_run), causal)
        if y is None:
            outputs.append(attended.transpose(1, 2).reshape(-1, *attended.shape[1::2]))
        else:
            run_heads(y, q_run).copy_(attended)
        weights_of_runs.append((q_run, k_run, weights))
    y = torch.cat(outputs) if y is None else y
    return y, unpack_weights(weights_of_runs, layout, source) if want_weights else None


def attend_explicitly(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
    score_bias: ScoreBias | None = None,
    head_mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """softmax(q kᵀ / sqrt(D)) v, step by step; `scale` replaces 1 / sqrt(D)."""
    weights = explicit_attention_weights(q, k, mask, causal, scale, score_bias)
    weights = drop(weights, dropout) if dropout else weights
    weights = weights if head_mask is None else weights * head_mask
    return weights @ v, weights  # B H T D


def head_size(hidden_size: int, num_attention_heads: int) -> int:
    """The width of one head, if all of them can be equally wide.

    >>> head_size(768, 12)
    64
    """
    if num_attention_heads < 1 or hidden_size < 1 or hidden_size % num_attention_heads:
        raise ConfigError(
            f"hidden_size must be a multiple of num_attention_heads, got {hidden_size} and {num_attention_heads}"
        )
    return hidden_size // num_attention_heads


class SelfAttention(ContextModule):
    """Queries, keys and values of all heads; self-attention, or cross-attention when the context has a source."""

    is_attention = True
    projections: tuple[str, ...] = ("query", "key", "value")  # linear layers whose outputs are heads
    heads: list[int] | None = None  # those that pruning left, numbered as in the unpruned model; None: all
    fused: Linear | None = None  # queries, keys and values in one product, where weights are prepared: see prepared.py

    def __init__(
        self,
        hidden_size: int,
        num_attention_heads: int,
        dropout: float,
        position_embedding_type: str = "absolute",
        max_position_embeddings: int = 0,
        scale: float | None = None,
        head_width: int | None = None,
        bias: bool = True,
        features: RandomFeatures | None = None,
    ):
        """Heads divide the hidden size among them unless `head_width` says how wide each is. With random `features`
        the cost of attention grows linearly."""
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = head_width or head_size(hidden_size, num_attention_heads)
        self.all_head_size = num_attention_heads * self.attention_head_size
        self.query = Linear(hidden_size, self.all_head_size, bias=bias)
        self.key = Linear(hidden_size, self.all_head_size, bias=bias)
        self.value = Linear(hidden_size, self.all_head_size, bias=bias)
        self.dropout = Dropout(dropout)
        self.scale = scale  # None: 1 / sqrt(attention_head_size)
        self.features = features
        self.position_embedding_type = position_embedding_type
        if position_embedding_type != "absolute":
            self.max_position_embeddings = max_position_embeddings
            self.distance_embedding = nn.Embedding(2 * max_position_embeddings - 1, self.attention_head_size)

    def forward(self, x: Tensor, context: Context) -> Tensor:
        """N C -> N C (or B T C when called directly)."""
        layout, source = context.layout, context.source
        score_bias = self.score_bias(context)  # first: it may use the projections too, and hooks keep the last call
        if source is None:
            kv_layout = layout
            if self.fused is not None:
                shape = (-1, 3, self.num_attention_heads, self.attention_head_size)
                q, k, v = self.fused(x).reshape(shape).unbind(1)  # N H D
            else:
                q = self.split_heads(self.query(x))  # N H D
                k, v = self.split_heads(self.key(x)), self.split_heads(self.value(x))
            q, k = self.at_positions(q, k, context)
            if context.cache is not None:
                k, v = self.behind_past(k, v, context.cache, layout)  # B H S D
        else:
            kv_layout = source.layout
            q = self.split_heads(self.query(x))  # N H D
            k, v = self.source_keys_and_values(source.rows, kv_layout, context.cache)
        bias, pattern = select_heads(context.bias, self.heads), self.pattern(context)
        if open_scopes.get():
            head_mask = context.head_mask
            seen = (q, k, v, layout, kv_layout, self.scale, bias, score_bias, head_mask, pattern, self.linear_attention)
            observe_attention(self, AttentionInputs(*seen, self.replace_weights(x, context)))
        how = {
            "bias": bias,
            "head_mask": context.head_mask,
            "dropout": self.dropout.p if self.training else 0.0,
            "want_weights": context.output_attentions,
        }
        linear = self.linear_attention
        if linear is None:
            own = {"scale": self.scale, "score_bias": score_bias, "pattern": pattern}
            y, context.weights = attend(q, k, v, layout, kv_layout, **own, **how)
        else:
            y, context.weights = linear.attend(q, k, v, layout, kv_layout, **how)
        if context.use_cache:
            kept = k if k.dim() == 4 or linear is None else linear.keys(k)
            context.keys_and_values = tuple(each if each.dim() == 4 else kv_layout.heads(each) for each in (kept, v))
        return y.reshape(*x.shape[:-1], self.all_head_size)

    def behind_past(self, k: Tensor, v: Tensor, cache: AttentionCache | tuple, layout: Layout) -> tuple[Tensor, Tensor]:
        """`append_to_cache`; linear attention keeps the features of keys, and returns the keys without a past."""
        if self.linear_attention is None:
            return append_to_cache(cache, k, v, layout)
        features, values = append_to_cache(cache, self.linear_attention.keys(k), v, layout)
        return (features, values) if values.dim() == 4 else (k, v)

    def at_positions(self, q: Tensor, k: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Queries and keys, where the architecture turns them by their positions."""
        return q, k

    @property
    def linear_attention(self) -> RandomFeatures | LocalAndLinearHeads | None:
        """What attends in place of softmax."""
        return self.features

    @property
    def key_width(self) -> int:
        """The last dimension of keys in a cache."""
        return self.attention_head_size if self.linear_attention is None else self.linear_attention.key_width

    def score_bias(self, context: Context) -> ScoreBias | None:
        """What scores have besides the products of queries and keys, where the architecture adds something."""
        return None if self.position_embedding_type == "absolute" else self.relative_score_bias(context.layout)

    def pattern(self, context: Context) -> Pattern | None:
        """Which keys a query sees, where the architecture lets it see some of them only."""
        return None

    def replace_weights(self, x: Tensor, context: Context) -> ReplaceWeights | None:
        """What an observer applies to the weights, where the architecture computes those of some queries otherwise."""
        return None

    def split_heads(self, x: Tensor) -> Tensor:
        """... C -> N H D"""
        return x.reshape(-1, self.num_attention_heads, self.attention_head_size)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        """B T C -> B H T D"""
        return x.unflatten(-1, (self.num_attention_heads, self.attention_head_size)).transpose(1, 2)

    def source_keys_and_values(
        self, rows: Tensor | None, source: Layout, cache: AttentionCache | tuple | None
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of the source (M H D), or those that a cache holds (B H S D): the source does not change."""
        if isinstance(cache, tuple):
            return cache
        if cache is not None and cache.keys is not None:
            return cache.keys, cache.values
        k, v = self.split_heads(self.key(rows)), self.split_heads(self.value(rows))  # M H D
        if cache is not None:
            cache.keys, cache.values = source.heads(k).contiguous(), source.heads(v).contiguous()
        return k, v

    def relative_score_bias(self, layout: Layout) -> ScoreBias:
        """Scores from the distance between two positions (Shaw et al. 2018, Huang et al. 2020)."""

        def relative_scores(q: Tensor, k: Tensor) -> Tensor:
            keys = k.shape[-2]
            if layout.distance is None and keys > self.max_position_embeddings:
                raise InputError(
                    f"{keys} positions are more than max_position_embeddings {self.max_position_embeddings}"
                )
            distance = layout.distances(q.shape[-2], keys, q.device)  # B T S
            embedding = self.distance_embedding(distance + self.max_position_embeddings - 1).to(q.dtype)
            embedding = embedding.expand(q.shape[0], -1, -1, -1)  # B T S D
            scores = torch.einsum("bhtd,btsd->bhts", q, embedding)
            if self.position_embedding_type == "relative_key_query":
                scores = scores + torch.einsum("bhsd,btsd->bhts", k, embedding)
            return scores

        return relative_scores


def append_to_cache(cache: AttentionCache | tuple, k: Tensor, v: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
    """Keys and values of the new rows (N H D) behind those of the past: B H S D, or N H D without a past."""
    if isinstance(cache, AttentionCache):
        past_and_new = cache.add(layout.heads(k), layout.heads(v))
        return past_and_new if cache.cache.length else (k, v)
    return torch.cat((cache[0], layout.heads(k)), dim=2), torch.cat((cache[1], layout.heads(v)), dim=2)


def heads_to_keep(attention: nn.Module, heads: set[int]) -> list[int]:
    """Indices of the remaining heads to keep when `heads`, numbered as in the unpruned model, are pruned."""
    total = attention.self.num_attention_heads + len(attention.pruned_heads)
    wrong = sorted(head for head in heads if not 0 <= head < total)
    if wrong:
        raise InputError(f"there are heads 0 to {total - 1}, got {wrong}")
    present = [head for head in range(total) if head not in attention.pruned_heads]
    keep = [index for index, head in enumerate(present) if head not in heads]
    if not keep:
        raise InputError(f"pruning {sorted(heads)} would leave a layer without a head; keep at least one")
    return keep


def prune_attention(attention: nn.Module, heads: set[int]) -> None:
    """Remove `heads` from `attention.self` and `attention.output.dense` permanently."""
    inner, outer = attention.self, attention.output
    keep = heads_to_keep(attention, heads)
    if len(keep) == inner.num_attention_heads:
        return
    size = inner.attention_head_size
    index = torch.tensor([head * size + i for head in keep for i in range(size)], device=inner.query.weight.device)
    for name in inner.projections:
        setattr(inner, name, prune_linear_layer(getattr(inner, name), index))
    outer.dense = prune_linear_layer(outer.dense, index, dim=1)
    present = inner.heads or range(inner.num_attention_heads)
    inner.heads = [present[slot] for slot in keep]
    inner.num_attention_heads = len(keep)
    inner.all_head_size = len(keep) * size
    attention.pruned_heads = attention.pruned_heads | heads


def prune_linear_layer(layer: nn.Linear, index: Tensor, dim: int = 0) -> nn.Linear:
    """A smaller linear layer that keeps the outputs (dim 0) or inputs (dim 1) at `index`.

    >>> prune_linear_layer(nn.Linear(4, 3), torch.tensor([0, 2]))
    Linear(in_features=4, out_features=2, bias=True)
    """
    if dim not in (0, 1):
        raise InputError(f"dim must be 0 (outputs) or 1 (inputs), got {dim!r}")
    if not index.numel():
        raise InputError("index must name at least one feature to keep, got none")
    if not index.is_meta:  # as in a model that a load is about to fill
        check_ids(index, layer.weight.shape[dim], "index: feature")
    index = index.to(layer.weight.device)
    weight = layer.weight.detach().index_select(dim, index)
    smaller = Linear(weight.shape[1], weight.shape[0], bias=layer.bias is not None, device="meta")
    smaller.weight = nn.Parameter(weight, requires_grad=layer.weight.requires_grad)
    if layer.bias is not None:
        bias = layer.bias.detach()
        smaller.bias = nn.Parameter(
            bias.index_select(0, index) if dim == 0 else bias.clone(), requires_grad=layer.bias.requires_grad
        )
    return smaller.train(layer.training)
