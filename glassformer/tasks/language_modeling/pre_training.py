"""pre-training: BERT's two objectives on plain text, masked tokens and pairs of sentences."""

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
from ...models.base.pretrained_model import PreTrainedModel
from ...nn.loss import IGNORED, summed_label_loss
from ...text.base.encoding_options import check_choice
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example
from ..metrics import perplexity
from ..objectives import Objective
from .masked_language_modeling import MaskedLanguageModeling, MaskedLanguageModelingOptions, masked_accuracy
from .plain_text import read_documents

log = logging.getLogger("glassformer")

PAIRS = {"next": next_sentence_pair, "order": sentence_order_pair}
SENTENCES = ("row", "punctuation")
MASKED_LM, NEXT_SENTENCE = "masked_lm", "next_sentence"  # the two objectives


@dataclass(frozen=True, kw_only=True)
class PreTrainingOptions(MaskedLanguageModelingOptions):
    """Options for pairs of sentences, beside those of masking.

    Attributes:
        sentences: "row": every row is a sentence; "punctuation": rows are split after full stops and similar marks.
        pairs: "next": the second sentence follows the first or is of another document; "order": the two may be
            swapped; without a value: what the model's head was made for, "order" for ALBERT.
    """

    documents: str = "blank"
    sentences: str = "row"
    pairs: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("sentences", self.sentences, SENTENCES)
        check_choice("pairs", self.pairs, (None, *PAIRS))


class PreTraining(MaskedLanguageModeling):
    """Train on plain text to predict masked tokens and whether sentences belong together, as BERT and ALBERT were.

    Rows are sentences, and an empty row separates documents. The means of the two losses are added.

    >>> task = PreTraining(BertForPreTraining(BertConfig()), tokenizer, documents="blank")          # doctest: +SKIP
    """

    name = "pre-training"
    head = "pre-training"
    objective_names = (MASKED_LM, NEXT_SENTENCE)
    supports_distillation = False  # a teacher would supply targets for only one of the two objectives
    Options = PreTrainingOptions

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if not hasattr(model, "pair_logits"):
            is_discriminator = hasattr(model, "replaced_logits")
            other = (
                "replaced-token-detection trains it"
                if is_discriminator
                else ("masked-language-modeling is trained on masked words alone")
            )
            raise InputError(
                f"{self.name} classifies pairs of sentences, for which a {type(model).__name__} has no head; {other}"
            )
        super().__init__(model, tokenizer, **options)

    @property
    def pairs(self) -> str:
        """The kind of pairs: that of the options, else that of the model's head."""
        return self.options.pairs or self.model.sentence_pairs

    def prepare_rows(self, rows: Sequence[Any], training: bool = True) -> Pieces:
        """Consecutive sentences of a document that fill the model's input."""
        texts, numbers, names = read_documents(self, rows)
        is_split = self.options.sentences == "punctuation"
        if is_split:
            parts = [
                (part, number) for text, number in zip(texts, numbers, strict=True) for part in split_sentences(text)
            ]
            texts, numbers = [part for part, _ in parts], [number for _, number in parts]
        corpus = self.encode_documents(texts, numbers, sentences=is_split)
        table = gather_sentences(corpus, self.pair_limit)
        sizes = corpus.lines[table[:, 1]] - corpus.lines[table[:, 0]]
        usable = sizes > 1
        if self.pairs == "next" and len(corpus.documents) < 3:
            log.warning("the text is one document, so that every pair follows; the option documents separates them")
            usable = table[:, 1] - table[:, 0] > 1
        table, sizes = table[usable], sizes[usable]
        if self.pairs == "next":
            # a single sentence is paired with as many tokens of another document
            sizes = np.where(table[:, 1] - table[:, 0] == 1, 2 * sizes, sizes)
        around = self.tokenizer.num_special_tokens_to_add(pair=True)
        return Pieces(corpus, table, (np.minimum(sizes, self.pair_limit) + around).tolist(), names)

    @property
    def pair_limit(self) -> int:
        """The maximum number of tokens in a pair, without [CLS] and [SEP]."""
        return self.limit - self.tokenizer.num_special_tokens_to_add(pair=True)

    def training_examples(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        generator = np.random.default_rng(seed)
        corpus, first, last, document, _ = row
        pair = PAIRS[self.pairs](corpus, first, last, document, self.pair_limit, generator)
        return [self.mask(corpus, [pair.first, pair.second], generator, {"pairs": pair.label})]

    # --- training and evaluation -------------------------------------------------------------------------------

    def count_targets(self, batch: Batch) -> dict[str, int]:
        masked = int((batch.labels["labels"] != IGNORED).sum())
        return {MASKED_LM: masked, NEXT_SENTENCE: len(batch.examples)}

    def outputs(self, model: nn.Module, batch: Batch) -> tuple[Tensor, ...]:
        """The logits of masked tokens, M V, and their targets, M; and the logits of pairs, B 2."""
        if not batch.labels:
            return super().outputs(model, batch)
        body = model.base_model.encode(**batch.inputs)
        packed = body.layout.pack(batch.labels["labels"])
        masked = packed != IGNORED
        return model.word_logits(body.rows[masked]), packed[masked], model.pair_logits(body)

    def objectives_of(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, Objective]:
        logits, targets, pairs = outputs
        masked_lm = summed_label_loss(logits, targets, label_smoothing=self.label_smoothing)
        next_sentence = summed_label_loss(pairs, batch.labels["pairs"])
        return {
            MASKED_LM: Objective(masked_lm, batch.counts[MASKED_LM]),
            NEXT_SENTENCE: Objective(next_sentence, batch.counts[NEXT_SENTENCE]),
        }

    def metric_sums(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, tuple[float, int]]:
        logits, targets, pairs = outputs
        correct = int((pairs.argmax(-1) == batch.labels["pairs"]).sum())
        return {"pair_accuracy": (correct, len(pairs)), **masked_accuracy(logits, targets)}

    @property
    def mean_metric_names(self) -> tuple[str, ...]:
        return ("masked_accuracy", "pair_accuracy", "perplexity")

    def mean_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        accuracies = {name: means[name] for name in ("masked_accuracy", "pair_accuracy")}
        return {**accuracies, "perplexity": perplexity(means[MASKED_LM])}
