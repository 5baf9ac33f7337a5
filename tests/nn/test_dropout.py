"""Dropout with cheap random numbers: the fraction, the scale and the gradient of torch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.nn.dropout import Dropout, drop


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_fraction_scale_and_gradient(p, dtype):
    torch.manual_seed(0)
    x = torch.full((301, 997), 3.0, dtype=dtype, requires_grad=True)
    y = drop(x, p)
    kept = y != 0
    assert kept.double().mean().item() == pytest.approx(1 - p, abs=0.005)
    assert y.dtype == dtype
    assert y[kept].double().tolist() == pytest.approx(
        [3 / (1 - p)] * int(kept.sum()), rel=0.01 if dtype.itemsize == 2 else 1e-4
    )
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach() / 3)


def test_values_are_dropped_independently():
    torch.manual_seed(1)
    kept = drop(torch.ones(200_000), 0.3).ne(0).double()
    for distance in (1, 2, 3, 4, 64):  # four values share a random number
        both = (kept[:-distance] * kept[distance:]).mean().item()
        assert both == pytest.approx(0.49, abs=0.005)
    for place in range(4):
        assert kept[place::4].mean().item() == pytest.approx(0.7, abs=0.006)


def test_results_follow_the_seed_and_differ_between_calls():
    x = torch.ones(3, 7).t()  # 21 values, not contiguous
    torch.manual_seed(2)
    first, second = drop(x, 0.5), drop(x, 0.5)
    torch.manual_seed(2)
    assert torch.equal(drop(x, 0.5), first)
    assert not torch.equal(first, second)
    assert first.shape == x.shape


def test_probabilities_zero_and_one():
    x = torch.randn(5)
    assert torch.equal(drop(x, 0.0), x)
    assert torch.equal(drop(x, 1.0), torch.zeros(5))
    assert drop(torch.zeros(0, 4), 0.5).shape == (0, 4)


def test_the_module_is_an_instance_of_torchs():
    module = Dropout(0.25)
    assert isinstance(module, nn.Dropout)
    assert str(module) == "Dropout(p=0.25, inplace=False)"
    x = torch.ones(100)
    assert 0 < (module(x) == 0).sum() < 60
    assert module.eval()(x) is x
