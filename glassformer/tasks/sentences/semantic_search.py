"""Semantic search: the texts of a corpus whose vectors are most similar to that of a query."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import torch
from torch import Tensor

from ...data.columns import usual_names
from ...data.readers import read_rows
from ...errors import InputError, suggests
from ...text.base.text_inputs import describe
from ..task_options import check_at_least
from .similarity_measures import as_vectors

if TYPE_CHECKING:
    from .sentence_encoder import SentenceEncoder

CHUNK = 4096  # vectors of a corpus that are compared at once


@suggests
def search(
    encoder: SentenceEncoder,
    queries: Any,
    corpus: Any,
    top_k: int = 10,
    batch_size: int | None = None,
    show_progress_bar: bool | None = None,
) -> list:
    """The best matches of each query, best first: `{"corpus_id": index, "score": similarity, "text": ...}`.

    Queries and corpus may be texts or vectors. A corpus may also be a file of rows with a `text`, as a `pathlib.Path`,
    or any stream of texts or such rows: it is read once, and only the best matches stay in memory. A single text as the
    query returns one list.
    """
    check_at_least("top_k", top_k)
    vectors = query_vectors(encoder, queries, batch_size)
    best: list[list[Hit]] = [[] for _ in range(len(vectors))]
    for chunk in corpus_chunks(encoder, corpus, batch_size, show_progress_bar):
        values, indices = encoder.similarity(vectors, chunk.vectors).topk(min(top_k, len(chunk.vectors)))
        for hits, scores, neighbours in zip(best, values.tolist(), indices.tolist(), strict=True):
            hits += [chunk.hit(score, index) for score, index in zip(scores, neighbours, strict=True)]
            hits[:] = heapq.nlargest(top_k, hits, key=lambda hit: hit[:2])
    results = [[hit.to_dict() for hit in hits] for hits in best]
    return results[0] if isinstance(queries, str) else results


class Hit(NamedTuple):
    """A match; its index is negated, so that of equally good ones the first is the largest."""

    score: float
    negative_index: int
    text: str | None

    def to_dict(self) -> dict[str, Any]:
        text = {} if self.text is None else {"text": self.text}
        return {"corpus_id": -self.negative_index, "score": self.score, **text}


class Chunk(NamedTuple):
    """Consecutive texts of a corpus."""

    start: int
    vectors: Tensor
    texts: list[str] | None

    def hit(self, score: float, index: int) -> Hit:
        return Hit(score, -(self.start + index), None if self.texts is None else self.texts[index])


def query_vectors(encoder: SentenceEncoder, queries: Any, batch_size: int | None) -> Tensor:
    if isinstance(queries, Tensor | numpy.ndarray):
        return as_vectors(queries)
    texts = [queries] if isinstance(queries, str) else queries
    return encoder.encode_query(texts, batch_size=batch_size, convert_to_tensor=True)


def corpus_chunks(encoder: SentenceEncoder, corpus: Any, batch_size: int | None, show: bool | None) -> Iterator[Chunk]:
    """The vectors of a corpus, in chunks."""
    if isinstance(corpus, Tensor | numpy.ndarray):
        vectors = as_vectors(corpus)
        for start in range(0, len(vectors), CHUNK):
            yield Chunk(start, vectors[start : start + CHUNK], None)
        return
    if isinstance(corpus, str | Mapping) or not isinstance(corpus, Iterable | Path):
        raise InputError(f"corpus must be texts, rows or vectors, or a file as a pathlib.Path, got {describe(corpus)}")
    rows, read = itertools.tee(read_rows(corpus) if isinstance(corpus, Path) else corpus)
    embedded = encoder.stream_documents(read, batch_size=batch_size, show_progress_bar=show)
    truncated: list[int] = []
    start = 0
    while found := list(itertools.islice(embedded, CHUNK)):
        truncated += [number for number, each in enumerate(found, start) if each.truncated]
        texts = [text_of(row) for row in itertools.islice(rows, len(found))]
        yield Chunk(start, torch.stack([each.vector for each in found]), texts)
        start += len(found)
    encoder.warn_truncated(truncated, start)


def text_of(row: Any) -> str:
    """The text of a row, which may be the text itself."""
    if not isinstance(row, Mapping):
        return row
    return row[next(iter(usual_names(row, ("text",))), "text")]
