"""Attention whose cost grows linearly with the text: positive random features (FAVOR+, Choromanski et al. 2020).

exp(q·k) is the mean of exp(w·q - |q|²/2) exp(w·k - |k|²/2) over random vectors w. With M of them, weights are products
of features, and the sum over all keys is a matrix of features and values, M D, computed once: no query meets a key.

Features of the softmax kernel span many orders of magnitude. They are computed as exponents, from which the largest is
taken before exp(); it cancels where the weights of a query are divided by their sum. Texts are read in chunks, forward
and backward: nothing but queries, keys and values is kept for the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK = 256  # positions whose features are in memory at once
CAUSAL_CHUNK = 128  # positions that meet each other directly, before they are summed up for later ones


class Kernel(NamedTuple):
    """How queries and keys become features: exp(), or an activation of their products with the projection."""

    projection: Tensor  # M D
    scale: float  # of scores: sqrt(scale) is that of queries and of keys
    activation: Callable[[Tensor], Tensor] | None = None  # None: the features of softmax
    epsilon: float = 0.0  # added to every feature
    sum_epsilon: float = 0.0  # added, for each feature of the query, to the sum of a causal text

    @property
    def is_softmax(self) -> bool:
        return self.activation is None

    @property
    def key_width(self) -> int:
        """The columns of `key_features`."""
        return len(self.projection) + (self.is_softmax and (2 if self.epsilon else 1))

    def products(self, x: Tensor) -> Tensor:
        """... D -> ... M"""
        return (x * self.scale**0.5) @ self.projection.to(x.dtype).T

    def half_squares(self, x: Tensor) -> Tensor:
        """What the exponents of softmax lack beside the products: ... 1"""
        return x.square().sum(-1, keepdim=True) * (self.scale / 2)

    def exponents_backward(self, x: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of x from that of products less half of the square (of products alone, without softmax)."""
        back = gradient @ self.projection.to(x.dtype) * self.scale**0.5
        return back.sub_(x * gradient.sum(-1, keepdim=True) * self.scale) if self.is_softmax else back

    def query_features(self, q: Tensor) -> Tensor:
        """... D -> ... M; in the softmax kernel each query has a factor of its own."""
        q = computed(q)
        products = self.products(q)
        if self.activation is not None:
            return self.activation(products) + self.epsilon
        if not self.epsilon:
            return products.softmax(-1)
        return (products - products.amax(-1, keepdim=True).detach() - self.half_squares(q)).exp() + self.epsilon

    def key_features(self, k: Tensor) -> Tensor:
        """... D -> ... M. Those of softmax are without a factor whose exponent stands beside them, before the largest
        product if an epsilon is relative to it: ... M + 1 or 2"""
        k = computed(k)
        products = self.products(k)
        if self.activation is not None:
            return self.activation(products) + self.epsilon
        largest = products.amax(-1, keepdim=True)
        columns = ((products - largest).exp(), largest - self.half_squares(k), largest)
        return torch.cat(columns if self.epsilon else columns[:2], -1)

    def weights(
        self, queries: Tensor, keys: Tensor, mask: Tensor | None = None, causal: bool = False, first: int = 0
    ) -> Tensor:
        """The weights that attention with these features implies, from both: B H T S.

        An additive `mask` multiplies with its exp(). If `causal`, the queries are those from place `first` on.
        """
        hidden = None
        if causal:
            hidden = torch.ones(queries.shape[-2], keys.shape[-2], dtype=torch.bool, device=keys.device).triu(1 + first)
        if mask is not None:
            mask = mask.to(queries.dtype)
        width = len(self.projection)
        features, exponents, largest = keys[..., :width], keys[..., width : width + 1], keys[..., width + 1 :]
        if self.is_softmax and self.epsilon:
            shown = largest.mT if mask is None else (largest.mT + mask).amax(-2, keepdim=True)  # B H 1 S
            features = features * (exponents - shown.amax(-1, keepdim=True).detach()).exp() + self.epsilon
        weights = queries @ features.mT
        if self.is_softmax and not self.epsilon:
            scores = exponents.mT if mask is None else exponents.mT + mask
            scores = scores if hidden is None else scores.masked_fill(hidden, float("-inf"))
            weights = weights * (scores - scores.amax(-1, keepdim=True).detach()).exp()
        elif mask is not None:
            weights = weights * mask.exp()
        if hidden is not None:
            weights = weights.masked_fill(hidden, 0.0)
        total = weights.sum(-1, keepdim=True)
        if self.sum_epsilon:
            total = total + self.sum_epsilon * queries.sum(-1, keepdim=True)
        return weights / nonzero(total)


