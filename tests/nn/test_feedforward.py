"""Overwriting outputs gives the same bits, and never changes a tensor that a gradient or a hook needs."""

from __future__ import annotations

import pytest
import torch

from glassformer.nn.feedforward import AddNorm, Intermediate


@pytest.fixture
def parts():
    torch.manual_seed(0)
    return Intermediate(16, 64, "gelu").eval(), AddNorm(64, 16, 1e-12, 0.1).eval(), torch.randn(37, 16)


def test_the_same_bits_with_and_without_gradients(parts):
    widen, narrow, x = parts
    kept = x.clone()
    with_gradients = narrow(widen(x), x)
    with torch.no_grad():
        without = narrow(widen(x), x)
    assert torch.equal(with_gradients, without)
    assert torch.equal(x, kept)


@torch.no_grad()
def test_outputs_kept_by_hooks_are_not_overwritten(parts):
    widen, narrow, x = parts
    seen = {}
    for name, module in (("wide", widen.dense), ("narrow", narrow.dense)):
        module.register_forward_hook(lambda _, __, out, name=name: seen.__setitem__(name, out))
    activated = widen(x)
    narrow(activated, x)
    assert torch.equal(seen["wide"], torch.nn.functional.linear(x, widen.dense.weight, widen.dense.bias))
    assert torch.equal(seen["narrow"], torch.nn.functional.linear(activated, narrow.dense.weight, narrow.dense.bias))


def test_autocast_keeps_the_residual_exact(parts):
    widen, narrow, x = parts
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with_gradients = narrow(widen(x), x)
        with torch.no_grad():
            without = narrow(widen(x), x)
    assert with_gradients.dtype == without.dtype
    assert torch.equal(with_gradients, without)
