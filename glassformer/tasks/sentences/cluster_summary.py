"""What clusters of texts are about: their typical texts, their characteristic words, all of them in a plane."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...text.wordpiece.wordpiece import is_chinese
from .clustering import Clustering

WORD = re.compile(r"\w[\w'’-]*\w|\w")


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster of texts."""

    cluster: int
    size: int
    words: list[str]  # that are more frequent here than elsewhere, the most characteristic first
    typical: list[int]  # the numbers of the texts that are nearest to the centre


def summarise_clusters(clustering: Clustering, texts: Sequence[str], top: int = 5) -> list[ClusterSummary]:
    """The typical texts and characteristic words of every cluster, `top` of each."""
    words = characteristic_words(texts, clustering.labels.tolist(), len(clustering.centres), top)
    return [
        ClusterSummary(number, size, words[number], clustering.members(number)[:top])
        for number, size in enumerate(clustering.sizes)
    ]


def characteristic_words(texts: Sequence[str], labels: Sequence[int], count: int, top: int) -> list[list[str]]:
    """Of each cluster the words that many of its texts have and few others: share x log(share / share of all texts).

    >>> characteristic_words(["red fox", "a red hen", "a blue sea", "blue"], [0, 0, 1, 1], 2, 1)
    [['red'], ['blue']]
    """
    everywhere: Counter[str] = Counter()
    inside: list[Counter[str]] = [Counter() for _ in range(count)]
    sizes = Counter(labels)
    for text, label in zip(texts, labels, strict=True):
        found = words_of(text)
        everywhere.update(found)
        inside[label].update(found)
    result = []
    for number, words in enumerate(inside):
        scores = {}
        for word, times in words.items():
            share = times / sizes[number]
            scores[word] = share * math.log(share / (everywhere[word] / len(texts)))
        best = sorted((word for word in scores if scores[word] > 0), key=lambda word: (-scores[word], word))
        result.append(best[:top])
    return result


def words_of(text: str) -> set[str]:
    """The different words of a text, in lower case; of Chinese, which has no spaces, every two neighbouring characters.

    >>> sorted(words_of("Don't stop, 我爱北京!"))
    ["don't", 'stop', '北京', '我爱', '爱北']
    """
    found: set[str] = set()
    spaced = "".join(f"\0{char}\0" if is_chinese(char) else char for char in text)
    for stretch in re.findall(r"(?:\0.\0)+", spaced, re.DOTALL):
        chars = stretch.replace("\0", "")
        found.update(chars[i : i + 2] for i in range(max(1, len(chars) - 1)))
    return found | {word.lower() for word in WORD.findall(re.sub(r"(?:\0.\0)+", " ", spaced, flags=re.DOTALL))}


def principal_plane(vectors: Any) -> tuple[Tensor, tuple[float, float]]:
    """Vectors N C in the two directions in which they vary most (PCA), N 2, and the share of the variance in each."""
    points = torch.as_tensor(vectors).double()
    points = points - points.mean(0)
    _, lengths, directions = torch.linalg.svd(points, full_matrices=False)
    directions = directions[:2]
    signs = directions.gather(1, directions.abs().argmax(1, keepdim=True)).sign()  # so that every machine draws alike
    places = points @ (directions * signs).T
    places = torch.nn.functional.pad(places, (0, 2 - places.shape[1]))
    total = float(lengths.square().sum()) or 1.0
    shares = [float(value) / total for value in lengths.square()[:2]] + [0.0, 0.0]
    return places, (shares[0], shares[1])
