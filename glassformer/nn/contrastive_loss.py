"""Losses of sentence embeddings: vectors of texts with the same meaning come close, others are pushed apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def summed_cosine_loss(vectors: Tensor, scores: Tensor, sizes: list[int]) -> Tensor:
    """The squared errors of cosines, summed: B C and B -> a number.

    Vectors come in groups of these sizes; the first of a group is compared with each of the others, whose scores are
    the right cosines.
    """
    groups = zip(F.normalize(vectors, dim=-1).split(sizes), scores.split(sizes), strict=True)
    return torch.stack([((group[1:] @ group[0] - right[1:]) ** 2).sum() for group, right in groups]).sum()


def ranking_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, scale: float, same: Tensor) -> Tensor:
    """Cross-entropy of each anchor's positive among the positives of all rows and all negatives, summed over anchors.

    Vectors are A C, A C and M C. `same` (A, A + M) marks candidates that are the same text as the positive; they are
    left out. This is the MultipleNegativesRankingLoss of sentence-transformers.
    """
    candidates = F.normalize(torch.cat((positives, negatives)), dim=-1)
    scores = F.normalize(anchors, dim=-1) @ candidates.T * scale  # A A+M
    targets = torch.arange(len(anchors), device=scores.device)
    duplicates = same & (torch.arange(scores.shape[1], device=scores.device) != targets[:, None])
    return F.cross_entropy(scores.masked_fill(duplicates, float("-inf")), targets, reduction="sum")


def triplet_loss(anchors: Tensor, positives: Tensor, negatives: Tensor, margin: float) -> Tensor:
    """By how much each negative fails to be farther from its anchor than the positive, by `margin`; summed."""
    near, far = F.pairwise_distance(anchors, positives), F.pairwise_distance(anchors, negatives)
    return F.relu(near - far + margin).sum()


def same_texts(positives: Sequence[tuple[int, ...]], candidates: Sequence[tuple[int, ...]]) -> Tensor:
    """Which candidates are the same text as each positive, by their token ids."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(candidates))}
    rows, columns = (torch.tensor([numbers[text] for text in texts]) for texts in (positives, candidates))
    return rows[:, None] == columns[None, :]
