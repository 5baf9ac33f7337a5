"""A pattern of attention equals dense attention with the mask that it stands for."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.errors import InputError
from glassformer.nn import attention_patterns
from glassformer.nn.attention import attend
from glassformer.nn.attention_patterns import Blocks, Window
from glassformer.nn.attention_weights import AttentionInputs
from glassformer.nn.layout import Layout
from glassformer.nn.mask import make_layout

H, D = 2, 4
MASKS = {
    "even": [[1] * 13],
    "ragged": [[1] * 13, [0, 0] + [1] * 5 + [0] * 6, [1] * 13, [1] + [0] * 12],
    "holes": [[1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0], [1] * 13],
}
GLOBAL = {(0, 0), (0, 9), (1, 4), (2, 0), (2, 9), (3, 0)}  # sequence, column
DRAWN = torch.tensor(
    [[[0, 1], [3, 3], [0, 4], [1, 0], [5, 4], [2, 2]], [[5, 1], [4, 3], [0, 5], [5, 5], [4, 4], [0, 1]]]
)
EVERYWHERE = torch.zeros(2, 6, 2).long()


def window(size, dilation=1, globals_=False):
    def sees(h, i, j, length, is_global):
        near = abs(i - j) <= size * dilation and (i - j) % dilation == 0
        return int(near or is_global(i) or is_global(j))

    return lambda rows: Window(size, dilation, rows if globals_ else None), sees, globals_


def blocks(size, drawn=None):
    def draw(length):
        return None if drawn is None else drawn[:, : math.ceil(length / size)].clamp(max=math.ceil(length / size) - 1)

    def sees(h, i, j, length, is_global):
        last, a, b = math.ceil(length / size) - 1, i // size, j // size
        if a in (0, last):
            return 1
        seen = int(abs(a - b) <= 1 or b in (0, last))
        return seen if drawn is None else seen + int((draw(length)[h, a] == b).sum())

    return lambda rows: Blocks(size, random=draw), sees, False


PATTERNS = {
    "window": window(3),
    "narrow": window(1),
    "wide": window(20),
    "dilated": window(2, dilation=3),
    "global": window(2, globals_=True),
    "dilated_global": window(1, dilation=2, globals_=True),
    "blocks": blocks(2),
    "blocks_of_three": blocks(3),
    "random": blocks(3, DRAWN),
    "same_random": blocks(3, EVERYWHERE),
}


def batch_of(mask, causal):
    torch.manual_seed(0)
    given = torch.tensor(MASKS[mask])
    layout = make_layout(*given.shape, given, dtype=torch.float64, device=torch.device("cpu"), causal=causal)
    rows = torch.randn(3, layout.rows, H, D, dtype=torch.float64).unbind(0)
    is_global = torch.zeros(given.shape).bool()
    for sequence, column in GLOBAL:
        if sequence < len(given):
            is_global[sequence, column] = True
    return given.bool(), layout, rows, is_global


def counts(sees, real, causal, is_global, layout):
    """How often each query sees each key, one by one: B H T S."""
    batch, length = real.shape
    seen = torch.zeros(batch, H, length, length)
    for b in range(batch):
        start, size = (
            (0, length)
            if layout.mask is not None
            else next((run.column, run.length) for run in layout.runs if b in run.members)
        )
        for h in range(H):
            for i in range(size):
                for j in range(i + 1 if causal else size):
                    seen[b, h, start + i, start + j] = sees(
                        h, i, j, size, lambda place, b=b, start=start: bool(is_global[b, start + place])
                    )
    return seen * real[:, None, None]


def dense(q, k, v, seen):
    scores = (q @ k.mT / math.sqrt(D) + seen.double().log()).masked_fill(seen == 0, -1e300)
    weights = scores.softmax(-1)
    return weights @ v, weights


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(attention_patterns, "TILE", 4)
    for cached in (attention_patterns.window_tiles, attention_patterns.block_tiles):
        cached.cache_clear()
    yield
    for cached in (attention_patterns.window_tiles, attention_patterns.block_tiles):
        cached.cache_clear()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", PATTERNS)
def test_pattern_equals_dense_attention_with_its_mask(name, mask, causal):
    make, sees, with_globals = PATTERNS[name]
    real, layout, rows, is_global = batch_of(mask, causal)
    tokens = layout.pack(is_global)
    seen = counts(sees, real, causal, is_global if with_globals else torch.zeros_like(is_global), layout)
    leaves = [x.clone().requires_grad_() for x in rows]
    want, want_weights = dense(*(layout.unpack(x).transpose(1, 2) for x in leaves), seen)
    want = layout.pack(want.transpose(1, 2))
    kept = layout.pack(real)[:, None, None]
    weigh = torch.randn_like(want) * kept
    wanted = torch.autograd.grad((want * weigh).sum(), leaves)

    y, nothing = attend(*leaves, layout, pattern=make(tokens))
    assert nothing is None
    torch.testing.assert_close(y * kept, want * kept, rtol=1e-12, atol=1e-12)
    for got, grad in zip(torch.autograd.grad((y * weigh).sum(), leaves), wanted, strict=True):
        torch.testing.assert_close(got, grad, rtol=1e-11, atol=1e-12)

    again, weights = attend(*leaves, layout, pattern=make(tokens), want_weights=True)
    torch.testing.assert_close(again, y, rtol=1e-12, atol=1e-12)
    for b in range(len(real)):
        got = weights[b][:, real[b]]
        torch.testing.assert_close(got, want_weights[b][:, real[b]], rtol=1e-12, atol=1e-12)
    q, k, v = leaves
    inputs = AttentionInputs(q, k, v, layout, layout, None, None, None, None, make(tokens))
    for columns in (range(3, 4), range(2, 11)):
        some = weights[:, 1:, columns.start : columns.stop]
        torch.testing.assert_close(inputs.weights([1], columns), some, rtol=1e-12, atol=1e-12)


def test_dropout_drops_weights_and_their_gradients_alike():
    torch.manual_seed(0)
    layout = Layout.full(2, 9)
    q, k = torch.randn(2, 18, H, 9, dtype=torch.float64).unbind(0)
    units = torch.eye(9, dtype=torch.float64).repeat(2, 1)[:, None].expand(-1, H, -1).clone()
    leaves = [x.requires_grad_() for x in (q, k, units)]

    def loss(*rows):
        torch.manual_seed(3)
        return (attend(*rows, layout, pattern=Window(3), dropout=0.4)[0] * 2).square().sum()

    torch.manual_seed(3)
    weights = attend(*leaves, layout, pattern=Window(3), dropout=0.4)[0].detach()
    plain = attend(*leaves, layout, pattern=Window(3))[0].detach()
    ratio = (weights / plain)[plain > 0]
    assert 0.3 < (ratio == 0).double().mean() < 0.5
    torch.testing.assert_close(ratio[ratio > 0], torch.full_like(ratio[ratio > 0], 1 / 0.6), rtol=1e-4, atol=0)
    gradients = torch.autograd.grad(loss(*leaves), leaves)
    for number, (leaf, gradient) in enumerate(zip(leaves, gradients, strict=True)):
        step = 1e-6 * torch.randn_like(leaf)
        there, back = ([x + sign * step * (n == number) for n, x in enumerate(leaves)] for sign in (1, -1))
        torch.testing.assert_close((gradient * step).sum(), (loss(*there) - loss(*back)) / 2, rtol=1e-5, atol=0)


def test_heads_can_be_masked_and_left_out():
    _, layout, (q, k, v), _ = batch_of("ragged", False)
    pattern = PATTERNS["random"][0](None)
    plain, weights = attend(q, k, v, layout, pattern=pattern, want_weights=True)
    mask = torch.tensor([0.0, 0.5], dtype=torch.float64).view(1, H, 1, 1)
    masked, masked_weights = attend(q, k, v, layout, pattern=pattern, head_mask=mask, want_weights=True)
    torch.testing.assert_close(masked, plain * mask.view(H, 1))
    torch.testing.assert_close(masked_weights, weights * mask)
    second, _ = attend(q[:, 1:], k[:, 1:], v[:, 1:], layout, pattern=pattern.of_heads([1]))
    torch.testing.assert_close(second, plain[:, 1:])
    with pytest.raises(InputError, match="layers x heads"):
        attend(q, k, v, layout, pattern=pattern, head_mask=torch.ones(1, H, 13, 13))
    with pytest.raises(InputError, match="sparse attention is self-attention"):
        attend(q, k, v, layout, pattern=pattern, bias=torch.zeros(1))


def test_no_tensor_grows_with_the_square_of_the_length():
    layout, pattern = Layout.full(1, 600), Window(8, global_tokens=torch.arange(600) == 0)
    q, k, v = torch.randn(3, 600, 1, 2).unbind(0)
    sizes = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            sizes.extend(each.numel() for each in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(each))
            return out

    q.requires_grad_()
    with Watch():
        attend(q, k, v, layout, pattern=pattern)[0].sum().backward()
    assert 0 < max(sizes) <= 600 * 2 * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_types(dtype):
    _, layout, rows, is_global = batch_of("ragged", False)
    pattern = Window(2, global_tokens=layout.pack(is_global))
    want, _ = attend(*rows, layout, pattern=pattern)
    y, _ = attend(*(x.to(dtype) for x in rows), layout, pattern=pattern)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), want, rtol=4e-2, atol=4e-2)
