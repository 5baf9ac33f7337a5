"""pre-training: BERT's own two tasks on plain text, hidden words and pairs of sentences."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor, nn

from ...data.document_corpus import Piece, Pieces
from ...data.pairing import gather_sentences, next_sentence_pair, sentence_order_pair, split_sentences
from ...errors import InputError
from ...models.base import PreTrainedModel
from ...nn.loss import IGNORED, summed_label_loss
from ...text.base.encoding_options import one_of
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example
from ..metrics import perplexity
from ..objectives import Objective
from .masked_language_modeling import MaskedLanguageModeling, MaskedLanguageModelingOptions, masked_accuracy
from .plain_text import make_segmenter, read_corpus, read_documents

log = logging.getLogger("glassformer")

PAIRS = {"next": next_sentence_pair, "order": sentence_order_pair}
SENTENCES = ("row", "punctuation")
MASKED_LM, NEXT_SENTENCE = "masked_lm", "next_sentence"  # its two objectives


@dataclass(frozen=True, kw_only=True)
class PreTrainingOptions(MaskedLanguageModelingOptions):
    documents: str = "blank"
    sentences: str = "row"  # every row is one, "punctuation": rows are cut after full stops and their like
    pairs: str = "next"  # does the second follow, or is it of another document? "order": are the two swapped?

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("sentences", self.sentences, SENTENCES)
        one_of("pairs", self.pairs, tuple(PAIRS))


class PreTraining(MaskedLanguageModeling):
    """Learns from plain text which words fit and which sentences belong together, as BERT was trained.

    Rows are sentences, and an empty one stands between documents. The two losses, each a mean, are added.

    >>> task = PreTraining(BertForPreTraining(BertConfig()), tokenizer, documents="blank")          # doctest: +SKIP
    """

    name = "pre-training"
    head = "pre-training"
    objective_names = (MASKED_LM, NEXT_SENTENCE)
    chooses_labels = False  # it has two objectives, and a teacher would tell about one
    Options = PreTrainingOptions

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if not hasattr(getattr(model, "cls", None), "seq_relationship"):
            raise InputError(
                f"{self.name} judges pairs of sentences, for which a {type(model).__name__} has no head; "
                "masked-language-modeling learns from hidden words alone"
            )
        super().__init__(model, tokenizer, **options)

    def pieces(self, rows: Sequence[Any], learning: bool = True) -> Pieces:
        """Neighbouring sentences of a document that fill the model's input."""
        texts, numbers, names = read_documents(self, rows)
        if self.options.sentences == "punctuation":
            cut = [
                (part, number) for text, number in zip(texts, numbers, strict=True) for part in split_sentences(text)
            ]
            texts, numbers = [part for part, _ in cut], [number for _, number in cut]
        corpus = read_corpus(self, texts, numbers, make_segmenter(self.options.words))
        table = gather_sentences(corpus, self.room)
        sizes = corpus.lines[table[:, 1]] - corpus.lines[table[:, 0]]
        usable = sizes > 1
        if self.options.pairs == "next" and len(corpus.documents) < 3:
            log.warning("the text is one document, so that every pair follows; the option documents tells them apart")
            usable = table[:, 1] - table[:, 0] > 1
        table, sizes = table[usable], sizes[usable]
        if self.options.pairs == "next":
            sizes = np.where(table[:, 1] - table[:, 0] == 1, 2 * sizes, sizes)  # with as much of another document
        around = self.tokenizer.num_special_tokens_to_add(pair=True)
        return Pieces(corpus, table, (np.minimum(sizes, self.room) + around).tolist(), names)

    @property
    def room(self) -> int:
        """Tokens that a pair may have, beside [CLS] and two times [SEP]."""
        return self.limit - self.tokenizer.num_special_tokens_to_add(pair=True)

    def learn_from(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        generator = np.random.default_rng(seed)
        corpus, first, last, document, _ = row
        pair = PAIRS[self.options.pairs](corpus, first, last, document, self.room, generator)
        return [self.hidden(corpus, [pair.first, pair.second], generator, {"pairs": pair.label})]

    # --- training and evaluation -------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> dict[str, int]:
        hidden = int((batch.labels["labels"] != IGNORED).sum())
        return {MASKED_LM: hidden, NEXT_SENTENCE: len(batch.examples)}

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
        """The scores of hidden words, M V, and the right ones, M; of the pairs their scores, B 2."""
        if not batch.labels:
            return super().outputs(model, batch)
        body = model.base_model.encode(**batch.inputs)
        packed = body.layout.pack(batch.labels["labels"])
        hidden = packed != IGNORED
        return model.word_logits(body.rows[hidden]), packed[hidden], model.cls.seq_relationship(body.pooled)

    def objectives_of(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, Objective]:
        logits, words, pairs = outputs
        return {
            MASKED_LM: Objective(
                summed_label_loss(logits, words, label_smoothing=self.label_smoothing), batch.counts[MASKED_LM]
            ),
            NEXT_SENTENCE: Objective(summed_label_loss(pairs, batch.labels["pairs"]), batch.counts[NEXT_SENTENCE]),
        }

    def tally(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, tuple[float, int]]:
        logits, words, pairs = outputs
        labels = batch.labels["pairs"]
        return {
            MASKED_LM: (float(summed_label_loss(logits.float(), words)), len(words)),
            NEXT_SENTENCE: (float(summed_label_loss(pairs.float(), labels)), len(labels)),
            "pair_accuracy": (int((pairs.argmax(-1) == labels).sum()), len(labels)),
            **masked_accuracy(logits, words),
        }

    @property
    def rate_names(self) -> tuple[str, ...]:
        return ("masked_accuracy", "pair_accuracy", "perplexity")

    def rates(self, means: Mapping[str, float]) -> dict[str, float]:
        found = {name: means[name] for name in ("masked_accuracy", "pair_accuracy")}
        return {**found, "perplexity": perplexity(means[MASKED_LM])}
