"""The four similarity measures of Sentence-BERT folders; distances are negated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError, nearest


def cosine(a: Tensor, b: Tensor) -> Tensor:
    return dot(F.normalize(a, dim=-1), F.normalize(b, dim=-1))


def dot(a: Tensor, b: Tensor) -> Tensor:
    return a @ b.T


def euclidean(a: Tensor, b: Tensor) -> Tensor:
    return -torch.cdist(a, b, p=2.0)


def manhattan(a: Tensor, b: Tensor) -> Tensor:
    return -torch.cdist(a, b, p=1.0)


SIMILARITIES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # N C and M C -> N M
    "cosine": cosine,
    "dot": dot,
    "euclidean": euclidean,
    "manhattan": manhattan,
}
ALIASES = {"cos": "cosine", "cos_sim": "cosine", "dot_product": "dot", "dot_score": "dot"}


def similarity_name(name: Any) -> str:
    """The name of a measure, from any of its names."""
    name = ALIASES.get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in SIMILARITIES:
        hint = nearest(str(name), SIMILARITIES)
        raise InputError(f"similarity must be one of {', '.join(SIMILARITIES)}, got {name!r}{hint}")
    return name


def as_vectors(values: Any) -> Tensor:
    """Vectors from a tensor, an array or lists; one vector counts as one row."""
    vectors = torch.as_tensor(values) if not isinstance(values, list | tuple) else stack_vectors(values)
    vectors = vectors if vectors.is_floating_point() else vectors.float()
    vectors = vectors[None] if vectors.dim() == 1 else vectors
    if vectors.dim() != 2:
        raise InputError(f"vectors must have the shape N C, got {list(vectors.shape)}")
    return vectors


def stack_vectors(values: list | tuple) -> Tensor:
    return torch.stack([torch.as_tensor(value) for value in values]) if values else torch.zeros(0, 0)


def similarity_matrix(a: Any, b: Any, name: str) -> Tensor:
    """The similarity of every vector of `a` to every vector of `b`: N M."""
    a, b = as_vectors(a), as_vectors(b)
    if a.shape[1] != b.shape[1]:
        raise InputError(f"vectors of {a.shape[1]} and {b.shape[1]} numbers cannot be compared")
    return SIMILARITIES[similarity_name(name)](a, b.to(a))


def pairwise_similarity(a: Any, b: Any, name: str) -> Tensor:
    """The similarity of each vector of `a` to the one with the same index in `b`: N."""
    a, b = as_vectors(a), as_vectors(b)
    if a.shape != b.shape:
        raise InputError(f"vectors in pairs must be equally many and long, got {list(a.shape)} and {list(b.shape)}")
    name, b = similarity_name(name), b.to(a)
    if name == "cosine":
        return (F.normalize(a, dim=-1) * F.normalize(b, dim=-1)).sum(-1)
    if name == "dot":
        return (a * b).sum(-1)
    return -torch.linalg.vector_norm(a - b, ord=2 if name == "euclidean" else 1, dim=-1)
