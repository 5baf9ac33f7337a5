"""Losses that pull vectors of texts with the same meaning together, and others apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

OBJECTIVES = ("score", "ranking", "triplet")
SCALE = 20.0  # what cosines are multiplied with before they compete
MARGIN = 5.0  # by how much a negative must be farther away than the positive


def ranking_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, scale: float, same: Tensor) -> Tensor:
    """Each anchor must find its positive among those of all rows and all negatives: the sum over anchors.

    Vectors are A C, A C and M C. `same` (A, A + M) tells which candidates are the right text a second time; they do
    not compete. This is the MultipleNegativesRankingLoss of sentence-transformers.
    """
    candidates = F.normalize(torch.cat((positives, negatives)), dim=-1)
    scores = F.normalize(anchors, dim=-1) @ candidates.T * scale  # A A+M
    right = torch.arange(len(anchors), device=scores.device)
    again = same & (torch.arange(scores.shape[1], device=scores.device) != right[:, None])
    return F.cross_entropy(scores.masked_fill(again, float("-inf")), right, reduction="sum")


def triplet_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """How much each positive fails to be nearer to its anchor than the negative is, by `margin`: summed up."""
    near, far = F.pairwise_distance(anchors, positives), F.pairwise_distance(anchors, negatives)
    return F.relu(near - far + margin).sum()


def same_texts(positives: Sequence[tuple[int, ...]], candidates: Sequence[tuple[int, ...]]) -> Tensor:
    """Which candidates are the same text as each positive, by their tokens."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(candidates))}
    mine, theirs = (torch.tensor([numbers[text] for text in texts]) for texts in (positives, candidates))
    return mine[:, None] == theirs[None, :]
