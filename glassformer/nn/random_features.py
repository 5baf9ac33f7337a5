"""The random features of linear attention as a part of a model: drawn, saved, redrawn in training, and attended with.

The next matrix follows from the present one: all processes of a training redraw the same, and a run that was resumed
goes on as if it had never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from .activation import make_activation
from .attention_weights import add_biases, run_heads, select_heads, slice_bias, slice_of, unpack_weights
from .dropout import drop
from .layout import Layout, paired_runs
from .linear_attention import Kernel, linear_attention

SOFTMAX_EPSILON = 1e-4  # of performer-pytorch
GENERALIZED_EPSILON = 1e-3

_steps: ContextVar[int | None] = ContextVar("training step that counts as one pass", default=None)


class RandomFeatures(nn.Module):
    """The projection of one attention: orthogonal random vectors of Gaussian lengths, M D.

    >>> features = RandomFeatures(16, nb_features=40)
    >>> features.projection_matrix.shape
    torch.Size([40, 16])
    """

    projection_matrix: Tensor  # M D

    def __init__(
        self,
        head_size: int,
        nb_features: int | None = None,
        generalized_attention: bool = False,
        kernel_fn: str = "relu",
        scale: float | None = None,
        epsilon: float | None = None,
        sum_epsilon: float = 0.0,
    ):
        """`scale` replaces 1 / sqrt(head_size); `epsilon` None is 0 for softmax, and that of performer-pytorch else."""
        super().__init__()
        self.kernel_fn = make_activation(kernel_fn) if generalized_attention else None
        self.scale = head_size**-0.5 if scale is None else scale
        self.epsilon = (GENERALIZED_EPSILON if generalized_attention else 0.0) if epsilon is None else epsilon
        self.sum_epsilon = sum_epsilon
        shape = (nb_features or default_count(head_size), head_size)
        self.register_buffer("projection_matrix", torch.empty(shape))
        self.fill()

    def fill(self) -> None:
        """Draw the matrix, again for a module that was built on the meta device and that no file filled."""
        if self.projection_matrix.is_meta and torch.empty(0).is_meta:
            return
        count, size = self.projection_matrix.shape
        self.projection_matrix = orthogonal_features(count, size)

    @torch.no_grad()
    def redraw(self) -> None:
        """Replace the matrix by the one that follows from it."""
        old = self.projection_matrix
        seed = int(old.double().cpu().flatten()[:1].view(torch.int64))
        generator = torch.Generator().manual_seed(seed & (2**63 - 1))
        self.projection_matrix.copy_(orthogonal_features(len(old), old.shape[1], generator))

    @property
    def kernel(self) -> Kernel:
        return Kernel(self.projection_matrix, self.scale, self.kernel_fn, self.epsilon, self.sum_epsilon)

    def keys(self, k: Tensor) -> Tensor:
        """Keys as a cache holds them, so that their features are computed once: ... D -> ... M."""
        return self.kernel.key_features(k)

    @property
    def key_width(self) -> int:
        """The columns of `keys`."""
        return self.kernel.key_width

    def attend(self, q: Tensor, k: Tensor, v: Tensor, layout: Layout, source: Layout, **how: Any) -> tuple:
        """`attend_linearly` with these features."""
        return attend_linearly(q, k, v, layout, source, self.kernel, **how)

    def weights(
        self,
        q: Tensor,
        k: Tensor,
        heads: Sequence[int],
        layout: Layout,
        source: Layout,
        bias: Tensor | None,
        columns: range,
    ) -> Tensor:
        """`linear_attention_weights` of some heads with these features."""
        q, k, bias = q[:, heads], k[:, heads], select_heads(bias, heads)
        return linear_attention_weights(q, k, layout, source, self.kernel, bias, columns)

    def extra_repr(self) -> str:
        return "features={}, head_size={}".format(*self.projection_matrix.shape)


def default_count(head_size: int) -> int:
    """D ln D features, enough for a constant error (Choromanski et al. 2020, theorem 4).

    >>> default_count(64)
    266
    """
    return max(1, int(head_size * math.log(head_size)))


def orthogonal_features(count: int, size: int, generator: torch.Generator | None = None) -> Tensor:
    """Gaussian vectors, orthogonal to each other in blocks of `size`: count size.

    >>> block = torch.nn.functional.normalize(orthogonal_features(4, 4))
    >>> torch.allclose(block @ block.T, torch.eye(4), atol=1e-5)
    True
    """
    directions = []
    for start in range(0, count, size):
        q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, device="cpu"))
        directions.append((q * r.diagonal().sign()).T[: count - start])  # the signs make all rotations equally likely
    lengths = torch.randn(count, size, generator=generator, device="cpu").norm(dim=1, keepdim=True)
    return torch.cat(directions) * lengths


class FeatureRedraw(nn.Module):
    """Redraws the features of a stack of layers in training, after every so many passes."""

    calls_since_last_redraw: Tensor

    def __init__(self, interval: int | None):
        super().__init__()
        self.interval = interval
        self.register_buffer("calls_since_last_redraw", torch.tensor(0))

    def fill(self) -> None:
        self.calls_since_last_redraw = torch.tensor(0, device="cpu")

    def before_pass(self, layers: nn.Module) -> None:
        """Count a pass of training, and redraw the features of all layers if it is due.

        Within `one_pass_per_step` the step was counted already.
        """
        if self.training and _steps.get() is None:
            self.count(layers)

    @torch.no_grad()
    def count(self, layers: nn.Module) -> None:
        if self.interval is not None and int(self.calls_since_last_redraw) >= self.interval:
            redraw_features(layers)
            self.calls_since_last_redraw.zero_()
        else:
            self.calls_since_last_redraw += 1


def redraw_features(module: nn.Module) -> None:
    """Redraw all random features in a module now."""
    for each in module.modules():
        if isinstance(each, RandomFeatures):
            each.redraw()


@contextmanager
def one_pass_per_step(model: nn.Module) -> Iterator[None]:
    """Passes inside are one training step: its micro-batches, on all ranks, see the same features."""
    for stack in list(model.modules()):
        redraw = getattr(stack, "feature_redraw", None)
        if isinstance(redraw, FeatureRedraw) and redraw.training:
            redraw.count(stack)
    before = _steps.set(1)
    try:
        yield
    finally:
        _steps.reset(before)


def attend_linearly(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: Layout,
    source: Layout,
    kernel: Kernel,
    *,
    bias: Tensor | None = None,
    head_mask: Tensor | None = None,
    dropout: float = 0.0,
    want_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """`attend` with the features of a kernel, in time and memory that grow linearly.

    `q` and `k` hold rows (N H D); of a cache, `k` holds features laid out (B H S M). Weights are computed, T S, only if
    they are requested, or if something is added to scores or multiplied with single weights. Dropout drops keys, the
    same ones for all queries of a pass: single weights are not there to be dropped.
    """
    if dropout:
        v = v * drop(v.new_ones(*v.shape[:-1], 1), dropout)
    per_position = head_mask is not None and max(head_mask.shape[-2:]) > 1
    explicit = want_weights or per_position or bias is not None or k.dim() == 4
    if not explicit and source.mask is not None and source.mask.shape[1:3] == (1, 1):
        y = attend_to_seen_keys(q, k, v, layout, source, kernel)  # B H T D
        y = y if head_mask is None else y * head_mask
        return layout.pack(y.transpose(1, 2)), None
    if explicit or source.mask is not None:
        weights = linear_attention_weights(q, k, layout, source, kernel, bias, range(layout.length))
        weights = weights if head_mask is None else weights * head_mask
        y = weights @ (v if v.dim() == 4 else source.heads(v)).to(weights.dtype)
        return layout.pack(y.transpose(1, 2)).to(q.dtype), weights.to(q.dtype) if want_weights else None

    causal = layout.causal and source is layout
    outputs = []
    for q_run, k_run in paired_runs(layout, source):
        y = linear_attention(run_heads(q, q_run), run_heads(k, k_run), run_heads(v, k_run), kernel, causal)
        y = y if head_mask is None else y * head_mask
        outputs.append(y.transpose(1, 2).reshape(q_run.count * q_run.length, *y.shape[1::2]))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs), None


def attend_to_seen_keys(q: Tensor, k: Tensor, v: Tensor, layout: Layout, source: Layout, kernel: Kernel) -> Tensor:
    """Sequence by sequence, with the keys that a mask of keys (B 1 1 S) shows."""
    q, k, v = layout.heads(q), source.heads(k), source.heads(v)
    seen = (source.mask == 0).expand(source.batch, 1, 1, -1)[:, 0, 0]
    rows = []
    for row in range(len(q)):
        here = slice(row, row + 1)
        rows.append(linear_attention(q[here], k[here, :, seen[row]], v[here, :, seen[row]], kernel))
    return torch.cat(rows)


def linear_attention_weights(
    q: Tensor,
    k: Tensor,
    layout: Layout,
    source: Layout,
    kernel: Kernel,
    bias: Tensor | None,
    columns: range,
) -> Tensor:
    """The weights that attention with features implies, for the queries in some columns of the batch: B H T S."""
    queries, keys = kernel.query_features(q), k if k.dim() == 4 else kernel.key_features(k)
    if source.mask is not None or keys.dim() == 4:
        keys = keys if keys.dim() == 4 else source.heads(keys)
        mask = add_biases(source.mask, bias)
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., slice_of(columns), :]
        return kernel.weights(layout.heads(queries)[:, :, slice_of(columns)], keys, mask)
    causal = layout.causal and source is layout
    weights_of_runs = []
    for q_run, k_run in paired_runs(layout, source):
        rows = range(max(columns.start - q_run.column, 0), min(columns.stop - q_run.column, q_run.length)) or range(0)
        mask = slice_bias(bias, q_run, k_run)
        if mask is not None and mask.shape[-2] > 1:
            mask = mask[..., slice_of(rows), :]
        some = run_heads(queries, q_run)[:, :, slice_of(rows)]
        weights = kernel.weights(some, run_heads(keys, k_run), mask, causal, rows.start)
        here = q_run._replace(column=q_run.column + rows.start - columns.start, length=len(rows))
        weights_of_runs.append((here, k_run, weights))
    return unpack_weights(weights_of_runs, layout, source, len(columns))
