"""Conditional random fields against a sum over all paths, in float64; and what constraints leave of it."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from glassformer.nn.crf import (
    FORBIDDEN,
    AllowedPaths,
    ConditionalRandomField,
    PathScores,
    best_paths,
    crf_losses,
    marginals,
)

LABELS = 4
LENGTHS = [3, 1, 0, 5, 2, 3]
BLOCKED = [(0, 1), (2, 2), (3, 0), (1, 3)]  # pairs of labels that may not follow each other


def field(seed: int = 0) -> tuple[Tensor, Tensor, PathScores]:
    """Emissions, labels and path scores."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)

    labels = torch.randint(LABELS, (sum(LENGTHS),), generator=generator)
    return draw(sum(LENGTHS), LABELS), labels, PathScores(draw(LABELS), draw(LABELS, LABELS), draw(LABELS))


def constraints() -> AllowedPaths:
    ends = torch.ones(2, LABELS, dtype=torch.bool)
    ends[0, 3] = ends[1, 1] = False
    pairs = torch.ones(LABELS, LABELS, dtype=torch.bool)
    pairs[tuple(zip(*BLOCKED, strict=True))] = False
    return AllowedPaths(ends[0], pairs, ends[1])


def all_paths(emissions: Tensor, scores: PathScores, allowed: AllowedPaths | None) -> dict[tuple[int, ...], float]:
    """The score of every path of one chain, one by one."""
    found = {}
    for path in itertools.product(range(LABELS), repeat=len(emissions)):
        pairs = list(itertools.pairwise(path))
        if allowed is not None:
            masks = [allowed.start[path[0]], allowed.end[path[-1]], *(allowed.transitions[pair] for pair in pairs)]
            if not all(masks):
                continue
        parts = [scores.start[path[0]], scores.end[path[-1]], *(scores.transitions[pair] for pair in pairs)]
        parts += [emissions[position, label] for position, label in enumerate(path)]
        found[path] = float(torch.stack(parts).sum())
    return found


@pytest.mark.parametrize("allowed", [None, constraints()], ids=["free", "constrained"])
@pytest.mark.parametrize("seed", range(3))
def test_everything_equals_the_sum_over_all_paths(seed, allowed):
    emissions, labels, scores = field(seed)
    masked = scores.within(allowed)
    losses = crf_losses(emissions, labels, LENGTHS, scores, allowed)
    best, probabilities = best_paths(emissions, LENGTHS, masked), marginals(emissions, LENGTHS, masked)
    broken, at = 0, 0
    for chain, length in enumerate(LENGTHS):
        if length == 0:
            assert losses[chain] == 0
            continue
        here = slice(at, at + length)
        at += length
        paths = all_paths(emissions[here], scores, allowed)
        total = torch.tensor(list(paths.values()), dtype=torch.float64).logsumexp(0)
        assert tuple(best[here].tolist()) == max(paths, key=paths.__getitem__)
        expected = torch.zeros(length, LABELS, dtype=torch.float64)
        for path, score in paths.items():
            expected[range(length), list(path)] += (score - total).exp()
        torch.testing.assert_close(probabilities[here], expected, rtol=0, atol=1e-12)
        own = tuple(labels[here].tolist())
        if own not in paths:  # compared with all paths
            broken += 1
            paths = all_paths(emissions[here], scores, None)
            total = torch.tensor(list(paths.values()), dtype=torch.float64).logsumexp(0)
        torch.testing.assert_close(losses[chain], total - paths[own], rtol=0, atol=1e-11)
    assert (broken > 0) == (allowed is not None)


@pytest.mark.parametrize("allowed", [None, constraints()], ids=["free", "constrained"])
def test_gradients(allowed):
    emissions, labels, scores = field()
    inputs = [each.clone().requires_grad_() for each in (emissions, *scores)]

    def loss(emissions, *parts):
        return crf_losses(emissions, labels, LENGTHS, PathScores(*parts), allowed).sum()

    assert torch.autograd.gradcheck(loss, inputs)


def test_a_chain_is_the_same_alone_and_among_others():
    emissions, labels, scores = field()
    losses = crf_losses(emissions, labels, LENGTHS, scores, constraints())
    together = (best_paths(emissions, LENGTHS, scores), marginals(emissions, LENGTHS, scores))
    at = 0
    for chain, length in enumerate(LENGTHS):
        here = slice(at, at + length)
        at += length
        alone = crf_losses(emissions[here], labels[here], [length], scores, constraints())
        assert torch.equal(alone[0], losses[chain])
        assert torch.equal(best_paths(emissions[here], [length], scores), together[0][here])
        assert torch.equal(marginals(emissions[here], [length], scores), together[1][here])


def test_no_position_at_all():
    emissions, scores = torch.zeros(0, LABELS), PathScores.zero(LABELS)
    nothing = torch.zeros(0, dtype=torch.long)
    assert crf_losses(emissions, nothing, [0, 0], scores).tolist() == [0, 0]
    assert best_paths(emissions, [0], scores).tolist() == [] and marginals(emissions, [0], scores).shape == (0, LABELS)


@pytest.mark.parametrize("allowed", [None, constraints()], ids=["free", "constrained"])
def test_long_chains_and_large_scores_are_stable_in_float32(allowed):
    torch.manual_seed(0)
    labels = torch.zeros(2000, dtype=torch.long)
    sure = 100 * torch.eye(LABELS)[labels]  # nearly all the probability, so that the loss is a small difference
    scores = PathScores(*(torch.randn(*each.shape) for each in PathScores.zero(LABELS)))
    exact_scores = PathScores(*(each.double() for each in scores))
    for emissions, tolerance in ((50 * torch.randn(2000, LABELS), 1e-4), (sure + 3 * torch.randn(2000, LABELS), 1e-5)):
        exact = crf_losses(emissions.double(), labels, [2000], exact_scores, allowed)
        found = crf_losses(emissions, labels, [2000], scores, allowed)
        torch.testing.assert_close(found.double(), exact, rtol=tolerance, atol=1e-5)
        right = marginals(emissions.double(), [2000], exact_scores.within(allowed))
        assert (marginals(emissions, [2000], scores.within(allowed)) - right).abs().max() < 1e-5
    half = crf_losses(sure.bfloat16(), labels, [2000], scores)
    assert half.dtype == torch.float32 and half.isfinite()


def test_the_impossible_has_no_probability_and_no_gradient():
    emissions, _, _ = field()
    crf, allowed = ConditionalRandomField(LABELS).double(), constraints()
    probabilities = marginals(1e4 * emissions, LENGTHS, crf().within(allowed))
    starts = [0, 3, 4, 9, 11]  # of the chains that have a position
    assert (probabilities[starts][:, ~allowed.start] == 0).all()
    path = torch.zeros(5, dtype=torch.long)
    crf_losses(emissions[4:9], path, [5], crf(), allowed).sum().backward()
    assert crf.transitions.grad.isfinite().all() and (crf.transitions.grad[~allowed.transitions] == 0).all()
    assert crf.transitions.grad[allowed.transitions].abs().min() > 0
    assert (crf().within(allowed).transitions == FORBIDDEN).sum() == len(BLOCKED)
