"""k-means of vectors: greedy k-means++ seeding, several starts, and the number of clusters by silhouette."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError, suggests
from ...text.base.encoding_options import check_choice
from ..progress import show_progress
from ..task_options import check_at_least
from .similarity_measures import as_vectors

METRICS = ("cosine", "euclidean")
MAX_ITERATIONS = 300
SAMPLED = 2000  # vectors of which a silhouette is computed; it compares all pairs of them


@dataclass(frozen=True)
class Clustering:
    """Vectors in clusters, the largest of which is number 0.

    A distance is 1 - cosine, or Euclidean; `inertia` is the sum of the distances, for Euclidean ones of their squares.
    """

    labels: Tensor  # N
    centres: Tensor  # K C; of length 1 for the cosine
    distances: Tensor  # N, to the centre of the vector's own cluster
    inertia: float
    metric: str
    silhouettes: dict[int, float] = field(default_factory=dict)  # of every number of clusters that was tried

    @property
    def sizes(self) -> list[int]:
        return torch.bincount(self.labels, minlength=len(self.centres)).tolist()

    def members(self, number: int) -> list[int]:
        """The vectors of a cluster, the nearest to its centre first."""
        found = (self.labels == number).nonzero()[:, 0]
        return found[self.distances[found].argsort(stable=True)].tolist()


@suggests
def cluster_vectors(
    vectors: Any,
    clusters: int | None = None,
    *,
    metric: str = "cosine",
    starts: int = 8,
    seed: int = 0,
    max_clusters: int = 10,
    progress: bool | None = None,
) -> Clustering:
    """Divide vectors, N C, by k-means: the best of several starts, the same for the same `seed`.

    Without `clusters`, every number from 2 to `max_clusters` is tried, and that with the highest silhouette is taken.

    >>> found = cluster_vectors([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1], [1.0, 0.0]])
    >>> found.labels.tolist(), found.sizes
    ([1, 1, 0, 0, 0], [3, 2])
    """
    check_choice("metric", metric, METRICS)
    check_at_least("starts", starts, 1)
    check_at_least("max_clusters", max_clusters, 2)
    points = checked_points(vectors, metric)
    different = len(points.unique(dim=0))
    if clusters is not None:
        check_at_least("clusters", clusters, 1)
        if clusters > different:
            raise InputError(f"{clusters} clusters need as many different vectors, got {different} of {len(points)}")
        return finish(points, best_start(points, clusters, starts, seed, metric), metric, {})
    largest = min(max_clusters, different, len(points) - 1)
    if largest < 2:
        raise InputError(f"the number of clusters is chosen among three vectors or more that differ, got {different}")
    found, silhouettes = {}, {}
    for count in show_progress(range(2, largest + 1), largest - 1, progress, "cluster", unit="numbers of clusters"):
        found[count] = best_start(points, count, starts, seed, metric)
        silhouettes[count] = silhouette_of(points, nearest(points, found[count])[0], seed, metric)
    best = max(silhouettes, key=silhouettes.__getitem__)
    return finish(points, found[best], metric, silhouettes)


def silhouette(vectors: Any, labels: Iterable[int], metric: str = "cosine", *, seed: int = 0) -> float:
    """How much nearer vectors are to their own cluster than to the next one, from -1 to 1 (Rousseeuw 1987).

    Of more than 2,000 vectors a sample is taken. For the cosine, distances are 1 - cosine.
    """
    check_choice("metric", metric, METRICS)
    points = checked_points(vectors, metric)
    numbers = torch.as_tensor(list(labels))
    if len(numbers) != len(points) or len(numbers.unique()) < 2:
        raise InputError(f"give a label for each of {len(points)} vectors, and two different ones or more")
    return silhouette_of(points, numbers.unique(return_inverse=True)[1], seed, metric)


# --- the steps --------------------------------------------------------------------------------------------------------


def checked_points(vectors: Any, metric: str) -> Tensor:
    """Vectors in double precision; for the cosine of length 1, so that squared distances are 2 - 2 cosine."""
    points = as_vectors(vectors).double()
    if not len(points):
        raise InputError("there are no vectors to divide")
    bad = (~points.isfinite().all(1)).nonzero()
    if len(bad):
        raise InputError(f"vectors must be finite, and number {int(bad[0])} is not")
    if metric != "cosine":
        return points
    zero = (points.norm(dim=1) == 0).nonzero()
    if len(zero):
        raise InputError(f"a vector of zeros has no direction: number {int(zero[0])}; metric='euclidean' takes it")
    return F.normalize(points, dim=1)


def best_start(points: Tensor, count: int, starts: int, seed: int, metric: str) -> Tensor:
    """The centres of the best of several runs."""
    generator = torch.Generator().manual_seed(seed)
    runs = [improve(points, first_centres(points, count, generator), metric) for _ in range(starts)]
    return min(runs, key=lambda centres: float(nearest(points, centres)[1].sum()))


def first_centres(points: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Greedy k-means++ (Arthur and Vassilvitskii 2007): of some candidates, likelier far away, the best."""
    tries = 2 + count.bit_length()
    first = int(torch.randint(len(points), (1,), generator=generator))
    chosen, away = [first], squared_distances(points, points[first : first + 1])[:, 0]
    while len(chosen) < count:
        chances = away if float(away.sum()) > 0 else torch.ones_like(away)  # all that are left are alike
        candidates = torch.multinomial(chances, tries, replacement=True, generator=generator)
        left = torch.minimum(away, squared_distances(points, points[candidates]).T)  # tries N
        best = int(left.sum(1).argmin())
        chosen.append(int(candidates[best]))
        away = left[best]
    return points[chosen]


