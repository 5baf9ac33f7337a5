"""text-generation: the continuation of a text, and language modeling on plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...data.document_corpus import Piece, Pieces
from ...data.packing import pack
from ...errors import InputError
from ...generate.generation import require_decoder
from ...generate.prompts import control_token_id, encode_prompt
from ...models.base.outputs import BodyOutput
from ...models.base.pretrained_model import PreTrainedModel
from ...nn.loss import IGNORED, cache_probabilities, sampled_softmax_loss, summed_label_loss, summed_mixture_loss
from ...text.base.encoding_options import check_range, check_whole_number
from ...text.tokenizer import PreTrainedTokenizer
from ..batch import Batch, EncodedIds, Example, vectors_at
from ..inputs import Columns, Row
from ..language_modeling.plain_text import (
    DocumentOptions,
    add_line_ends,
    read_corpus,
    read_documents,
    row_starts_document,
)
from ..metrics import perplexity
from ..objectives import LOSS
from ..task_options import check_at_least, check_bool
from ..truncation import smallest
from .carried_memory import CarriedMemory
from .generation_task import GenerationTask, GenerationTaskOptions

MOST_TOKENS = 512  # of a block, where a memory holds more


@dataclass(frozen=True, kw_only=True)
class TextGenerationOptions(GenerationTaskOptions, DocumentOptions):
    """Options for prompts, and for plain text in training and evaluation.

    Attributes:
        context: In training and evaluation: the size of blocks in tokens, at which longer documents are split;
            None: the longest that the model accepts, or as many as its memory holds, at most 512.
        document_end: Appended to every document in training, such as "<|endoftext|>".
        overlap: In evaluation: how many tokens of the block before it a block reads again as context.
        sampled_words: In training: the size of the sampled softmax; None: the full vocabulary.
        memory: In evaluation: how many tokens a model with a memory, such as Transformer-XL, remembers; None: as its
            config says.
        recall: In evaluation: the weight of a continuous cache over the block in each prediction.
        recall_sharpness: The scale of similarities in that cache.
        return_full_text: Whether an answer begins with the prompt.
        return_tensors: Return token ids instead of text.
        label: The control token to put before every text, for models that were trained with such.
    """

    context: int | None = None
    document_end: str = ""
    overlap: int = 0
    memory: int | None = None
    sampled_words: int | None = None
    recall: float = 0.0
    recall_sharpness: float = 1.0
    return_full_text: bool = True
    return_tensors: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole_number("context", self.context, 1)
        check_at_least("overlap", self.overlap, 0)
        check_whole_number("memory", self.memory, 0)
        check_whole_number("sampled_words", self.sampled_words, 2)
        check_range("recall", self.recall, 0.0, 1.0)
        check_range("recall_sharpness", self.recall_sharpness, 0.0)
        check_bool("return_full_text", self.return_full_text)
        check_bool("return_tensors", self.return_tensors)


class TextGeneration(GenerationTask):
    """Continue texts.

    >>> pipe = pipeline("text-generation", model="./gpt2-chinese/")            # doctest: +SKIP
    >>> pipe("明月几时有", max_new_tokens=20, do_sample=True)                    # doctest: +SKIP
    [{'generated_text': '明月几时有...'}]
    """

    name = "text-generation"
    head = "causal-lm"
    columns = Columns(("text",))
    Options = TextGenerationOptions

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        require_decoder(model)
        self.memory = CarriedMemory()
        super().__init__(model, tokenizer, **options)

    def with_options(self, **options: Any) -> TextGeneration:
        task = super().with_options(**options)
        task.check_memory()
        return task

    def check_memory(self) -> None:
        """Refuse options that the model has no use for."""
        model = self.model
        if self.options.memory is not None and not self.has_memory:
            raise InputError(
                f"memory is for models that have one, such as TransfoXLLMHeadModel, not a {type(model).__name__}"
            )
        if self.options.overlap and self.has_memory:
            raise InputError("overlap is for models without a memory: here a block remembers the ones before it")
        if self.options.sampled_words is not None and self.has_own_losses:
            raise InputError(
                f"sampled_words is for a softmax over all words; that of a {type(model).__name__} is adaptive"
            )

    @property
    def has_memory(self) -> bool:
        return getattr(self.model.base_model, "keeps_memory", False)

    @property
    def has_own_losses(self) -> bool:
        """Whether the model computes the loss of a word without the scores of all others."""
        return hasattr(self.model, "word_losses")

    @property
    def carries_memory(self) -> bool:  # type: ignore[override]
        return self.has_memory

    def memory_tensors(self) -> dict[str, Tensor]:
        return self.memory.tensors()

    def load_memory(self, tensors: Mapping[str, Tensor]) -> None:
        self.memory.load(tensors)

    def forget(self, training: bool) -> None:
        self.memory.forget(training)

    @property
    def supports_label_smoothing(self) -> bool:
        return self.options.sampled_words is None

    @property
    def supports_distillation(self) -> bool:  # type: ignore[override]
        return self.options.sampled_words is None and not self.has_own_losses

    # --- rows to tensors ---------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        options = self.options
        ids = encode_prompt(
            self.tokenizer,
            row["text"],
            options.prefix,
            options.label,
            split_special_tokens=options.split_special_tokens,
        )
        return [Example(EncodedIds(ids), {"labels": [*ids[1:], IGNORED]})]  # the next token of each

    # --- tensors to answers ------------------------------------------------------------------------------------

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Any]) -> list[dict[str, Any]]:
        prompt = examples[0].encoded.ids()
        return [self.format_sequence(row["text"], prompt, tokens) for tokens, _ in outputs[0]]

    def format_sequence(self, text: str, prompt: list[int], tokens: list[int]) -> dict[str, Any]:
        options = self.options
        if options.return_tensors:
            return {"generated_token_ids": prompt + tokens if options.return_full_text else tokens}
        before, complete = (self.decode(ids) for ids in (prompt, prompt + tokens))
        new = complete[len(before) :] if complete.startswith(before) else self.decode(tokens)
        return {"generated_text": (options.prefix or "") + text + new if options.return_full_text else new}

    def decode(self, ids: list[int]) -> str:
        cleaning = {"clean_up_tokenization_spaces": self.options.clean_up_tokenization_spaces}
        return self.tokenizer.decode(ids, skip_special_tokens=True, **cleaning)

    # --- training and evaluation -------------------------------------------------------------------------------

    def prepare_rows(self, rows: Sequence[Any], training: bool = True) -> Pieces:
        """Documents in blocks of the context's length; in evaluation a block may read tokens of the one before it."""
        options = self.options
        if not self.model.base_model.is_decoder:
            name = type(self.model).__name__
            raise InputError(f"a {name} sees all words of a text, and is trained by permutation-language-modeling")
        context = smallest(self.limit, options.context or self.default_context)
        texts, numbers, names = read_documents(self, rows)
        corpus = read_corpus(self, self.add_markers(texts, numbers), numbers)
        table = pack(corpus.bounds, context, 0 if training else min(options.overlap, context - 1))
        lengths = (table[:, 1] - table[:, 0]).tolist()
        return Pieces(corpus, table, lengths, names, in_order=self.carries_memory)

    @property
    def default_context(self) -> int | None:
        """The size of blocks where nothing else limits it."""
        return min(self.model.config.mem_len or MOST_TOKENS, MOST_TOKENS) if self.has_memory else None

    def starts_document(self, row: Any) -> bool:
        return row_starts_document(self, row)

    def add_markers(self, texts: Sequence[str], numbers: Sequence[int]) -> list[str]:
        """Lines with the label and prefix before every document, and the ends of lines and documents."""
        options = self.options
        if options.label is not None and options.split_special_tokens:
            raise InputError("label puts a special token before every text, and split_special_tokens disables them")
        before = (
            ""
            if options.label is None
            else self.tokenizer.ids_to_tokens[control_token_id(self.tokenizer, options.label)]
        )
        before += options.prefix or ""
        found = add_line_ends(self, texts)
        for line, number in enumerate(numbers):
            if line == 0 or number != numbers[line - 1]:
                found[line] = before + found[line]
            if line + 1 == len(numbers) or number != numbers[line + 1]:
                found[line] += options.document_end
        return found

    def training_examples(self, row: Piece, seed: Sequence[int]) -> list[Example]:
        corpus = row.corpus
        ids = corpus.ids[row.first : row.last + 1].tolist()
        example = Example(EncodedIds(ids[:-1]), {"labels": [IGNORED] * row.seen + ids[row.seen + 1 :]})
        if self.carries_memory:
            begin, end = (int(corpus.lines[corpus.documents[row.document + i]]) for i in range(2))
            example.follows = row.first if row.first > begin else None
            example.leads_to = row.last if row.last < end - 1 else None
        return [example]

    def outputs(self, model: nn.Module, batch: Batch) -> Tensor:
        """The logits of the next tokens; with a sampled softmax or a continuous cache the summed loss, a number."""
        size = self.options.sampled_words
        if size is not None and model.training:
            states, scorer = self.target_states(model, batch), model.get_output_embeddings()
            return sampled_softmax_loss(states, scorer, next_tokens(batch), size)
        if self.options.recall and not model.training:
            return self.cache_loss(model, batch)
        states = self.target_states(model, batch)
        if self.has_own_losses and not self.label_smoothing:
            return model.word_losses(states, next_tokens(batch)).sum()
        return model.word_logits(states)  # targets V

    def cache_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The loss of predictions that are mixed with a continuous cache over the block."""
        body, labels = self.read_blocks(model, batch), batch.labels["labels"]
        states, is_target = body.layout.unpack(body.rows), labels != IGNORED  # B T C, B T
        following = torch.where(is_target, labels, batch.inputs["input_ids"].roll(-1, dims=1))  # B T
        cached = cache_probabilities(states, following, self.options.recall_sharpness)[is_target]  # targets
        logits = model.word_logits(states[is_target])  # targets V
        return summed_mixture_loss(logits, following[is_target], cached, self.options.recall)

    def read_blocks(self, model: nn.Module, batch: Batch) -> BodyOutput:
        """The pass through the body, with the memory of the blocks before if the model has one."""
        if not self.carries_memory:
            return model.base_model.encode(**batch.inputs, use_cache=False)
        size = self.model.base_model.mem_len
        if self.options.memory is not None and not model.training:
            size = self.options.memory
        mems = self.memory.take(batch.examples, size, model.training, batch.labels["labels"].device)
        body = model.base_model.encode(**batch.inputs, mems=mems, mem_len=size)
        if body.past_key_values is not None:
            self.memory.put(batch.examples, body.past_key_values, model.training)
        return body

    def target_states(self, model: nn.Module, batch: Batch) -> Tensor:
        """The hidden states that predict a target, in the order of the batch: no other logits are computed."""
        body = self.read_blocks(model, batch)
        return vectors_at(body, batch.labels["labels"] != IGNORED)[0]

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        if logits.dim() == 0:
            return logits
        return summed_label_loss(logits, next_tokens(batch), label_smoothing=self.label_smoothing)

    @property
    def mean_metric_names(self) -> tuple[str, ...]:
        return ("perplexity",)

    def mean_metrics(self, means: Mapping[str, float]) -> dict[str, float]:
        return {"perplexity": perplexity(means[LOSS])}


def next_tokens(batch: Batch) -> Tensor:
    """The target tokens in the order of the batch."""
    labels = batch.labels["labels"]
    return labels[labels != IGNORED]
