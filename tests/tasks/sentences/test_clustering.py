"""k-means beside scikit-learn, silhouettes, and what clusters are about."""

from __future__ import annotations

import pytest
import torch

import glassformer
from glassformer import InputError, cluster_vectors, silhouette, summarise_clusters
from glassformer.tasks.sentences.cluster_summary import characteristic_words, principal_plane, words_of
from glassformer.tasks.sentences.clustering import first_centres, means, squared_distances


def blobs(spread: float, count: int = 4, each: int = 40, width: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around centres, and which centre each belongs to."""
    torch.manual_seed(3)
    centres = 4 * torch.eye(width)[:count]
    labels = torch.arange(count).repeat(each)
    return centres[labels] + spread * torch.randn(count * each, width), labels


def same_partition(a, b) -> bool:
    pairs = set(zip(map(int, a), map(int, b), strict=True))
    return len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})


@pytest.mark.parametrize("spread", [0.2, 1.5])
def test_inertia_beside_scikit_learn(spread):
    sklearn = pytest.importorskip("sklearn.cluster")
    points, labels = blobs(spread)
    theirs = sklearn.KMeans(4, n_init=10, random_state=0).fit(points.double().numpy())
    mine = cluster_vectors(points, 4, metric="euclidean")
    assert mine.inertia <= theirs.inertia_ * (1 + 1e-3)
    by_hand = sum(
        ((points.double() - centre) ** 2).sum(1)[mine.labels == i].sum() for i, centre in enumerate(mine.centres)
    )
    assert mine.inertia == pytest.approx(float(by_hand), rel=1e-9)
    if spread == 0.2:
        assert same_partition(mine.labels, theirs.labels_) and same_partition(mine.labels, labels)


def test_the_silhouette_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    points, labels = blobs(1.0)
    labels[0] = 7  # alone in its cluster, and numbers may have gaps
    for metric in ("euclidean", "cosine"):
        expected = metrics.silhouette_score(points.double().numpy(), labels.numpy(), metric=metric)
        assert silhouette(points, labels, metric) == pytest.approx(expected, abs=1e-9)


def test_cosine_looks_at_directions_only():
    points, labels = blobs(0.2)
    scales = torch.linspace(0.1, 9, len(points))[:, None]
    plain, scaled = cluster_vectors(points, 4), cluster_vectors(points * scales, 4)
    assert same_partition(plain.labels, labels) and same_partition(scaled.labels, labels)
    torch.testing.assert_close(plain.distances, scaled.distances, atol=1e-6, rtol=1e-4)
    nearest = torch.nn.functional.cosine_similarity(points.double(), plain.centres[plain.labels])
    torch.testing.assert_close(plain.distances, 1 - nearest, atol=1e-9, rtol=0)
    assert plain.inertia == pytest.approx(float(plain.distances.sum()))


def test_the_number_of_clusters_is_that_of_the_highest_silhouette():
    points, labels = blobs(0.5)
    found = cluster_vectors(points, metric="euclidean", max_clusters=7)
    assert list(found.silhouettes) == [2, 3, 4, 5, 6, 7]
    assert len(found.centres) == 4 == max(found.silhouettes, key=found.silhouettes.get)
    assert found.silhouettes[4] == pytest.approx(silhouette(points, found.labels, "euclidean"), abs=1e-9)
    assert same_partition(found.labels, labels)


def test_a_seed_repeats_and_more_starts_are_not_worse():
    points, _ = blobs(2.5, count=6, width=8)
    one, again = (cluster_vectors(points, 6, starts=3, seed=5) for _ in range(2))
    assert torch.equal(one.labels, again.labels) and torch.equal(one.centres, again.centres)
    inertias = [cluster_vectors(points, 6, metric="euclidean", starts=starts, seed=5).inertia for starts in (1, 12)]
    assert inertias[1] <= inertias[0]


def test_clusters_are_in_order_of_size():
    found = cluster_vectors([[0.0, 1], [5, 1], [5, 1.1], [5, 0.9], [9, 9], [9, 9.1]], 3, metric="euclidean")
    assert found.sizes == [3, 2, 1] and found.labels.tolist() == [2, 0, 0, 0, 1, 1]
    assert found.members(0)[0] == 1


def test_the_first_centres_are_the_best_of_their_candidates():
    """All six blobs are found; the first candidate each time finds them in 6 of these 20 seeds."""
    points, labels = blobs(0.5, count=6, width=6)
    points = points.double()
    spread = 0
    for seed in range(20):
        chosen = first_centres(points, 6, torch.Generator().manual_seed(seed))
        spread += len({int(labels[squared_distances(points, one[None]).argmin()]) for one in chosen}) == 6
    assert spread >= 18


def test_an_empty_cluster_gets_the_farthest_vector():
    points = torch.tensor([[0.0], [1.0], [9.0]]).double()
    found = means(points, torch.tensor([0, 0, 0]), torch.tensor([0.0, 1.0, 81.0]).double(), 2)
    assert found[:, 0].tolist() == [pytest.approx(10 / 3), 9.0]


@pytest.mark.parametrize(
    ("vectors", "arguments", "said"),
    [
        ([[1.0, 0], [1, 0], [0, 1]], {"clusters": 3}, "3 clusters need as many different vectors, got 2 of 3"),
        ([[1.0, 0], [0, 1]], {}, "three vectors or more that differ, got 2"),
        ([[1.0, 0], [float("nan"), 1]], {"clusters": 2}, "vectors must be finite, and number 1 is not"),
        ([[1.0, 0], [0, 0]], {"clusters": 2}, "a vector of zeros has no direction: number 1"),
        ([[1.0, 0]], {"clusters": 0}, "clusters must be"),
        ([[1.0, 0]], {"clusters": 1, "starts": 0}, "starts must be"),
        ([[1.0, 0]], {"metric": "cosin"}, "metric must be one of 'cosine', 'euclidean', got 'cosin'"),
        (torch.zeros(0, 3), {"clusters": 1}, "there are no vectors to divide"),
    ],
)
def test_wrong_input_is_refused(vectors, arguments, said):
    with pytest.raises(InputError, match=said):
        cluster_vectors(vectors, **arguments)


def test_what_clusters_are_about():
    texts = ["red fox", "a red hen", "red", "blue sea", "a blue sky", "blue sea"]
    found = cluster_vectors([[1.0, 0.2], [1, 0], [1, 0.1], [0, 1], [0.3, 1], [0, 1]], 2)
    first, second = sorted(summarise_clusters(found, texts, 2), key=lambda each: each.words)
    assert first.words == ["blue", "sea"] and second.words == ["red", "fox"]
    assert second.typical[0] == 2 and second.size == 3
    assert words_of("我爱 Paris") == {"我爱", "paris"}
    assert characteristic_words(["same", "same"], [0, 1], 2, 3) == [[], []]


def test_the_plane_is_that_of_scikit_learn():
    decomposition = pytest.importorskip("sklearn.decomposition")
    points, _ = blobs(1.0)
    theirs = decomposition.PCA(2).fit(points.double().numpy())
    places, shares = principal_plane(points)
    assert shares == pytest.approx(theirs.explained_variance_ratio_)
    torch.testing.assert_close(places.abs(), torch.as_tensor(theirs.transform(points.double().numpy())).abs())
    assert principal_plane([[1.0], [2.0]])[0].shape == (2, 2)


def test_the_names_are_public():
    assert {"cluster_vectors", "silhouette", "summarise_clusters", "draw_clusters"} <= set(glassformer.__all__)
