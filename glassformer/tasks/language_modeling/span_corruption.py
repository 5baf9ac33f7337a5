"""span-corruption: T5's training on plain text, whose left-out spans an encoder-decoder writes."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ...data.document_corpus import Piece, Pieces
from ...data.packing import split_into_blocks
from ...data.spans import corrupt_spans, count_spans, lengths_of_pair, longest_block
from ...errors import InputError
from ...models.base.pretrained_model import PreTrainedModel
from ...text.base.encoding_options import check_range, check_whole_number
from ...text.base.text_inputs import describe
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, EncodedIds, Example, truncation_note
from ..generation.generation_task import GenerationTaskOptions
from ..generation.text_to_text import Pair, TextToText
from ..inputs import Columns, Row
from ..metrics import perplexity
from ..objectives import LOSS
from ..task_options import check_bool
from .plain_text import DocumentOptions, add_line_ends, read_corpus, read_documents, row_starts_document

log = logging.getLogger("glassformer")

CONTEXT = 512  # tokens that the encoder reads, as published
SENTINEL = re.compile(r"<extra_id_(\d+)>")


@dataclass(frozen=True, kw_only=True)
class SpanCorruptionOptions(GenerationTaskOptions, DocumentOptions):
    """Options for spans and blocks of text, beside those of generation.

    Attributes:
        documents: Which rows make a document: "all": the text of all rows is one stream; "row": each is one, "blank":
            rows up to an empty one, "file": all rows of a file.
        noise_density: The share of tokens that are left out and to be written.
        mean_noise_span_length: How many tokens a span has on average.
        context: How many tokens the encoder reads of a block, sentinels included; None: 512, or the longest that the
            model accepts if that is shorter.
        truncation: Cut texts with gaps that are too long, and report it; they are an error otherwise.
        return_tensors: Return token ids instead of text.
    """

    documents: str = "all"
    noise_density: float = 0.15
    mean_noise_span_length: float = 3.0
    context: int | None = None
    truncation: bool = False
    return_tensors: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("noise_density", self.noise_density, 0.0, 1.0)
        if not 0 < self.noise_density < 1:
            raise InputError(f"noise_density must be between 0 and 1, got {self.noise_density}")
        check_range("mean_noise_span_length", self.mean_noise_span_length, 1.0)
        check_whole_number("context", self.context, 8)
        check_bool("truncation", self.truncation)
        check_bool("return_tensors", self.return_tensors)


class SpanCorruption(TextToText):
    """Train an encoder-decoder on plain text; it fills the gaps of a text that sentinels mark.

    Spans of the text, 15 % of its tokens and three tokens each on average, are replaced by sentinels; the target is
    every sentinel with its span, a last sentinel and the end. The spans change in every epoch, and are always the same
    in evaluation.

    >>> pipe = pipeline("span-corruption", model="./t5-small/")                          # doctest: +SKIP
    >>> pipe("The <extra_id_0> walks in <extra_id_1> park")                              # doctest: +SKIP
    [{'filled_text': 'The dog walks in the park', 'spans': ['dog', 'the']}]
    """

    name = "span-corruption"
    columns = Columns(("text",))
    generated_columns = ()
    needs_special_tokens = True
    needs_sentinels = True
    Options = SpanCorruptionOptions
    answer_key = "filled_text"

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizer,
        target_tokenizer: PreTrainedTokenizer | None = None,
        **options: Any,
    ) -> None:
        if target_tokenizer is not None:
            raise InputError(f"{self.name} writes parts of the text that it reads, with one tokenizer")
        super().__init__(model, tokenizer, **options)
        self.sentinels = find_sentinels(tokenizer)
        if not self.sentinels:
            raise InputError(
                f"{self.name} needs sentinels, <extra_id_0> and so on, which a T5Tokenizer has; this "
                f"{type(tokenizer).__name__} has none"
            )

    # --- text to examples --------------------------------------------------------------------------------------

    @property
    def context(self) -> int:
        """How many tokens the encoder reads of a block."""
        return min(self.options.context or CONTEXT, self.limit)

    def prepare_rows(self, rows: Sequence[Any], training: bool = True) -> Pieces:
        """Blocks of the text, each as long as its input fits the context when its spans are left out."""
        options = self.options
        texts, numbers, names = read_documents(self, rows)
        corpus = read_corpus(self, add_line_ends(self, texts), numbers)
        noise = (options.noise_density, options.mean_noise_span_length)
        table = without_single_tokens(split_into_blocks(corpus.bounds, longest_block(self.context, *noise)))
        if not len(table):
            raise InputError("the text has no two tokens that stand together: there is nothing to leave out")
        sizes = (table[:, 1] - table[:, 0]).tolist()
        spans = count_spans(max(sizes), *noise)[1]
        if spans >= len(self.sentinels):
            raise InputError(
                f"{spans} spans of a block of {max(sizes)} tokens need {spans + 1} sentinels, and the tokenizer has "
                f"{len(self.sentinels)}; give a smaller context than {self.context}, or longer spans"
            )
        lengths = {count: sum(lengths_of_pair(count, *noise)) for count in {*sizes}}
        return Pieces(corpus, table, [lengths[count] for count in sizes], names)

    def starts_document(self, row: Any) -> bool:
        return row_starts_document(self, row)

    def training_examples(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        hidden, target = corrupt_spans(
            row.corpus.ids[row.first : row.last],
            np.random.default_rng(seed),
            sentinels=self.sentinels,
            end_id=self.eos_id,
            fraction=self.options.noise_density,
            mean_length=self.options.mean_noise_span_length,
        )
        return [Pair(EncodedIds(hidden.tolist()), {"labels": target.tolist()})]

    # --- answers -----------------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        encoded = self.encode_text((self.options.prefix or "") + row["text"], truncation=self.options.truncation)
        if not {*self.sentinels} & {*encoded.ids()}:
            raise InputError(
                f"the text has no gap, which sentinels such as <extra_id_0> mark: got {describe(row['text'])}"
            )
        return [Pair(encoded)]

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> Any:
        note = truncation_note(examples)
        read = examples[0].encoded.ids()
        sequences = [{**self.fill(read, tokens, reason), **note} for tokens, reason in outputs[0]]
        return sequences[0] if len(sequences) == 1 else sequences

    def fill(self, read: Sequence[int], tokens: Sequence[int], reason: str) -> dict[str, Any]:
        """The text with its gaps filled, and what fills each of them; None for one that nothing was written for."""
        gaps = [token for token in read if token in self.sentinels]
        written: dict[int, list[int]] = {}
        for token in tokens:
            if token in self.sentinels:
                written.setdefault(token, [])
                now = token
            elif written and token != self.eos_id:
                written[now].append(token)
        whole = [token for each in read for token in (written.get(each, [each]) if each in gaps else [each])]
        spans = [self.decode_target(written[gap]) if gap in written else None for gap in gaps]
        unfinished = {"unfinished": True} if reason == "length" and None in spans else {}
        if self.options.return_tensors:
            return {"filled_token_ids": whole, "span_token_ids": [written.get(gap) for gap in gaps], **unfinished}
        return {"filled_text": self.decode_target(whole), "spans": spans, **unfinished}

    # --- training and evaluation -------------------------------------------------------------------------------

    def metric_sums(self, outputs: tuple[Tensor, ...], batch: Batch) -> dict[str, tuple[float, int]]:
        logits, targets, _ = outputs
        return {"token_accuracy": (int((logits.argmax(-1) == targets).sum()), len(targets))}

    @property
    def mean_metric_names(self) -> tuple[str, ...]:
        return ("token_accuracy", "perplexity")

    def mean_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"token_accuracy": means["token_accuracy"], "perplexity": perplexity(means[LOSS])}


def find_sentinels(tokenizer: PreTrainedTokenizer) -> list[int]:
    """The ids of a tokenizer's sentinels, <extra_id_0> first, as far as their numbers go on without a gap.

    >>> from ...text.t5_tokenizer import T5Tokenizer
    >>> find_sentinels(T5Tokenizer.from_pretrained("./t5-small/"))[:2]                   # doctest: +SKIP
    [32099, 32098]
    """
    found = {
        int(match[1]): number for token, number in tokenizer.get_vocab().items() if (match := SENTINEL.fullmatch(token))
    }
    return [found[place] for place in range(len(found)) if place in found]


def without_single_tokens(table: np.ndarray) -> np.ndarray:
    """Blocks of at least two tokens, of which one can be left out: a last one of a single token takes another one from
    the block before it, and a document of a single token is left out.

    >>> without_single_tokens(np.array([[0, 4, 0, 0], [4, 5, 0, 0], [5, 6, 1, 0]])).tolist()
    [[0, 3, 0, 0], [3, 5, 0, 0]]
    """
    table = table.copy()
    single = table[:, 1] - table[:, 0] == 1
    for place in np.flatnonzero(single).tolist():
        if place and table[place - 1, 2] == table[place, 2] and table[place - 1, 1] - table[place - 1, 0] > 2:
            table[place - 1, 1] -= 1
            table[place, 0] -= 1
    usable = table[:, 1] - table[:, 0] > 1
    if not usable.all():
        log.warning("%d of %d pieces of text have one token alone and are left out", (~usable).sum(), len(table))
    return table[usable]
