"""masked-language-modeling: training on plain text in which tokens are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ...data.document_corpus import Corpus, Piece, Pieces
from ...data.masking import MASKED, REPLACED, continues_word, mask_tokens, plain_words
from ...data.packing import split_into_blocks
from ...errors import InputError, spelt
from ..batch import Batch, EncodedIds, Example
from ..inputs import Columns
from ..metrics import perplexity
from ..objectives import LOSS
from ..task_options import check_bool
from .fill_mask import FillMask, FillMaskOptions
from .plain_text import DocumentOptions, add_line_ends, make_segmenter, read_corpus, read_documents, row_starts_document


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelingOptions(FillMaskOptions, DocumentOptions):
    """Options for masking, beside those of documents and of answers.

    Attributes:
        mask_fraction: The share of tokens that are to be predicted.
        mask_whole_words: Mask all tokens of a word or none.
        words: How texts without spaces are segmented into words: "spaces", a file of words, or a function.
    """

    mask_fraction: float = 0.15
    mask_whole_words: bool = False
    words: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bool("mask_whole_words", self.mask_whole_words)
        if isinstance(self.mask_fraction, bool) or not isinstance(self.mask_fraction, float | int):
            raise InputError(f"mask_fraction must be a number, got {self.mask_fraction!r}")
        if not 0 < self.mask_fraction < 1:
            raise InputError(f"mask_fraction must be between 0 and 1, got {self.mask_fraction}")
        if self.words is not None and not self.mask_whole_words:
            raise InputError("words segments texts for mask_whole_words=True, which is not set")


class MaskedLanguageModeling(FillMask):
    """Train a masked language model on plain text; it answers like fill-mask.

    15 % of the tokens are selected; of these 80 % are masked, 10 % replaced by random tokens and 10 % left unchanged.
    The selection changes in every epoch, and is always the same in evaluation.

    >>> task = MaskedLanguageModeling.from_pretrained("./bert-base-chinese/", mask_whole_words=True,
    ...                                               words=lambda text: jieba.lcut(text))          # doctest: +SKIP
    >>> Trainer(task, read_rows("novel.txt"), None, TrainSettings(output_dir="run")).train()        # doctest: +SKIP
    """

    name = "masked-language-modeling"
    trained_as = None
    columns = Columns(("text",))
    Options = MaskedLanguageModelingOptions
    masked_share, random_share = MASKED, REPLACED  # of the chosen tokens, those that become the mask or any word

    # --- text to examples --------------------------------------------------------------------------------------

    def prepare_rows(self, rows: Sequence[Any], training: bool = True) -> Pieces:
        """Blocks of documents that fit between [CLS] and [SEP]."""
        texts, numbers, names = read_documents(self, rows)
        corpus = self.encode_documents(texts, numbers)
        around = self.tokenizer.num_special_tokens_to_add()
        table = split_into_blocks(corpus.bounds, self.limit - around)
        return Pieces(corpus, table, (table[:, 1] - table[:, 0] + around).tolist(), names)

    def encode_documents(self, texts: Sequence[str], numbers: Sequence[int], sentences: bool = False) -> Corpus:
        """Lines of documents as ids; a segmenter's words are kept apart by the tokenizer."""
        segmenter = make_segmenter(self.options.words)
        if segmenter is None or self.options.line_end is not None:
            texts = add_line_ends(self, texts, sentences)
        return read_corpus(self, texts, numbers, segmenter)

    def starts_document(self, row: Any) -> bool:
        return row_starts_document(self, row)

    def training_examples(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        return [self.mask(row.corpus, [np.arange(row.first, row.last)], np.random.default_rng(seed), {})]

    def mask(
        self, corpus: Corpus, texts: Sequence[np.ndarray], generator: np.random.Generator, labels: Mapping[str, Any]
    ) -> Example:
        """One or two texts, given by their indices in the corpus, between special tokens and with tokens masked."""
        if self.options.whole_words and not self.options.mask_whole_words:
            option = spelt("option", "mask_whole_words", True)
            raise InputError(f"whole_words is about answers; to mask whole words in training pass {option}")
        template = self.tokenizer.template(len(texts) == 2)
        sizes = [1 if slot.token_id is not None else len(texts[slot.sequence]) for slot in template]
        segments = np.repeat([slot.type_id for slot in template], sizes)
        allowed = np.repeat([slot.token_id is None for slot in template], sizes)
        ids = np.concatenate(
            [[slot.token_id] if slot.token_id is not None else corpus.ids[texts[slot.sequence]] for slot in template]
        ).astype(np.int64)
        begins = None
        if self.options.mask_whole_words:
            begins = ~self.vocabulary["continues"][ids]
            if corpus.begins is not None:
                begins[allowed] = corpus.begins[np.concatenate(texts)]
        inputs, targets = mask_tokens(
            ids,
            generator,
            mask_id=self.mask_id,
            words=self.vocabulary["words"],
            allowed=allowed & ~self.vocabulary["special"][ids],
            begins=begins,
            fraction=self.options.mask_fraction,
            masked=self.masked_share,
            replaced=self.random_share,
        )
        return Example(EncodedIds(inputs.tolist(), segments.tolist()), {"labels": targets.tolist(), **labels})

    @property
    def vocabulary(self) -> dict[str, np.ndarray]:
        """For every id whether it is special and whether it continues a word; and the ids of possible replacements."""
        if "vocabulary" not in self.cache:
            ids, special = self.tokenizer.get_vocab(), self.tokenizer.all_special_ids
            is_special = np.zeros(max(ids.values()) + 1, dtype=bool)
            is_special[special] = True
            self.cache["vocabulary"] = {
                "special": is_special,
                "continues": continues_word(ids),
                "words": plain_words(ids, special),
            }
        return self.cache["vocabulary"]

    # --- training and evaluation -------------------------------------------------------------------------------

    def metric_sums(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, tuple[float, int]]:
        logits, indices = outputs
        return masked_accuracy(logits, batch.labels["labels"].flatten()[indices])

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ()

    @property
    def mean_metric_names(self) -> tuple[str, ...]:
        return ("masked_accuracy", "perplexity")

    def mean_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"masked_accuracy": means["masked_accuracy"], "perplexity": perplexity(means[LOSS])}


def masked_accuracy(logits: Tensor, targets: Tensor) -> dict[str, tuple[float, int]]:
    """The number of correctly predicted masked tokens, and of all of them."""
    return {"masked_accuracy": (int((logits.argmax(-1) == targets).sum()), len(targets))}
