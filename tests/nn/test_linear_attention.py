"""Linear attention: chunked equals explicit equals performer-pytorch, forward and backward, over every mask."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from glassformer.nn import linear_attention as chunked
from glassformer.nn.linear_attention import Kernel, linear_attention
from glassformer.nn.mask import make_layout
from glassformer.nn.random_features import (
    FeatureRedraw,
    RandomFeatures,
    attend_linearly,
    one_pass_per_step,
    orthogonal_features,
)

H, D, M = 3, 8, 20
KERNELS = {
    "softmax": {},
    "softmax-epsilon": {"epsilon": 1e-4},
    "relu": {"activation": torch.relu, "epsilon": 1e-3},
    "gelu": {"activation": nn.functional.gelu, "epsilon": 0.2},
}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK", 7)
    monkeypatch.setattr(chunked, "CAUSAL_CHUNK", 5)
    torch.manual_seed(0)


def kernel(name: str, dtype=torch.float64, **fields) -> Kernel:
    return Kernel(orthogonal_features(M, D).to(dtype), D**-0.5, **{**KERNELS[name], **fields})


def vectors(length: int, dtype=torch.float64, size: float = 2.0) -> list[torch.Tensor]:
    """Large enough for features of very different sizes."""
    return [torch.randn(2, H, length, D, dtype=torch.float64).mul(size).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("name", KERNELS)
def test_chunks_equal_the_explicit_weights_forward_and_backward(name, causal):
    features = kernel(name, sum_epsilon=1e-3 if causal else 0.0)
    inputs = [x.requires_grad_() for x in vectors(18)]
    q, k, v = inputs
    y = linear_attention(q, k, v, features, causal)
    weights = features.weights(features.query_features(q), features.key_features(k), None, causal)
    torch.testing.assert_close(y, weights @ v, rtol=1e-10, atol=1e-10)
    up = torch.randn_like(y)
    wanted = torch.autograd.grad(weights @ v, inputs, up)
    for ours, want in zip(torch.autograd.grad(y, inputs, up), wanted, strict=True):
        torch.testing.assert_close(ours, want, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
def test_gradients_equal_finite_differences(causal):
    inputs = [x[:1, :1].clone().requires_grad_() for x in vectors(11, size=1.0)]
    features = kernel("softmax")
    assert torch.autograd.gradcheck(lambda *x: linear_attention(*x, features, causal), inputs)


@pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])
@pytest.mark.parametrize("generalized", [False, True], ids=["softmax", "generalized"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_performer_pytorch_computes_the_same(generalized, causal, dtype):
    theirs = pytest.importorskip("performer_pytorch").FastAttention(
        D, nb_features=M, causal=causal, generalized_attention=generalized
    )
    inputs = [x.requires_grad_() for x in vectors(150, dtype)]
    want = theirs.to(dtype)(*inputs)
    epsilon = 1e-3 if generalized else 1e-4
    sum_epsilon = 1e-6 * (1 if generalized else M**0.5) if causal else 0.0
    features = Kernel(theirs.projection_matrix, D**-0.5, torch.relu if generalized else None, epsilon, sum_epsilon)
    ours = linear_attention(*inputs, features, causal)
    tolerance = 1e-10 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(ours, want, rtol=tolerance, atol=tolerance)
    up = torch.randn_like(want)
    gradients = zip(torch.autograd.grad(ours, inputs, up), torch.autograd.grad(want, inputs, up), strict=True)
    for mine, other in gradients:
        scale = other.abs().max().item()
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance * max(1.0, scale))


def test_exponents_far_apart_stay_finite_and_exact():
    """exp() of a part of these would overflow, and of another part vanish, in float32."""
    q, k, v = (x.float() for x in vectors(20, size=8.0))
    features = kernel("softmax", torch.float32)
    exact = kernel("softmax")._replace(projection=features.projection.double())
    for causal in (False, True):
        wide = linear_attention(q.double(), k.double(), v.double(), exact, causal)
        narrow = linear_attention(q, k, v, features, causal)
        torch.testing.assert_close(narrow.double(), wide, rtol=1e-3, atol=1e-3)


MASKS = {
    "none": None,
    "right": [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [1, 0, 0, 0, 0]],
    "left": [[1, 1, 1, 1, 1], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]],
    "holes": [[1, 0, 1, 1, 1], [1, 1, 0, 0, 1], [1, 1, 1, 1, 1]],
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", ["softmax", "relu"])
def test_every_mask_equals_each_text_alone(name, mask, causal):
    features = kernel(name)
    given = None if MASKS[mask] is None else torch.tensor(MASKS[mask])
    layout = make_layout(3, 5, given, dtype=torch.float64, device=torch.device("cpu"), causal=causal)
    q, k, v = torch.randn(3, 3, 5, H, D, dtype=torch.float64)
    rows = [layout.pack(x) for x in (q, k, v)]
    y, nothing = attend_linearly(*rows, layout, layout, features)
    z, weights = attend_linearly(*rows, layout, layout, features, want_weights=True)
    assert nothing is None
    torch.testing.assert_close(y, z, rtol=1e-10, atol=1e-10)
    for row in range(3):
        real = torch.ones(5).bool() if given is None else given[row].bool()
        alone = [x[row, real].transpose(0, 1)[None] for x in (q, k, v)]
        want = linear_attention(*alone, features, causal)[0].transpose(0, 1)
        torch.testing.assert_close(layout.unpack(y)[row, real], want, rtol=1e-10, atol=1e-10)
        seen = weights[row][:, real][:, :, real]
        torch.testing.assert_close(seen.sum(-1), torch.ones_like(seen.sum(-1)))
        assert not weights[row][:, :, ~real][:, real].any()


def test_the_error_shrinks_with_the_features():
    q, k, v = vectors(30, size=1.0)
    q, k = q * 0.4, k * 0.4
    exact = nn.functional.scaled_dot_product_attention(q, k, v)
    errors = []
    for count in (16, 256, 4096):
        draws = [Kernel(orthogonal_features(count, D).double(), D**-0.5) for _ in range(4)]
        errors.append(sum((linear_attention(q, k, v, each) - exact).square().mean() for each in draws) ** 0.5)
    assert errors[0] > 2.5 * errors[1] > 2.5 * 2.5 * errors[2], errors  # 4 times at best


def test_features_are_orthogonal_and_have_gaussian_lengths():
    drawn = orthogonal_features(8 * 500, 8)
    blocks = nn.functional.normalize(drawn, dim=1).view(500, 8, 8)
    torch.testing.assert_close(blocks @ blocks.mT, torch.eye(8).expand(500, 8, 8), atol=1e-4, rtol=0)
    assert abs(drawn.mean()) < 0.02 and abs(drawn.square().mean() - 1) < 0.03
    assert abs(drawn[::8, 0].mean()) < 0.15  # a decomposition without signs prefers one direction


class Layers(nn.Module):
    def __init__(self, interval):
        super().__init__()
        self.features = RandomFeatures(8, 16)
        self.feature_redraw = FeatureRedraw(interval)


def test_features_are_redrawn_after_the_interval_in_training_only():
    layers = Layers(2)
    first = layers.features.projection_matrix.clone()

    def passes(count: int) -> list[bool]:
        changed = []
        for _ in range(count):
            before = layers.features.projection_matrix.clone()
            layers.feature_redraw.before_pass(layers)
            changed.append(not torch.equal(before, layers.features.projection_matrix))
        return changed

    layers.eval()
    assert passes(5) == [False] * 5
    layers.train()
    assert passes(7) == [False, False, True, False, False, True, False]
    assert not torch.equal(first, layers.features.projection_matrix)
    with one_pass_per_step(layers):  # however many micro-batches
        assert passes(6) == [False] * 6
    assert passes(1) == [True]
    layers.feature_redraw.interval = None
    assert passes(4) == [False] * 4


def test_the_next_matrix_follows_from_the_present_one():
    one, other = Layers(0 + 1), Layers(1)
    other.load_state_dict(one.state_dict())
    torch.manual_seed(1)
    one.features.redraw()
    torch.manual_seed(2)
    before = torch.get_rng_state()
    other.features.redraw()
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one.features.projection_matrix, other.features.projection_matrix)
    assert not torch.equal(one.features.projection_matrix, Layers(1).features.projection_matrix)
