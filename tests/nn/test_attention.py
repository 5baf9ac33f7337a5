"""The fused kernel and the explicit formula agree over every mask, mode and dtype."""

from __future__ import annotations

import math

import pytest
import torch

from glassformer.nn.attention import attend
from glassformer.nn.layout import Layout
from glassformer.nn.mask import make_layout

H, D = 3, 8
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6, torch.bfloat16: 3e-2, torch.float16: 4e-3}
MASKS = {
    "none": None,
    "right": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]],
    "left": [[1, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]],
    "mixed": [[0, 1, 1, 1, 0], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]],
    "holes": [[1, 0, 1, 1, 1], [1, 1, 0, 0, 1], [1, 1, 1, 1, 1]],
}


def reference_attention(q, k, v, seen):
    """The formula, one query at a time, in plain loops over B H T D tensors and a B T S mask."""
    out, weights = torch.zeros_like(q), torch.zeros(*q.shape[:3], k.shape[2], dtype=q.dtype)
    for b in range(q.shape[0]):
        for t in range(q.shape[2]):
            keys = seen[b, t].nonzero()[:, 0]
            if len(keys) == 0:
                continue
            for h in range(q.shape[1]):
                scores = (k[b, h, keys] @ q[b, h, t]) / math.sqrt(q.shape[-1])
                share = (scores - scores.max()).exp()
                share = share / share.sum()
                weights[b, h, t, keys] = share
                out[b, h, t] = share @ v[b, h, keys]
    return out, weights


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_self_attention(mask, causal, dtype):
    torch.manual_seed(0)
    given = None if MASKS[mask] is None else torch.tensor(MASKS[mask])
    layout = make_layout(3, 5, given, dtype=dtype, device=torch.device("cpu"), causal=causal)
    q, k, v = torch.randn(3, 3, H, 5, D, dtype=torch.float64)
    rows = [layout.pack(x.transpose(1, 2)).to(dtype) for x in (q, k, v)]

    real = torch.ones(3, 5).bool() if given is None else given.bool()
    seen = real[:, None, :].expand(3, 5, 5)
    seen = seen.tril() if causal else seen
    want, want_weights = reference_attention(q, k, v, seen)

    fused, nothing = attend(*rows, layout)
    explicit, weights = attend(*rows, layout, want_weights=True)
    assert nothing is None
    for result in (fused, explicit):
        got = layout.unpack(result).transpose(1, 2)
        for b in range(3):
            torch.testing.assert_close(
                got[b][:, real[b]].double(), want[b][:, real[b]], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
            )
    for b in range(3):
        got = weights[b][:, real[b]].double()
        torch.testing.assert_close(got, want_weights[b][:, real[b]], rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        assert not got[:, :, ~real[b]].any(), "what is hidden has weight exactly 0"


@pytest.mark.parametrize("source_mask", MASKS)
@pytest.mark.parametrize("query_mask", ["none", "right", "mixed"])
def test_cross_attention(query_mask, source_mask):
    torch.manual_seed(0)
    settings = {"dtype": torch.float64, "device": torch.device("cpu")}
    masks = [None if MASKS[name] is None else torch.tensor(MASKS[name]) for name in (query_mask, source_mask)]
    layout, source = (make_layout(3, 5, mask, **settings) for mask in masks)
    q, k, v = torch.randn(3, 3, H, 5, D, dtype=torch.float64)
    real, there = (torch.ones(3, 5).bool() if mask is None else mask.bool() for mask in masks)
    want, want_weights = reference_attention(q, k, v, there[:, None, :].expand(3, 5, 5))
    rows = layout.pack(q.transpose(1, 2)), source.pack(k.transpose(1, 2)), source.pack(v.transpose(1, 2))
    for looked_at in (False, True):
        y, weights = attend(*rows, layout, source, want_weights=looked_at)
        got = layout.unpack(y).transpose(1, 2)
        for b in range(3):
            torch.testing.assert_close(got[b][:, real[b]], want[b][:, real[b]], rtol=1e-12, atol=1e-12)
            if looked_at:
                torch.testing.assert_close(weights[b][:, real[b]], want_weights[b][:, real[b]], rtol=1e-12, atol=1e-12)


def test_head_mask_and_score_bias_use_the_explicit_formula():
    torch.manual_seed(0)
    layout = Layout.of(torch.tensor([[1, 1, 1], [1, 0, 0]]))
    q, k, v = torch.randn(3, layout.rows, H, D, dtype=torch.float64)
    plain, _ = attend(q, k, v, layout)
    same, _ = attend(q, k, v, layout, score_bias=lambda q, k: 0.0)
    torch.testing.assert_close(plain, same)
    mask = torch.tensor([1.0, 0.0, 0.5], dtype=torch.float64).view(1, H, 1, 1)
    halved, weights = attend(q, k, v, layout, head_mask=mask, want_weights=True)
    torch.testing.assert_close(halved, plain * mask.view(H, 1))
    assert not weights[:, 1].any()
    moved, _ = attend(q, k, v, layout, score_bias=lambda q, k: q @ k.transpose(-1, -2))
    doubled, _ = attend(2 * q, k, v, layout)
    torch.testing.assert_close(moved, doubled)


def test_dropout_only_when_requested():
    layout = Layout.full(1, 6)
    q, k, v = torch.randn(3, 6, H, D)
    torch.manual_seed(0)
    assert torch.equal(attend(q, k, v, layout)[0], attend(q, k, v, layout)[0])
    assert not torch.equal(attend(q, k, v, layout, dropout=0.5)[0], attend(q, k, v, layout)[0])


def test_dropout_drops_the_requested_fraction_of_weights():
    """With the unit matrix as values, what comes out are the weights: dropped, or scaled so that the mean stays."""
    torch.manual_seed(0)
    length = 64
    q, k = torch.randn(2 * length, H, length), torch.randn(2 * length, H, length)
    v = torch.eye(length).repeat(2, 1)[:, None].expand(-1, H, -1).contiguous()
    layout = Layout.full(2, length)
    whole, some = attend(q, k, v, layout)[0], attend(q, k, v, layout, dropout=0.25)[0]
    kept = some != 0
    assert kept.double().mean().item() == pytest.approx(0.75, abs=0.01)
    torch.testing.assert_close(some[kept], whole[kept] / 0.75, rtol=1e-4, atol=1e-7)


def test_a_mask_and_a_bias_never_add_up_to_infinity():
    """A query that sees nothing, such as a padded one, would have weights that are no numbers."""
    layout = Layout.full(1, 2, mask=torch.full((1, 1, 2, 2), torch.finfo(torch.float16).min, dtype=torch.float16))
    q = k = v = torch.ones(2, H, D, dtype=torch.float16)
    bias = torch.full((2, 2), -1000.0, dtype=torch.float16)
    for want_weights in (False, True):
        y, _ = attend(q, k, v, layout, bias=bias, want_weights=want_weights)
        assert y.isfinite().all()


def test_distances_are_those_of_the_layout_or_of_columns():
    device = torch.device("cpu")
    assert Layout.full(2, 2).distances(2, 4, device).tolist() == [[[2, 1, 0, -1], [3, 2, 1, 0]]]
    own = torch.arange(8).view(2, 1, 4)
    assert Layout.full(2, 1, distance=own).distances(1, 4, device) is own