def linear_attention(q: Tensor, k: Tensor, v: Tensor, kernel: Kernel, causal: bool = False) -> Tensor:
    """Every query with all keys, or with those up to its own place: B H T D, B H S D -> B H T D."""
    function = CausalLinearAttention if causal else LinearAttention
    return function.apply(q, k, v, kernel)


def computed(x: Tensor) -> Tensor:
    """In float32 at least: sums over a text need it."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def nonzero(total: Tensor) -> Tensor:
    """1 in place of 0, where a query sees nothing."""
    return total.masked_fill(total == 0, 1.0)


def chunks(length: int, size: int) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def with_ones(v: Tensor) -> Tensor:
    """A column of ones behind the values: what it sums to is the sum of the weights."""
    return torch.cat((v, v.new_ones(*v.shape[:-1], 1)), -1)


class KeyChunk(NamedTuple):
    """The features of some keys."""

    features: Tensor  # B H S M, without a factor exp(exponent) for each key
    exponent: Tensor | None  # B H S 1, in the softmax kernel
    activate: Callable[[Tensor], Tensor]  # gradient of the features -> that of the exponents


def key_chunk(kernel: Kernel, k: Tensor, largest: Tensor | None = None) -> KeyChunk:
    """Features of softmax are relative to the `largest` product of the text if given, else each key to its own."""
    products = kernel.products(k)
    if kernel.activation is not None:
        return KeyChunk(kernel.activation(products) + kernel.epsilon, None, activation_gradient(kernel, products))
    if largest is not None:
        features = products.sub_(kernel.half_squares(k) + largest).exp_()
        return KeyChunk(features + kernel.epsilon, None, features.mul)
    own = products.amax(-1, keepdim=True)
    features = products.sub_(own).exp_()
    return KeyChunk(features, own - kernel.half_squares(k), features.mul)


def query_chunk(kernel: Kernel, q: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The features of some queries, and their gradient's way back to the exponents."""
    products = kernel.products(q)
    if kernel.activation is not None:
        return kernel.activation(products) + kernel.epsilon, activation_gradient(kernel, products)
    if not kernel.epsilon:
        features = products.softmax(-1)
        return features, features.mul
    features = products.sub_(kernel.half_squares(q) + products.amax(-1, keepdim=True)).exp_()
    return features + kernel.epsilon, features.mul


def activation_gradient(kernel: Kernel, products: Tensor) -> Callable[[Tensor], Tensor]:
    def activate(gradient: Tensor) -> Tensor:
        with torch.enable_grad():
            at = products.detach().requires_grad_()
            return torch.autograd.grad(kernel.activation(at), at, gradient)[0]

    return activate


def largest_product(kernel: Kernel, k: Tensor) -> Tensor | None:
    """Of all keys of a text, B H 1 1, where epsilon is relative to it."""
    if not (kernel.is_softmax and kernel.epsilon):
        return None
    parts = (computed(k[..., part, :]) for part in chunks(k.shape[-2], CHUNK))
    return torch.stack([kernel.products(part).amax((-2, -1), keepdim=True) for part in parts]).amax(0)


