"""text-generation: how does a text go on?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...data.document_corpus import Piece, Pieces
from ...data.packing import pack
from ...errors import InputError
from ...generate.conditioning import condition, control_token
from ...generate.engine import refuse_to_peek
from ...models.base import PreTrainedModel
from ...nn.loss import IGNORED, recalled, sampled_word_loss, summed_label_loss
from ...text.base.encoding_options import between, check_whole_number
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, Example, Ids, rows_at
from ..inputs import Columns, Row
from ..language_modeling.plain_text import DocumentOptions, begins_document, read_corpus, read_documents
from ..metrics import perplexity
from ..objectives import LOSS
from ..task_options import some, switch
from ..truncation import least
from .generation_task import GenerationTask, GenerationTaskOptions


@dataclass(frozen=True, kw_only=True)
class TextGenerationOptions(GenerationTaskOptions, DocumentOptions):
    """What is done with prompts and texts."""

    context: int | None = None  # tokens that are learnt from at once; longer documents are cut. None: the model's limit
    line_end: str = ""  # what ends every row in training, such as "<eos>"
    document_end: str = ""  # what ends every document in training, such as "<|endoftext|>"
    overlap: int = 0  # when judged: tokens of a document that a piece sees again, as context for those it predicts
    sampled_words: int | None = None  # in training, compare with so many words of the vocabulary instead of all
    recall: float = 0.0  # when judged: how much of a prediction is what followed like places earlier in the piece
    recall_sharpness: float = 1.0  # how alike they must be
    return_full_text: bool = True  # the prompt too
    return_tensors: bool = False  # the tokens in place of the text
    label: str | None = None  # of a model that was trained with control tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("context", self.context, 1)
        some("overlap", self.overlap, 0)
        check_whole_number("sampled_words", self.sampled_words, 2)
        between("recall", self.recall, 0.0, 1.0)
        between("recall_sharpness", self.recall_sharpness, 0.0)
        switch("return_full_text", self.return_full_text)
        switch("return_tensors", self.return_tensors)


class TextGeneration(GenerationTask):
    """How does the text go on?

    What the checkpoint's `task_specific_params` say of text-generation counts unless a call says otherwise.

    >>> pipe = pipeline("text-generation", model="./gpt2-chinese/")            # doctest: +SKIP
    >>> pipe("明月几时有", max_new_tokens=20, do_sample=True)                    # doctest: +SKIP
    [{'generated_text': '明月几时有...'}]
    """

    name = "text-generation"
    head = "causal-lm"
    columns = Columns(("text",))
    Options = TextGenerationOptions

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        refuse_to_peek(model)
        super().__init__(model, tokenizer, **options)

    @property
    def smooths_labels(self) -> bool:
        return self.options.sampled_words is None

    chooses_labels = smooths_labels

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        options = self.options
        ids = condition(
            self.tokenizer,
            row["text"],
            options.prefix,
            options.label,
            split_special_tokens=options.split_special_tokens,
        )
        return [Example(Ids(ids), {"labels": [*ids[1:], IGNORED]})]  # the word after each

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> list[dict[str, Any]]:
        prompt = examples[0].encoded.ids()
        return [self.tell(row["text"], prompt, tokens, reason) for tokens, reason in outputs[0]]

    def tell(self, text: str, prompt: list[int], tokens: list[int], reason: str) -> dict[str, Any]:
        options = self.options
        if options.return_tensors:
            return {"generated_token_ids": prompt + tokens if options.return_full_text else tokens}
        before, whole = (self.decode(ids) for ids in (prompt, prompt + tokens))
        new = whole[len(before) :] if whole.startswith(before) else self.decode(tokens)
        return {"generated_text": (options.prefix or "") + text + new if options.return_full_text else new}

    def decode(self, ids: list[int]) -> str:
        cleaning = {"clean_up_tokenization_spaces": self.options.clean_up_tokenization_spaces}
        return self.tokenizer.decode(ids, skip_special_tokens=True, **cleaning)

    # --- training and evaluation -------------------------------------------------------------------------------

    def pieces(self, rows: Sequence[Any], learning: bool = True) -> Pieces:
        """Documents in pieces of the context's length; when judged, a piece may see words of the one before it."""
        options = self.options
        context = least(self.limit, options.context)
        texts, numbers, names = read_documents(self, rows)
        corpus = read_corpus(self, self.framed(texts, numbers), numbers)
        table = pack(corpus.bounds, context, 0 if learning else min(options.overlap, context - 1))
        return Pieces(corpus, table, (table[:, 1] - table[:, 0]).tolist(), names)

    def may_begin(self, row: Any) -> bool:
        return begins_document(self, row)

    def framed(self, texts: Sequence[str], numbers: Sequence[int]) -> list[str]:
        """Lines with what stands before every document, and at the end of lines and documents."""
        options = self.options
        if options.label is not None and options.split_special_tokens:
            raise InputError("label puts a special token before every text, and split_special_tokens knows none")
        before = (
            "" if options.label is None else self.tokenizer.ids_to_tokens[control_token(self.tokenizer, options.label)]
        )
        before += options.prefix or ""
        found = [text + options.line_end for text in texts]
        for line, number in enumerate(numbers):
            if line == 0 or number != numbers[line - 1]:
                found[line] = before + found[line]
            if line + 1 == len(numbers) or number != numbers[line + 1]:
                found[line] += options.document_end
        return found

    def learn_from(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        ids = row.corpus.ids[row.first : row.last + 1].tolist()
        return [Example(Ids(ids[:-1]), {"labels": [IGNORED] * row.seen + ids[row.seen + 1 :]})]

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss itself where words are sampled or recalled, a number; else the scores of the next words."""
        few = self.options.sampled_words
        if few is not None and model.training:
            return sampled_word_loss(
                self.learnt_rows(model, batch), model.get_output_embeddings(), following(batch), few
            )
        if self.options.recall and not model.training:
            return self.recalling_loss(model, batch)
        return model.word_logits(self.learnt_rows(model, batch))  # targets V

    def recalling_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of the model's prediction mixed with what it recalls of the piece that it is reading."""
        body, labels = model.base_model.encode(**batch.inputs, use_cache=False), batch.labels["labels"]
        states, learnt = body.layout.unpack(body.rows), labels != IGNORED  # B T C, B T
        words = torch.where(learnt, labels, batch.inputs["input_ids"].roll(-1, dims=1))  # that follow: B T
        told = model.word_logits(states[learnt]).softmax(-1).gather(1, words[learnt][:, None])[:, 0]  # targets
        memory = recalled(states, words, self.options.recall_sharpness)[learnt]
        return -torch.lerp(told, memory, self.options.recall).log().sum()

    def learnt_rows(self, model: nn.Module, batch: Batch) -> Tensor:
        """The vectors after which a word follows, in the order of the batch: no others are scored."""
        body = model.base_model.encode(**batch.inputs, use_cache=False)
        return rows_at(body, batch.labels["labels"] != IGNORED)[0]

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        if logits.dim() == 0:
            return logits
        return summed_label_loss(logits, following(batch), label_smoothing=self.label_smoothing)

    @property
    def rate_names(self) -> tuple[str, ...]:
        return ("perplexity",)

    def rates(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means[LOSS])}


def following(batch: Batch) -> Tensor:
    """The words to be predicted, one after the other."""
    labels = batch.labels["labels"]
    return labels[labels != IGNORED]
