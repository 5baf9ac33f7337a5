"""text-generation: how does a text go on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..generate.conditioning import condition
from ..nn.loss import IGNORED
from .base import Columns, Row
from .batch import Batch, Example
from .options import switch
from .writing import WritingOptions, WritingTask


@dataclass(frozen=True, kw_only=True)
class TextGenerationOptions(WritingOptions):
    """What is done with prompts and texts."""

    return_full_text: bool = True  # the prompt too
    return_tensors: bool = False  # the tokens in place of the text
    label: str | None = None  # of a model that was trained with control tokens

    def __post_init__(self) -> None:
        super().__post_init__()
        switch("return_full_text", self.return_full_text)
        switch("return_tensors", self.return_tensors)


@dataclass(frozen=True)
class Prompt:
    """The ids that are continued."""

    tokens: list[int]
    truncated = False

    def __len__(self) -> int:
        return len(self.tokens)

    def ids(self) -> list[int]:
        return self.tokens

    def type_ids(self) -> list[int]:
        return [0] * len(self.tokens)


class TextGeneration(WritingTask):
    """How does the text go on?

    What the checkpoint's `task_specific_params` say of text-generation counts unless a call says otherwise.

    >>> pipe = pipeline("text-generation", model="./gpt2-chinese/")            # doctest: +SKIP
    >>> pipe("明月几时有", max_new_tokens=20, do_sample=True)                    # doctest: +SKIP
    [{'generated_text': '明月几时有...'}]
    """

    name = "text-generation"
    head = "AutoModelForCausalLM"
    columns = Columns(("text",))
    Options = TextGenerationOptions

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
        return [Example(Prompt(ids), {"labels": list(ids)})]

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

    def count_targets(self, batch: Batch) -> int:
        return sum(max(len(example) - 1, 0) for example in batch.examples)

    def summed_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Words are scored only where one follows: a vocabulary is many times wider than a model."""
        following = F.pad(batch.labels["labels"][:, 1:], (0, 1), value=IGNORED)  # B T
        body = model.base_model.run(**batch.inputs, use_cache=False)
        labels = body.layout.pack(following)  # N
        learnt = labels != IGNORED
        logits = model.word_logits(body.rows[learnt])
        return F.cross_entropy(logits, labels[learnt], reduction="sum", label_smoothing=self.label_smoothing)