class LinearAttention(torch.autograd.Function):
    """Every query with all keys."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kernel: Kernel) -> Tensor:
        largest = largest_product(kernel, k)
        running = None  # in the softmax kernel: the exponent that the state is relative to, B H 1 1
        state = None  # B H M D+1
        for part in chunks(k.shape[-2], CHUNK):
            keys = key_chunk(kernel, computed(k[..., part, :]), largest)
            values = with_ones(computed(v[..., part, :]))
            if keys.exponent is not None:
                before, highest = running, keys.exponent.amax(-2, keepdim=True)
                running = highest if before is None else torch.maximum(before, highest)
                values = values * (keys.exponent - running).exp()
                state = state if before is None else state * (before - running).exp()
            added = keys.features.mT @ values
            state = added if state is None else state.add_(added)
        out = torch.empty_like(q)
        sums = q.new_empty((*q.shape[:-1], 1), dtype=state.dtype)
        for part in chunks(q.shape[-2], CHUNK):
            y = query_chunk(kernel, computed(q[..., part, :]))[0] @ state
            sums[..., part, :] = nonzero(y[..., -1:])
            out[..., part, :] = y[..., :-1] / sums[..., part, :]
        ctx.save_for_backward(q, k, v, out, sums, state, running)
        ctx.kernel, ctx.largest = kernel, largest
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, out, sums, state, running), kernel = ctx.saved_tensors, ctx.kernel
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        d_state = torch.zeros_like(state)
        for part in chunks(q.shape[-2], CHUNK):
            x = computed(q[..., part, :])
            features, activate = query_chunk(kernel, x)
            dy = summed_gradient(gradient[..., part, :], out[..., part, :], sums[..., part, :])
            dq[..., part, :] = kernel.exponents_backward(x, activate(dy @ state.mT))
            d_state += features.mT @ dy
        for part in chunks(k.shape[-2], CHUNK):
            x = computed(k[..., part, :])
            keys = key_chunk(kernel, x, ctx.largest)
            values = with_ones(computed(v[..., part, :]))
            factor = 1.0 if keys.exponent is None else (keys.exponent - running).exp()
            dv[..., part, :] = (keys.features @ d_state[..., :-1]) * factor
            dk[..., part, :] = kernel.exponents_backward(x, keys.activate((values * factor) @ d_state.mT))
        return dq, dk, dv, None


def summed_gradient(gradient: Tensor, out: Tensor, sums: Tensor) -> Tensor:
    """The gradient of sums of values, and of the sum of weights that they were divided by: ... D + 1"""
    gradient = computed(gradient)
    of_sum = -(gradient * computed(out)).sum(-1, keepdim=True)
    return torch.cat((gradient, of_sum), -1) / sums


class CausalChunk(NamedTuple):
    """Some positions of a causal text, and the sums over all that stand before them."""

    part: slice
    q: Tensor
    k: Tensor
    queries: Tensor
    query_gradient: Callable[[Tensor], Tensor]
    keys: KeyChunk
    values: Tensor
    state: Tensor | None  # B H M D+1: over the keys before
    before: Tensor | None  # B H 1 1: the exponent that the state is relative to
    highest: Tensor | None  # B H C 1: the highest exponent of the keys up to each position

    def factors(self) -> Tensor:
        """What products of features are multiplied with: 0 for keys behind the query, C C or B H C C."""
        length = self.q.shape[-2]
        seen = torch.ones(length, length, dtype=torch.bool, device=self.q.device).tril()
        if self.highest is None:
            return seen.to(self.queries.dtype)
        return (self.keys.exponent.mT - self.highest).masked_fill(~seen, float("-inf")).exp()

    def of_state(self) -> Tensor | float:
        """The factor of the state for each position."""
        return 1.0 if self.before is None else (self.before - self.highest).exp()


def causal_chunks(kernel: Kernel, q: Tensor, k: Tensor, v: Tensor, largest: Tensor | None) -> Iterator[CausalChunk]:
    """The chunks of a causal text from its beginning."""
    state, before = None, None
    for part in chunks(q.shape[-2], CAUSAL_CHUNK):
        chunk_q, chunk_k = computed(q[..., part, :]), computed(k[..., part, :])
        queries, activate = query_chunk(kernel, chunk_q)
        keys, values = key_chunk(kernel, chunk_k, largest), with_ones(computed(v[..., part, :]))
        highest = None
        if keys.exponent is not None:
            highest = keys.exponent.cummax(-2).values
            highest = highest if before is None else torch.maximum(highest, before)
        yield CausalChunk(part, chunk_q, chunk_k, queries, activate, keys, values, state, before, highest)
        if highest is not None:
            last = highest[..., -1:, :]
            values = values * (keys.exponent - last).exp()
            state = state if state is None else state * (before - last).exp()
            before = last
        added = keys.features.mT @ values
        state = added if state is None else state + added


class CausalLinearAttention(torch.autograd.Function):
    """Every query with the keys up to its own place: those of its chunk directly, those before by their sums."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, kernel: Kernel) -> Tensor:
        largest = largest_product(kernel, k)
        out = torch.empty_like(q)
        sums = computed(q.new_empty((*q.shape[:-1], 1)))
        for chunk in causal_chunks(kernel, q, k, v, largest):
            y = ((chunk.queries @ chunk.keys.features.mT) * chunk.factors()) @ chunk.values
            if chunk.state is not None:
                y += (chunk.queries @ chunk.state) * chunk.of_state()
            if kernel.sum_epsilon:
                y[..., -1:] += kernel.sum_epsilon * chunk.queries.sum(-1, keepdim=True)
            sums[..., chunk.part, :] = nonzero(y[..., -1:])
            out[..., chunk.part, :] = y[..., :-1] / sums[..., chunk.part, :]
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.kernel, ctx.largest = kernel, largest
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (q, k, v, out, sums), kernel = ctx.saved_tensors, ctx.kernel
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        ends = []  # of each chunk: the highest exponent at its end
        for chunk in causal_chunks(kernel, q, k, v, ctx.largest):
            part, keys = chunk.part, chunk.keys
            dy = summed_gradient(gradient[..., part, :], out[..., part, :], sums[..., part, :])
            factors = chunk.factors()
            d_products = (dy @ chunk.values.mT) * factors
            d_queries = d_products @ keys.features
            if chunk.state is not None:
                d_queries += (dy @ chunk.state.mT) * chunk.of_state()
            if kernel.sum_epsilon:
                d_queries += kernel.sum_epsilon * dy[..., -1:]
            dq[..., part, :] = kernel.exponents_backward(chunk.q, chunk.query_gradient(d_queries))
            d_keys = d_products.mT @ chunk.queries
            dk[..., part, :] = kernel.exponents_backward(chunk.k, keys.activate(d_keys))
            weights = (chunk.queries @ keys.features.mT) * factors
            dv[..., part, :] = weights.mT @ dy[..., :-1]
            ends.append((part, chunk.before, chunk.highest))
        later = None  # B H M D+1: what the queries behind a chunk bring back to its keys
        for part, before, highest in reversed(ends):
            x_q, x_k = computed(q[..., part, :]), computed(k[..., part, :])
            if later is not None:
                keys, values = key_chunk(kernel, x_k, ctx.largest), with_ones(computed(v[..., part, :]))
                factor = 1.0 if highest is None else (keys.exponent - highest[..., -1:, :]).exp()
                dv[..., part, :] += ((keys.features @ later[..., :-1]) * factor).to(dv.dtype)
                d_keys = keys.activate((values * factor) @ later.mT)
                dk[..., part, :] += kernel.exponents_backward(x_k, d_keys).to(dk.dtype)
            if not part.start:
                break
            dy = summed_gradient(gradient[..., part, :], out[..., part, :], sums[..., part, :])
            if before is not None:
                dy = dy * (before - highest).exp()
                later = later if later is None else later * (before - highest[..., -1:, :]).exp()
            added = query_chunk(kernel, x_q)[0].mT @ dy
            later = added if later is None else later + added
        return dq, dk, dv, None
