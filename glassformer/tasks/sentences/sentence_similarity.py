"""sentence-similarity: how alike two texts are in meaning."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError, spelt
from ...models.base import PreTrainedModel
from ...text.base.encoding_options import one_of
from ...text.base.text_inputs import describe
from ...text.encoding import EncodedRow as Encoded
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example, group_sizes, grouped
from ..inputs import Columns, Row
from ..metrics import correlation
from ..objectives import LOSS
from ..text_classification import numbers
from .contrastive_loss import MARGIN, OBJECTIVES, SCALE, ranking_loss, same_texts, triplet_loss
from .sentence_embedding import Embedding, EmbeddingOptions
from .sentence_encoder import SentenceEncoder
from .similarity_measures import compared, similarity_name

log = logging.getLogger("glassformer")

OTHER_NAMES = {"source_sentence": "text", "sentences": "text_pair"}  # those of the hosted interface


@dataclass(frozen=True, kw_only=True)
class SentenceSimilarityOptions(EmbeddingOptions):
    similarity: str | None = None  # "cosine", "dot", "euclidean", "manhattan"; None: the model's own
    objective: str = "score"  # what is learnt: the cosine; "ranking": to find text_pair among others; "triplet"
    full_score: float = 1.0  # of "score": what rows write for texts that mean the same, 5 in STS-B
    scale: float = SCALE  # of "ranking": what cosines are multiplied with
    margin: float = MARGIN  # of "triplet": by how much negatives must be farther away

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("objective", self.objective, OBJECTIVES)
        for name in ("full_score", "scale", "margin"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InputError(f"{name} must be a number above 0, got {value!r}")
        if self.similarity is not None:
            similarity_name(self.similarity)


class SentenceSimilarity(Embedding):
    """How alike is a text to another, or to each of several?

    >>> pipe = pipeline("sentence-similarity", model="./all-MiniLM-L6-v2/")               # doctest: +SKIP
    >>> pipe("A cat sleeps.", "The kitten naps.")                                         # doctest: +SKIP
    0.72
    >>> pipe(source_sentence="A cat sleeps.", sentences=["The kitten naps.", "It rains."])  # doctest: +SKIP
    [0.72, 0.11]

    The pipeline has the encoder's methods too: `pipe.encode(texts)`, `pipe.similarity(a, b)`, `pipe.search(...)`.
    """

    name = "sentence-similarity"
    columns = Columns(("text", "text_pair"), (), ("score", "negative"))
    Options = SentenceSimilarityOptions

    def __init__(
        self, model: SentenceEncoder | PreTrainedModel, tokenizer: PreTrainedTokenizer | None = None, **options: Any
    ) -> None:
        super().__init__(model if isinstance(model, SentenceEncoder) else SentenceEncoder(model, tokenizer), **options)

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        tokenizer: PreTrainedTokenizer | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SentenceSimilarity:
        encoder = SentenceEncoder.from_pretrained(name_or_path, tokenizer, hub=hub, **(model_arguments or {}))
        return cls(encoder, **options)

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def take(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        row = {name: named[name] for name in OTHER_NAMES if name in named}
        if row and not inputs:
            return row, {name: value for name, value in named.items() if name not in row}
        return super().take(inputs, named)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping) or (isinstance(given, tuple) and bool(given) and isinstance(given[0], str))

    def read(self, given: Any) -> Row:
        if isinstance(given, Mapping) and OTHER_NAMES.keys() & given.keys():
            given = {OTHER_NAMES.get(name, name): value for name, value in given.items()}
        return super().read(given)

    def check_column(self, name: str, value: Any) -> None:
        several = isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
        if name == "text_pair" and value is not None and not isinstance(value, str) and not several:
            raise InputError(f"text_pair must be a text or a list of texts, got {describe(value)}")
        if name != "text_pair":
            super().check_column(name, value)

    def encoded(self, texts: list[str]) -> list[Encoded]:
        found = super().encoded(texts)
        if any(each.truncated for each in found):
            self.report_truncation("text", self.limit)
        return found

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        return [self.encode(row) for row in rows]  # a row is several texts, not one as in Embedding

    def encode(self, row: Row) -> list[Example]:
        """One example for each text."""
        examples = [Example(each, window=i) for i, each in enumerate(self.encoded([row["text"], *others(row)]))]
        if row.get("score") is not None:
            for example, score in zip(examples, [0.0, *self.scores(row)], strict=True):
                example.labels["labels"] = score
        return examples

    def learn_from(self, row: Any, seed: Sequence[int]) -> list[Example]:
        """A row that tells no score can teach which texts belong together, and which not."""
        read = self.read(row)
        if read.get("score") is not None:
            return self.encode(read)
        if self.options.objective == "score":
            asked = spelt("option", "objective", "ranking")
            raise InputError(f"{self.name} learns from rows with score; {asked} learns from pairs alone")
        return self.encode_contrast(read)

    def encode_contrast(self, row: Row) -> list[Example]:
        """A text, the one it belongs to, and those it does not belong to."""
        negative = row.get("negative")
        given = [] if negative is None else [negative] if isinstance(negative, str) else list(negative)
        if len(others(row)) != 1:
            raise InputError(f"a contrast has one text_pair, and others in negative; got {describe(row['text_pair'])}")
        texts = [row["text"], *others(row), *given]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"negative must be a text or a list of texts, got {describe(negative)}")
        if self.options.objective == "triplet" and len(texts) != 3:
            raise InputError(f"a triplet is text, text_pair and one negative; the row has {len(texts) - 2} negatives")
        return [Example(each, {"contrast": i}, window=i) for i, each in enumerate(self.encoded(texts))]

    def scores(self, row: Row) -> list[float]:
        """How alike the row says its texts are, as a cosine."""
        read = numbers(row["score"], len(others(row)), "score")
        listed = read if isinstance(read, list) else [read]
        highest = max(map(abs, listed), default=0.0)
        if highest > self.options.full_score and "reach" not in self.kept:
            self.kept["reach"] = True
            told = "a score of %s is above full_score %s, and no cosine gets there; if scores end at %d, pass %s"
            end = math.ceil(highest)
            log.warning(told, highest, self.options.full_score, end, spelt("option", "full_score", end))
        return [score / self.options.full_score for score in listed]

    def count_targets(self, batch: Batch) -> dict[str, int]:
        if "contrast" in batch.labels:
            return {LOSS: int((batch.labels["contrast"] == 0).sum())}
        return {LOSS: sum(size - 1 for size in group_sizes(batch.examples))}

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> float | list[float]:
        measure = self.options.similarity or self.encoder.similarity_fn_name
        scores = compared(outputs[0], torch.stack(list(outputs[1:])), measure)[0].tolist()
        return scores[0] if isinstance(row["text_pair"], str) else scores

    # --- training and evaluation -------------------------------------------------------------------------------

    def loss_of(self, vectors: Tensor, batch: Batch) -> Tensor:  # B C
        """The squared distance between cosine and score, as Sentence-BERT was first trained; or a contrast."""
        if "contrast" in batch.labels:
            return self.contrast(vectors, batch)
        vectors = F.normalize(vectors, dim=-1)
        groups = grouped(batch.examples, vectors, batch.labels["labels"])
        return torch.stack([((one[1:] @ one[0] - scores[1:]) ** 2).sum() for one, scores in groups]).sum()

    def contrast(self, vectors: Tensor, batch: Batch) -> Tensor:
        """The loss of rows that tell what belongs together; the rows of a batch are each other's negatives."""
        kinds = batch.labels["contrast"]
        anchors, positives, negatives = (vectors[kinds == 0], vectors[kinds == 1], vectors[kinds > 1])
        if self.options.objective == "triplet":
            return triplet_loss(anchors, positives, negatives, self.options.margin)
        texts = [tuple(example.encoded.ids()) for example in batch.examples]
        right = [text for text, kind in zip(texts, kinds.tolist(), strict=True) if kind == 1]
        wrong = [text for text, kind in zip(texts, kinds.tolist(), strict=True) if kind > 1]
        same = same_texts(right, right + wrong).to(vectors.device)
        return ranking_loss(anchors, positives, negatives, self.options.scale, same)

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("spearman", "pearson")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> float:
        answer = self.answer(row, examples, outputs)
        return answer if isinstance(answer, float) else answer[0]

    def reference(self, row: Row) -> float:
        if row.get("score") is None:
            raise InputError(f"{self.name} is judged by rows with score")
        return self.scores(row)[0]

    def metric(self, predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
        return correlation(predictions, references)


def others(row: Row) -> list[str]:
    """What a row's text is compared with."""
    return [row["text_pair"]] if isinstance(row["text_pair"], str) else list(row["text_pair"])
