"""text-generation: how does a text go on?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError, refuse_unknown
from ..generate.conditioning import condition
from ..generate.config import GenerationConfig, task_settings
from ..generate.engine import Generation, exhaust
from ..nn.loss import IGNORED
from .base import Columns, Row, Task
from .batch import Batch, Example
from .options import Options, switch

SEQUENCES = 1_000_003  # apart from each other stand the seeds of two rows


@dataclass(frozen=True, kw_only=True)
class TextGenerationOptions(Options):
    """What is done with texts; besides, every setting of `GenerationConfig` can be asked for."""

    return_full_text: bool = True  # the prompt too
    return_tensors: bool = False  # the tokens in place of the text
    clean_up_tokenization_spaces: bool | None = None  # None: as the tokenizer is set
    prefix: str | None = None  # stands before every prompt
    label: str | None = None  # of a model that was trained with control tokens
    generator: Any = None  # a seed; each row draws on its own
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        switch("return_full_text", self.return_full_text)
        switch("return_tensors", self.return_tensors)
        if self.generator is not None and (not isinstance(self.generator, int) or isinstance(self.generator, bool)):
            raise InputError(f"generator takes a whole number as a seed, got {self.generator!r:.60}")


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


class TextGeneration(Task):
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
    smooths_labels = True

    @classmethod
    def option_names(cls) -> list[str]:
        own = [name for name in super().option_names() if name != "settings"]
        return [*own, "seed", *GenerationConfig.field_names()]

    def asked(self, **options: Any) -> TextGeneration:
        refuse_unknown(options, self.option_names(), self.name)
        if "seed" in options:
            options["generator"] = options.pop("seed")
        own = super().option_names()
        settings = {name: value for name, value in options.items() if name not in own}
        rest = {name: value for name, value in options.items() if name in own}
        task = super().asked(**rest)
        task.options = replace(task.options, settings={**self.options.settings, **settings})
        return task

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

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Without token types, which a decoder would look up among its words, whatever tokenizer it came with."""
        batch = super().collate(examples)
        batch.inputs = {name: batch.inputs[name].long() for name in ("input_ids", "attention_mask")}
        return batch

    # --- tensors to answers ------------------------------------------------------------------------------------

    def forward(self, batch: Batch) -> list[list[tuple[list[int], str]]]:
        """For each prompt its continuations, each with the reason for its end."""
        settings = {**self.options.settings, "return_dict_in_generate": True}
        plan = {"tokenizer": self.tokenizer, "generation_config": task_settings(self.model.config, self.name)}
        generation = Generation(
            self.model,
            batch.inputs["input_ids"],
            attention_mask=batch.inputs["attention_mask"],
            generator=self.seeds(batch, settings),
            **plan,
            **settings,
        )
        found = exhaust(generation.steps())
        each = len(found.continuations) // len(batch.examples)
        texts = [(one.tokens, one.reason) for one in found.continuations]
        return [texts[start : start + each] for start in range(0, len(texts), each)]

    def seeds(self, batch: Batch, settings: dict[str, Any]) -> list[int] | None:
        """A seed for each sequence, whatever batch its row comes in."""
        if self.options.generator is None:
            return None
        copies = 1 if settings.get("num_beams", 1) > 1 else settings.get("num_return_sequences", 1)
        rows = [self.options.generator + SEQUENCES * example.row for example in batch.examples]
        return [seed + copy for seed in rows for copy in range(copies)]

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
