"""Adaptive input and softmax (Grave et al. 2017, Baevski & Auli 2019): the rarer a word, the less it costs.

Words are numbered by frequency and cut into clusters. The first cluster is predicted together with one entry for each
of the others; a word of those is predicted within its cluster alone. Vectors of later clusters are narrower by a factor
of `div_val` each, and a projection widens them to the model's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .linear import Linear


def cluster_widths(embedding_size: int, clusters: int, div_val: int) -> list[int]:
    """How wide the vectors of each cluster are.

    >>> cluster_widths(64, 3, 4)
    [64, 16, 4]
    """
    return [embedding_size // div_val**i for i in range(clusters)]


class AdaptiveEmbedding(nn.Module):
    """Word vectors N -> N C, scaled by the square root of C; one table for each cluster, or one if all are as wide.

    >>> AdaptiveEmbedding(10, 8, 6, cutoffs=[4], div_val=2)(torch.tensor([1, 9])).shape
    torch.Size([2, 6])
    """

    padding_idx = None

    def __init__(self, vocab_size: int, embedding_size: int, hidden_size: int, cutoffs: Sequence[int], div_val: int):
        super().__init__()
        self.embedding_dim, self.div_val = hidden_size, div_val
        self.bounds = [0, *cutoffs, vocab_size] if div_val > 1 else [0, vocab_size]
        widths = cluster_widths(embedding_size, len(self.bounds) - 1, div_val)
        sizes = [end - begin for begin, end in zip(self.bounds, self.bounds[1:], strict=False)]
        self.emb_layers = nn.ModuleList(nn.Embedding(*shape) for shape in zip(sizes, widths, strict=True))
        has_projection = div_val > 1 or embedding_size != hidden_size
        projections = [torch.empty(hidden_size, width) for width in widths] if has_projection else []
        self.emb_projs = nn.ParameterList(nn.Parameter(each) for each in projections)

    @property
    def num_embeddings(self) -> int:
        return self.bounds[-1]

    @property
    def weight(self) -> nn.Parameter:
        """The table of the most frequent words."""
        return self.emb_layers[0].weight

    def forward(self, ids: Tensor) -> Tensor:
        """... -> ... C"""
        flat = ids.reshape(-1)
        if len(self.emb_layers) == 1:
            vectors = self.vectors(0, flat)
        else:
            vectors = self.weight.new_zeros(len(flat), self.embedding_dim)
            for cluster, (begin, end) in enumerate(zip(self.bounds, self.bounds[1:], strict=False)):
                places = ((flat >= begin) & (flat < end)).nonzero()[:, 0]
                if len(places):
                    found = self.vectors(cluster, flat[places] - begin)
                    vectors = vectors.index_copy(0, places, found.to(vectors.dtype))
        return vectors.view(*ids.shape, self.embedding_dim) * self.embedding_dim**0.5

    def vectors(self, cluster: int, ids: Tensor) -> Tensor:
        found = self.emb_layers[cluster](ids)
        return F.linear(found, self.emb_projs[cluster]) if len(self.emb_projs) else found

    def resize(self, cluster: int, size: int) -> nn.Embedding:
        """A table of another size in place of one; old rows stay, the new table is returned with empty further ones."""
        old = self.emb_layers[cluster]
        new = nn.Embedding(size, old.embedding_dim).to(old.weight)
        new.weight.requires_grad_(old.weight.requires_grad)
        self.emb_layers[cluster] = new
        ends = [table.num_embeddings for table in self.emb_layers]
        self.bounds = [0, *torch.tensor(ends).cumsum(0).tolist()]
        return new


class ProjectedAdaptiveLogSoftmax(nn.Module):
    """The log-probabilities of the next words, N C -> N V; or only the losses of given words, which is cheaper."""

    def __init__(self, vocab_size: int, embedding_size: int, hidden_size: int, cutoffs: Sequence[int], div_val: int):
        super().__init__()
        self.bounds, self.div_val = [0, *cutoffs, vocab_size], div_val
        clusters = len(self.bounds) - 1
        if clusters > 1:
            self.cluster_weight = nn.Parameter(torch.zeros(clusters - 1, embedding_size))
            self.cluster_bias = nn.Parameter(torch.zeros(clusters - 1))
        if div_val > 1:
            widths = cluster_widths(embedding_size, clusters, div_val)
            sizes = [end - begin for begin, end in zip(self.bounds, self.bounds[1:], strict=False)]
        else:
            widths, sizes = [embedding_size], [vocab_size]
        self.out_layers = nn.ModuleList(Linear(*shape) for shape in zip(widths, sizes, strict=True))
        has_projection = div_val > 1 or embedding_size != hidden_size
        columns = widths if div_val > 1 else widths * clusters
        projections = [torch.empty(hidden_size, width) for width in columns] if has_projection else []
        self.out_projs = nn.ParameterList(nn.Parameter(each) for each in projections)

    @property
    def cluster_count(self) -> int:
        return len(self.bounds) - 1

    def forward(self, rows: Tensor) -> Tensor:
        head = self.head_log_probs(rows)
        shortlist = self.bounds[1]
        parts = [head[:, :shortlist]]
        for cluster in range(1, self.cluster_count):
            parts.append(head[:, shortlist + cluster - 1, None] + self.scores(cluster, rows).log_softmax(-1))
        return torch.cat(parts, 1)

    def losses(self, rows: Tensor, words: Tensor) -> Tensor:
        """-log p of one word for each row: N C and N -> N. Only the clusters that the words are in are computed."""
        head = self.head_log_probs(rows)
        shortlist = self.bounds[1]
        cluster_of = torch.bucketize(words, torch.tensor(self.bounds[1:-1], device=words.device), right=True)
        entries = torch.where(cluster_of == 0, words, shortlist + cluster_of - 1)
        found = head.gather(1, entries[:, None])[:, 0]
        for cluster in range(1, self.cluster_count):
            places = (cluster_of == cluster).nonzero()[:, 0]
            if len(places):
                tail = self.scores(cluster, rows[places]).log_softmax(-1)
                within = (words[places] - self.bounds[cluster])[:, None]
                found = found.index_add(0, places, tail.gather(1, within)[:, 0])
        return -found

    def in_cluster_order(self, words: Tensor) -> Tensor:
        """The places of words cluster by cluster; those of no cluster, such as ignored labels, last."""
        cluster_of = torch.bucketize(words, torch.tensor(self.bounds[1:-1], device=words.device), right=True)
        return cluster_of.masked_fill(words < 0, self.cluster_count).argsort(stable=True)

    def head_log_probs(self, rows: Tensor) -> Tensor:
        """Of the first cluster's words, then of each other cluster: N (words + clusters - 1)."""
        scores = self.scores(0, rows)
        if self.cluster_count > 1:
            clusters = F.linear(self.projected(0, rows), self.cluster_weight, self.cluster_bias)
            scores = torch.cat((scores, clusters), 1)
        return scores.log_softmax(-1)

    def scores(self, cluster: int, rows: Tensor) -> Tensor:
        projected = self.projected(cluster, rows)
        if self.div_val > 1 or self.cluster_count == 1:
            return self.out_layers[cluster](projected)
        layer, (begin, end) = self.out_layers[0], self.bounds[cluster : cluster + 2]
        if layer.weight is None:  # quantized
            return layer(projected)[:, begin:end]
        return F.linear(projected, layer.weight[begin:end], layer.bias[begin:end])

    def projected(self, cluster: int, rows: Tensor) -> Tensor:
        return F.linear(rows, self.out_projs[cluster].mT) if len(self.out_projs) else rows

    def resize(self, cluster: int, bounds: Sequence[int]) -> None:
        """Take over the bounds of a table that was resized; the layer's new biases are 0."""
        self.bounds = [0, *bounds] if self.div_val > 1 else [*self.bounds[:-1], bounds[-1]]
        old = self.out_layers[cluster]
        size = self.bounds[cluster + 1] - self.bounds[cluster] if self.div_val > 1 else self.bounds[-1]
        new = Linear(old.in_features, size).to(old.weight)
        shared = min(size, old.out_features)
        with torch.no_grad():
            new.weight[:shared], new.bias[:shared] = old.weight[:shared], old.bias[:shared]
            new.bias[shared:] = 0
        for mine, theirs in ((new.weight, old.weight), (new.bias, old.bias)):
            mine.requires_grad_(theirs.requires_grad)
        self.out_layers[cluster] = new
