"""Overwriting outputs gives the same bits, and never changes a tensor that a gradient or a hook needs."""

from __future__ import annotations

import pytest
import torch

from glassformer import ACT2FN, InputError, apply_chunking_to_forward, prune_linear_layer
from glassformer.nn.activation import ACTIVATIONS
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


def test_functions_in_chunks():
    first, second = torch.randn(2, 7, 3), torch.randn(2, 7, 3)
    seen = []

    def add(a, b):
        seen.append(a.shape[1])
        return a + b

    assert torch.equal(apply_chunking_to_forward(add, 3, 1, first, second), first + second)
    assert torch.equal(apply_chunking_to_forward(add, 0, 1, first, second), first + second)
    assert seen == [3, 3, 1, 7]
    with pytest.raises(InputError, match=r"equally long in dimension 1, got \[7, 4\]"):
        apply_chunking_to_forward(add, 3, 1, first, second[:, :4])
    with pytest.raises(InputError, match="at least one tensor, got 3 and 0 tensors"):
        apply_chunking_to_forward(add, 3, 1)


def test_pruned_linear_layers():
    layer, index = torch.nn.Linear(4, 3), torch.tensor([2, 0])
    outputs, inputs = prune_linear_layer(layer, index), prune_linear_layer(layer, index, dim=1)
    assert torch.equal(outputs.weight, layer.weight[[2, 0]])
    assert torch.equal(outputs.bias, layer.bias[[2, 0]])
    assert torch.equal(inputs.weight, layer.weight[:, [2, 0]])
    assert torch.equal(inputs.bias, layer.bias)
    for wrong, dim, message in (
        (index + 1, 0, r"index: feature 3 at \[0\] is not between 0 and 2"),
        (index, 2, r"dim must be 0 \(outputs\) or 1 \(inputs\), got 2"),
        (index[:0], 0, "at least one feature to keep"),
    ):
        with pytest.raises(InputError, match=message):
            prune_linear_layer(layer, wrong, dim)


def test_activations_by_name():
    x = torch.randn(5)
    assert torch.equal(ACT2FN["gelu"](x), torch.nn.functional.gelu(x))
    assert ACT2FN["relu"] is not ACT2FN["relu"]
    assert "gelu_new" in ACT2FN
    assert set(ACT2FN) == set(ACTIVATIONS)
    with pytest.raises(KeyError, match="nothing"):
        ACT2FN["nothing"]


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
