"""Sampled softmax: the full loss on average, and exact where it can be."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from glassformer.nn.loss import sampled_softmax_loss


@pytest.mark.parametrize("bias", [False, True])
def test_sampled_softmax_estimates_the_full_loss(bias):
    torch.manual_seed(0)
    scorer = torch.nn.Linear(8, 300, bias=bias).double()
    rows = torch.randn(40, 8, dtype=torch.float64)
    labels = torch.cat((torch.arange(20), torch.randint(0, 300, (20,))))
    whole = F.cross_entropy(scorer(rows), labels, reduction="none")
    drawn = torch.stack(
        [
            torch.stack(
                [
                    sampled_softmax_loss(row[None], scorer, label[None], 60)
                    for row, label in zip(rows, labels, strict=True)
                ]
            )
            for _ in range(100)
        ]
    )
    # The sum over the vocabulary is right on average: e^loss is that sum, divided by the word's own part.
    ratio = drawn.exp().mean(0) / whole.exp()
    assert ratio.mean().item() == pytest.approx(1.0, abs=0.02)
    together = sampled_softmax_loss(rows, scorer, labels, 60)
    assert together.item() == pytest.approx(whole.sum().item(), rel=0.05)


def test_sampling_the_full_vocabulary_is_exact():
    torch.manual_seed(0)
    scorer = torch.nn.Linear(8, 30, bias=False)
    rows, labels = torch.randn(5, 8), torch.randint(0, 30, (5,))
    right = F.cross_entropy(scorer(rows), labels, reduction="sum")
    assert sampled_softmax_loss(rows, scorer, labels, 30).item() == pytest.approx(right.item(), rel=1e-6)
    nearly = [sampled_softmax_loss(rows, scorer, labels, 29).item() for _ in range(30)]
    assert sum(nearly) / 30 == pytest.approx(right.item(), rel=0.01)
