"""The attention of "Attention Is All You Need" as the tutorials call it: (q, k, v, mask) in, (output, weights) out."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import ArgumentError, InputError
from .attention import SelfAttention, attend_explicitly, prune_attention
from .dropout import Dropout
from .feedforward import Project
from .mask import mask_to_bias
from .second_names import SecondNames, second_keywords
from .tensor_inputs import check_tensor

# The tutorials' names of the three inputs -> ours.
INPUTS = {"query": "q", "key": "k", "value": "v", "Q": "q", "K": "k", "V": "v"}


class ScaledDotProductAttention(nn.Module):
    """softmax(Q Kᵀ / sqrt(d_k)) V.

    >>> import torch
    >>> Q, K, V = torch.randn(2, 4, 3, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 6)
    >>> output, weights = ScaledDotProductAttention()(Q, K, V)
    >>> output.shape, weights.shape
    (torch.Size([2, 4, 3, 6]), torch.Size([2, 4, 3, 5]))
    """

    def __init__(self, dropout: float = 0.1):
        super().__init__()
        self.dropout = Dropout(dropout)

    @second_keywords(query="Q", key="K", value="V", q="Q", k="K", v="V")
    def forward(self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(... T d_v, ... T S); where `mask` is 0 the weight is 0, also if all keys of a query are masked."""
        visible = None if mask is None else (mask != 0)
        return attend_explicitly(
            Q,
            K,
            V,
            mask=None if visible is None else mask_to_bias(visible, Q.dtype),
            head_mask=None if visible is None else visible.to(Q.dtype),
            dropout=self.dropout.p if self.training else 0.0,
        )


class MultiHeadAttention(SecondNames):
    """Several heads of attention side by side, their outputs joined and projected.

    >>> import torch
    >>> x = torch.randn(2, 5, 16)
    >>> output, weights = MultiHeadAttention(16, num_heads=4)(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 16]), torch.Size([2, 4, 5, 5]))
    """

    second_names = {
        **dict.fromkeys(("W_q", "W_Q"), "self.query"),
        **dict.fromkeys(("W_k", "W_K"), "self.key"),
        **dict.fromkeys(("W_v", "W_V"), "self.value"),
        **dict.fromkeys(("W_o", "W_O"), "output.dense"),
        "dropout": ("self.dropout", "output.dropout"),
    }

    def __init__(self, d_model: int, num_heads: int | None = None, dropout: float = 0.1, *, n_heads: int | None = None):
        super().__init__()
        heads = resolve_alias("num_heads", num_heads, "n_heads", n_heads)
        self.self = SelfAttention(d_model, heads, dropout)
        self.output = Project(d_model, d_model, dropout)
        self.pruned_heads: set[int] = set()
        self.d_model = d_model
        self.d_k = self.self.attention_head_size

    @property
    def num_heads(self) -> int:
        return self.self.num_attention_heads

    n_heads = num_heads

    def prune_heads(self, heads: list[int] | set[int]) -> None:
        prune_attention(self, set(heads))

    @second_keywords(**INPUTS)
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(B T C, B H T S); `mask` is 0 where a key is masked: T S, B T S, or what broadcasts to B H T S."""
        inner = self.self
        self.check(q, k, v)
        Q, K, V = (self.split_heads(x) for x in (inner.query(q), inner.key(k), inner.value(v)))
        if mask is not None:
            mask = broadcastable_mask(mask, (len(q), inner.num_attention_heads, q.shape[1], k.shape[1]))
        context, weights = self.scaled_dot_product_attention(Q, K, V, mask)  # B H T D, B H T S
        return self.output(self.combine_heads(context)), weights

    @property
    def attention(self) -> ScaledDotProductAttention:
        """softmax(Q Kᵀ / sqrt(d_k)) V, with the dropout of this attention."""
        return ScaledDotProductAttention(self.self.dropout.p).train(self.training)

    def scaled_dot_product_attention(
        self, Q: Tensor, K: Tensor, V: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """(B H T D, B H T S)"""
        return self.attention(Q, K, V, mask)

    def check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        for name, x in (("q", q), ("k", k), ("v", v)):
            check_tensor(x, name)
            if x.dim() != 3 or x.shape[-1] != self.d_model:
                raise InputError(f"{name} must have the shape B T {self.d_model}, got {list(x.shape)}")
        if k.shape != v.shape or len(q) != len(k):
            shapes = ", ".join(str(list(x.shape)) for x in (q, k, v))
            raise InputError(f"q, k and v must be of one batch, k and v equally long, got {shapes}")

    def split_heads(self, x: Tensor) -> Tensor:
        """B T C -> B H T D"""
        return self.self.transpose_for_scores(x)

    def combine_heads(self, x: Tensor) -> Tensor:
        """B H T D -> B T C"""
        return x.transpose(1, 2).flatten(2)


def broadcastable_mask(mask: Tensor, shape: tuple[int, int, int, int]) -> Tensor:
    """A mask that broadcasts to the weights (B H T S) of all heads."""
    check_tensor(mask, "mask")
    spread = mask[:, None] if mask.dim() == 3 else mask
    sizes = (1,) * (4 - spread.dim()) + tuple(spread.shape)
    if len(sizes) != 4 or any(have not in (1, want) for have, want in zip(sizes, shape, strict=True)):
        raise InputError(f"mask must fit the weights {list(shape)}, got {list(mask.shape)}")
    return spread


def resolve_alias(name: str, value: int | None, other: str, second: int | None, default: int | None = None) -> int:
    """The value of an argument that has two names."""
    if value is not None and second is not None:
        raise ArgumentError(f"{name} and {other} are the same; give one of them, got {value} and {second}")
    found = value if value is not None else second if second is not None else default
    if found is None:
        raise ArgumentError(f"{name} is missing")
    return found
