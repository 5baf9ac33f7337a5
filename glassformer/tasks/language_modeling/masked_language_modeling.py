"""masked-language-modeling: learn a language from plain text, by guessing hidden words of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ...data.document_corpus import Corpus, Piece, Pieces
from ...data.masking import continues_word, mask_tokens, plain_words
from ...data.packing import chop
from ...errors import InputError, spelt
from ...nn.loss import summed_label_loss
from ..batch import Batch, Example, Ids
from ..inputs import Columns
from ..metrics import perplexity
from ..objectives import LOSS
from ..task_options import switch
from .fill_mask import FillMask, FillMaskOptions
from .plain_text import DocumentOptions, begins_document, make_segmenter, read_corpus, read_documents


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelingOptions(FillMaskOptions, DocumentOptions):
    mask_fraction: float = 0.15  # of all tokens
    mask_whole_words: bool = False  # all pieces of a word or none
    words: Any = None  # what whole words are where no spaces tell: "spaces", a file of words, or a function

    def __post_init__(self) -> None:
        super().__post_init__()
        switch("mask_whole_words", self.mask_whole_words)
        if isinstance(self.mask_fraction, bool) or not isinstance(self.mask_fraction, float | int):
            raise InputError(f"mask_fraction must be a number, got {self.mask_fraction!r}")
        if not 0 < self.mask_fraction < 1:
            raise InputError(f"mask_fraction must be between 0 and 1, got {self.mask_fraction}")
        if self.words is not None and not self.mask_whole_words:
            raise InputError("words tells what whole words are, and is for mask_whole_words=True")


class MaskedLanguageModeling(FillMask):
    """Learns from plain text which words fit; what it has learnt it answers like fill-mask.

    15 % of the tokens are chosen; of these 80 % are hidden, 10 % replaced by any other word and 10 % left as they are.
    They are drawn anew in every epoch, and are always the same when the model is judged.

    >>> task = MaskedLanguageModeling.from_pretrained("./bert-base-chinese/", mask_whole_words=True,
    ...                                               words=lambda text: jieba.lcut(text))          # doctest: +SKIP
    >>> Trainer(task, read_rows("novel.txt"), None, TrainSettings(output_dir="run")).train()        # doctest: +SKIP
    """

    name = "masked-language-modeling"
    taught_by = None
    columns = Columns(("text",))
    Options = MaskedLanguageModelingOptions

    # --- text to examples --------------------------------------------------------------------------------------

    def pieces(self, rows: Sequence[Any], learning: bool = True) -> Pieces:
        """Documents in pieces that fit between [CLS] and [SEP]."""
        texts, numbers, names = read_documents(self, rows)
        corpus = read_corpus(self, texts, numbers, make_segmenter(self.options.words))
        around = self.tokenizer.num_special_tokens_to_add()
        table = chop(corpus.bounds, self.limit - around)
        return Pieces(corpus, table, (table[:, 1] - table[:, 0] + around).tolist(), names)

    def may_begin(self, row: Any) -> bool:
        return begins_document(self, row)

    def learn_from(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        return [self.hidden(row.corpus, [np.arange(row.first, row.last)], np.random.default_rng(seed), {})]

    def hidden(
        self, corpus: Corpus, texts: Sequence[np.ndarray], generator: np.random.Generator, labels: Mapping[str, Any]
    ) -> Example:
        """One text or two, given as places in the corpus, between special tokens and with words hidden."""
        if self.options.whole_words and not self.options.mask_whole_words:
            asked = spelt("option", "mask_whole_words", True)
            raise InputError(f"whole_words is about answers; to hide whole words in training pass {asked}")
        frame = self.tokenizer.template(len(texts) == 2)
        sizes = [1 if slot.token_id is not None else len(texts[slot.sequence]) for slot in frame]
        segments = np.repeat([slot.type_id for slot in frame], sizes)
        allowed = np.repeat([slot.token_id is None for slot in frame], sizes)
        ids = np.concatenate(
            [[slot.token_id] if slot.token_id is not None else corpus.ids[texts[slot.sequence]] for slot in frame]
        ).astype(np.int64)
        begins = None
        if self.options.mask_whole_words:
            begins = ~self.vocabulary["continues"][ids]
            if corpus.begins is not None:
                begins[allowed] = corpus.begins[np.concatenate(texts)]
        read, targets = mask_tokens(
            ids,
            generator,
            mask_id=self.mask_id,
            words=self.vocabulary["words"],
            allowed=allowed & ~self.vocabulary["special"][ids],
            begins=begins,
            fraction=self.options.mask_fraction,
        )
        return Example(Ids(read.tolist(), segments.tolist()), {"labels": targets.tolist(), **labels})

    @property
    def vocabulary(self) -> dict[str, np.ndarray]:
        """Of every id, whether it is special and whether it goes on a word; and the ids that may replace another."""
        if "vocabulary" not in self.kept:
            known, special = self.tokenizer.get_vocab(), self.tokenizer.all_special_ids
            is_special = np.zeros(max(known.values()) + 1, dtype=bool)
            is_special[special] = True
            self.kept["vocabulary"] = {
                "special": is_special,
                "continues": continues_word(known),
                "words": plain_words(known, special),
            }
        return self.kept["vocabulary"]

    # --- training and evaluation -------------------------------------------------------------------------------

    def tally(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, tuple[float, int]]:
        logits, places = outputs
        words = batch.labels["labels"].flatten()[places]
        return {LOSS: (float(summed_label_loss(logits.float(), words)), len(words)), **masked_accuracy(logits, words)}

    @property
    def metrics(self) -> tuple[str, ...]:
        return ()

    @property
    def rate_names(self) -> tuple[str, ...]:
        return ("masked_accuracy", "perplexity")

    def rates(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"masked_accuracy": means["masked_accuracy"], "perplexity": perplexity(means[LOSS])}


def masked_accuracy(logits: Tensor, words: Tensor) -> dict[str, tuple[float, int]]:
    """How many hidden words have the highest score, of how many."""
    return {"masked_accuracy": (int((logits.argmax(-1) == words).sum()), len(words))}