def improve(points: Tensor, centres: Tensor, metric: str) -> Tensor:
    """Lloyd's iterations until no vector changes its cluster; for the cosine, centres keep the length 1."""
    before = None
    for _ in range(MAX_ITERATIONS):
        labels, away = nearest(points, centres)
        if before is not None and torch.equal(labels, before):
            break
        before = labels
        centres = means(points, labels, away, len(centres))
        centres = F.normalize(centres, dim=1) if metric == "cosine" else centres
    return centres


def means(points: Tensor, labels: Tensor, away: Tensor, count: int) -> Tensor:
    """The mean of every cluster; an empty one gets the vector that is farthest from its centre."""
    sums = points.new_zeros(count, points.shape[1]).index_add_(0, labels, points)
    sizes = torch.bincount(labels, minlength=count)
    centres = sums / sizes.clamp(min=1)[:, None]
    empty = (sizes == 0).nonzero()[:, 0]
    centres[empty] = points[away.topk(len(empty)).indices]
    return centres


def nearest(points: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest centre of every vector, and the squared distance to it."""
    away, labels = squared_distances(points, centres).min(1)
    return labels, away


def squared_distances(points: Tensor, centres: Tensor) -> Tensor:
    """N C and K C -> N K"""
    squares = points.square().sum(1)[:, None] - 2 * points @ centres.T + centres.square().sum(1)
    return squares.clamp(min=0)


def finish(points: Tensor, centres: Tensor, metric: str, silhouettes: dict[int, float]) -> Clustering:
    """The result, its clusters by size."""
    labels, away = nearest(points, centres)
    order = torch.bincount(labels, minlength=len(centres)).argsort(descending=True, stable=True)
    labels, centres = order.argsort()[labels], centres[order]
    distances = away / 2 if metric == "cosine" else away.sqrt()
    inertia = float(distances.sum() if metric == "cosine" else away.sum())
    return Clustering(labels, centres, distances, inertia, metric, silhouettes)


def silhouette_of(points: Tensor, labels: Tensor, seed: int, metric: str) -> float:
    if len(points) > SAMPLED:
        sample = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))[:SAMPLED]
        points, labels = points[sample], labels[sample]
    distances = squared_distances(points, points)
    distances = distances if metric == "cosine" else distances.sqrt()
    distances.fill_diagonal_(0.0)
    owns = F.one_hot(labels).double()  # N K
    owns = owns[:, owns.sum(0) > 0]
    sizes = owns.sum(0)
    totals = distances @ owns  # N K
    own_size = owns @ sizes
    inside = (totals * owns).sum(1) / (own_size - 1).clamp(min=1)
    outside = (totals / sizes).masked_fill(owns.bool(), torch.inf).min(1).values
    score = (outside - inside) / torch.maximum(inside, outside).clamp(min=1e-300)
    return float(score.masked_fill(own_size == 1, 0.0).mean())
