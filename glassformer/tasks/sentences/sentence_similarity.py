"""sentence-similarity: how similar two texts are in meaning."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError, spelt
from ...models.base.pretrained_model import PreTrainedModel
from ...nn.contrastive_loss import ranking_loss, same_texts, summed_cosine_loss, triplet_loss
from ...text.base.encoding_options import check_choice
from ...text.base.text_inputs import describe
from ...text.encoding import EncodedRow as Encoded
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example, examples_per_row
from ..classification import numbers
from ..inputs import Columns, Row
from ..metrics import correlation
from ..objectives import LOSS
from .sentence_embedding import EmbeddingOptions, EmbeddingTask
from .sentence_encoder import DOCUMENT, QUERY, SentenceEncoder
from .similarity_measures import similarity_matrix, similarity_name

ALIASES = {"source_sentence": "text", "sentences": "text_pair"}  # the column names of the hosted inference API
OBJECTIVES = ("score", "ranking", "triplet")


@dataclass(frozen=True, kw_only=True)
class SentenceSimilarityOptions(EmbeddingOptions):
    """Options for measures and for objectives of training.

    Attributes:
        similarity: "cosine", "dot", "euclidean" or "manhattan"; None: the model's own.
        objective: What is trained: "score": the cosine equals the score; "ranking": text_pair is found among those
            of other rows; "triplet": text_pair is nearer than the negative.
        full_score: For "score": the score of texts with the same meaning in the rows, 5 in STS-B.
        scale: For "ranking": the factor of cosines before the softmax.
        margin: For "triplet": by how much a negative must be farther away than the positive.
    """

    similarity: str | None = None
    objective: str = "score"
    full_score: float = 1.0
    scale: float = 20.0
    margin: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("objective", self.objective, OBJECTIVES)
        for name in ("full_score", "scale", "margin"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise InputError(f"{name} must be a number above 0, got {value!r}")
        if self.similarity is not None:
            similarity_name(self.similarity)


class SentenceSimilarity(EmbeddingTask):
    """Compute the similarity of a text to another, or to each of several.

    >>> pipe = pipeline("sentence-similarity", model="./all-MiniLM-L6-v2/")               # doctest: +SKIP
    >>> pipe("A cat sleeps.", "The kitten naps.")                                         # doctest: +SKIP
    0.72
    >>> pipe(source_sentence="A cat sleeps.", sentences=["The kitten naps.", "It rains."])  # doctest: +SKIP
    [0.72, 0.11]

    The pipeline has the encoder's methods too: `pipe.encode(texts)`, `pipe.similarity(a, b)`, `pipe.search(...)`.
    """

    name = "sentence-similarity"
    columns = Columns(("text", "text_pair"), (), ("score", "negative"), target_texts=("negative",))
    column_aliases = ALIASES
    Options = SentenceSimilarityOptions

    def __init__(
        self, model: SentenceEncoder | PreTrainedModel, tokenizer: PreTrainedTokenizer | None = None, **options: Any
    ) -> None:
        super().__init__(model if isinstance(model, SentenceEncoder) else SentenceEncoder(model, tokenizer), **options)

    @classmethod
    def load_parts(cls, name_or_path: Any, tokenizer: Any, hub: dict, model_arguments: dict) -> dict[str, Any]:
        return {"model": SentenceEncoder.from_pretrained(name_or_path, tokenizer, hub=hub, **model_arguments)}

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def parse_call(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        row = {name: named[name] for name in ALIASES if name in named}
        if row and not inputs:
            return row, {name: value for name, value in named.items() if name not in row}
        return super().parse_call(inputs, named)

    def is_single_row(self, given: Any) -> bool:
        return isinstance(given, Mapping) or (isinstance(given, tuple) and bool(given) and isinstance(given[0], str))

    def read(self, given: Any) -> Row:
        if isinstance(given, Mapping) and ALIASES.keys() & given.keys():
            given = {ALIASES.get(name, name): value for name, value in given.items()}
        return super().read(given)

    def check_column(self, name: str, value: Any) -> None:
        several = isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
        if name == "text_pair" and value is not None and not isinstance(value, str) and not several:
            raise InputError(f"text_pair must be a text or a list of texts, got {describe(value)}")
        if name != "text_pair":
            super().check_column(name, value)

    def encode_all(self, rows: Sequence[Row]) -> list[list[Example]]:
        return [self.encode(row) for row in rows]  # a row has several texts, and not one as in EmbeddingTask

    def encode_both(self, text: str, others: list[str]) -> list[Encoded]:
        """A text and those that it is compared with, as the inputs of the encoder for each side."""
        if not self.encoder.routes:
            return self.encode_prompted([text, *others])
        sides = ((QUERY, [text]), (DOCUMENT, others))
        tasks = [(EmbeddingTask(self.encoder.routed(names), **self.side_options), texts) for names, texts in sides]
        return [encoded for task, texts in tasks for encoded in task.encode_prompted(texts)]

    @property
    def side_options(self) -> dict[str, Any]:
        return {field.name: getattr(self.options, field.name) for field in fields(EmbeddingOptions)}

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        """Each text through the encoder for its side, where there are two."""
        if not model.routes:
            return super().outputs(model, batch)
        is_query = torch.tensor([example.window == 0 for example in batch.examples])
        vectors: Tensor | None = None
        for names, chosen in ((QUERY, is_query), (DOCUMENT, ~is_query)):
            rows = chosen.nonzero().squeeze(1).to(model.device)
            if len(rows):
                inputs = {name: value[rows] for name, value in batch.inputs.items()}
                out = model.routed(names)(**inputs, prompt_length=self.prompt_length)
                vectors = out.new_zeros(len(is_query), out.shape[1]) if vectors is None else vectors
                vectors = vectors.index_copy(0, rows, out)
        return vectors

    def encode(self, row: Row) -> list[Example]:
        """One example for each text."""
        encoded = self.encode_both(row["text"], others(row))
        examples = [Example(each, window=i) for i, each in enumerate(encoded)]
        if row.get("score") is not None:
            for example, score in zip(examples, [0.0, *self.scores(row)], strict=True):
                example.labels["labels"] = score
        return examples

    def training_examples(self, row: Any, seed: Sequence[int]) -> list[Example]:
        """A row without a score is an example of texts that belong together, and of others that do not."""
        read = self.read(row)
        if read.get("score") is not None:
            return self.encode(read)
        if self.options.objective == "score":
            option = spelt("option", "objective", "ranking")
            raise InputError(f"{self.name} is trained on rows with score; {option} needs only pairs")
        return self.encode_contrast(read)

    def encode_contrast(self, row: Row) -> list[Example]:
        """An anchor, its positive and its negatives."""
        negative = row.get("negative")
        given = [] if negative is None else [negative] if isinstance(negative, str) else list(negative)
        if len(others(row)) != 1:
            raise InputError(f"a contrast has one text_pair, and others in negative; got {describe(row['text_pair'])}")
        texts = [row["text"], *others(row), *given]
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"negative must be a text or a list of texts, got {describe(negative)}")
        if self.options.objective == "triplet" and len(texts) != 3:
            raise InputError(f"a triplet is text, text_pair and one negative; the row has {len(texts) - 2} negatives")
        return [
            Example(each, {"contrast": i}, window=i) for i, each in enumerate(self.encode_both(texts[0], texts[1:]))
        ]

    def scores(self, row: Row) -> list[float]:
        """A row's scores as the cosines that are trained."""
        read = numbers(row["score"], len(others(row)), "score")
        scores = read if isinstance(read, list) else [read]
        highest, full = max(map(abs, scores), default=0.0), self.options.full_score
        if highest > full:
            message = "a score of %s is above full_score %s, and no cosine reaches it; if scores end at %d, pass %s"
            end = math.ceil(highest)
            self.warn_once("full_score", message, highest, full, end, spelt("option", "full_score", end))
        return [score / full for score in scores]

    def count_targets(self, batch: Batch) -> dict[str, int]:
        if "contrast" in batch.labels:
            return {LOSS: int((batch.labels["contrast"] == 0).sum())}
        return {LOSS: sum(size - 1 for size in examples_per_row(batch.examples))}

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> float | list[float]:
        if any(example.encoded.truncated for example in examples):
            self.warn_truncated("text", self.limit)
        return self.similarities(row, outputs)

    def similarities(self, row: Row, outputs: Sequence[Tensor]) -> float | list[float]:
        measure = self.options.similarity or self.encoder.similarity_fn_name
        scores = similarity_matrix(outputs[0], torch.stack(list(outputs[1:])), measure)[0].tolist()
        return scores[0] if isinstance(row["text_pair"], str) else scores

    # --- training and evaluation -------------------------------------------------------------------------------

    def loss_of(self, vectors: Tensor, batch: Batch) -> Tensor:  # B C
        """The squared error of cosines, as Sentence-BERT was first trained, or a contrastive loss."""
        if "contrast" in batch.labels:
            return self.contrastive_loss(vectors, batch)
        return summed_cosine_loss(vectors, batch.labels["labels"], examples_per_row(batch.examples))

    def contrastive_loss(self, vectors: Tensor, batch: Batch) -> Tensor:
        """The loss of rows without scores; the rows of a batch are each other's negatives."""
        kinds = batch.labels["contrast"]
        anchors, positives, negatives = (vectors[kinds == 0], vectors[kinds == 1], vectors[kinds > 1])
        if self.options.objective == "triplet":
            return triplet_loss(anchors, positives, negatives, self.options.margin)
        texts = [tuple(example.encoded.ids()) for example in batch.examples]
        positive_texts = [text for text, kind in zip(texts, kinds.tolist(), strict=True) if kind == 1]
        negative_texts = [text for text, kind in zip(texts, kinds.tolist(), strict=True) if kind > 1]
        same = same_texts(positive_texts, positive_texts + negative_texts).to(vectors.device)
        return ranking_loss(anchors, positives, negatives, self.options.scale, same)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("spearman", "pearson")

    def predict(self, row: Row, examples: Sequence[Example], outputs: Sequence[Tensor]) -> float:
        answer = self.similarities(row, outputs)
        return answer if isinstance(answer, float) else answer[0]

    def reference(self, row: Row) -> float:
        if row.get("score") is None:
            raise InputError(f"{self.name} is evaluated on rows with score")
        return self.scores(row)[0]

    def compute_metrics(self, predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
        return correlation(predictions, references)

    def describe_prediction(self, row: Row, prediction: float) -> str:
        return f"{prediction:.4g}"


def others(row: Row) -> list[str]:
    """The texts that a row's text is compared with."""
    return [row["text_pair"]] if isinstance(row["text_pair"], str) else list(row["text_pair"])
