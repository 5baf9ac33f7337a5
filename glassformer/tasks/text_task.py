"""A task whose rows hold texts: they are read by a tokenizer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from ..errors import InputError
from ..models.auto import AUTO_CLASSES
from ..models.base import PreTrainedModel
from ..registry import BODY
from ..text.auto_tokenizer import AutoTokenizer
from ..text.base.text_inputs import describe
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Batch, Example
from .processor import TextProcessor
from .task import Task, takes
from .task_options import TextOptions
from .truncation import EncodesTexts

log = logging.getLogger("glassformer")

SPARE = 256  # rows that a model may have beyond its tokenizer's tokens: sizes are rounded up
SomeTask = TypeVar("SomeTask", bound="TextTask")


class TextTask(EncodesTexts, Task):
    """What all tasks that read texts share."""

    Options = TextOptions
    needs_special_tokens: ClassVar[bool] = False  # texts of files keep theirs too

    processor: TextProcessor

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if self.head == BODY and model.config.is_encoder_decoder:
            raise InputError(f"{self.name} takes a model that reads one text; {type(model).__name__} writes another")
        super().__init__(model, TextProcessor(tokenizer), **options)
        self.compare_vocabularies()

    @property
    def tokenizer(self) -> PreTrainedTokenizer:  # type: ignore[override]
        return self.processor.tokenizer

    @classmethod
    def from_pretrained(
        cls: type[SomeTask],
        name_or_path: str | PathLike[str],
        tokenizer: PreTrainedTokenizer | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SomeTask:
        """The task with a model and tokenizer from a folder or by a hub name.

        `hub` holds the arguments for finding files (`revision`, `cache_dir`, ...), `model_arguments` further ones for
        the model's own `from_pretrained`.
        """
        hub = dict(hub or {})
        model = AUTO_CLASSES[cls.head].from_pretrained(name_or_path, **hub, **(model_arguments or {}))
        if tokenizer is None or not isinstance(tokenizer, PreTrainedTokenizer):
            tokenizer = AutoTokenizer.from_pretrained(name_or_path if tokenizer is None else tokenizer, **hub)
        return cls(model, tokenizer, **options)

    @classmethod
    def new_config(cls, tokenizer: PreTrainedTokenizer) -> dict[str, Any]:
        """What the config of a new model must say to go with a tokenizer."""
        ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
        return {"vocab_size": len(tokenizer), **ids}

    def compare_vocabularies(self) -> None:
        """Warn that the tokenizer seems to be another model's, whose ids mean other words."""
        known, words = self.model.get_input_embeddings().num_embeddings, len(self.tokenizer)
        if words > known or known - words >= SPARE:
            warning = "the tokenizer has %d tokens and the model %d: if they do not belong together, answers are wrong"
            log.warning(warning, words, known)

    def check_column(self, name: str, value: Any) -> None:
        if name in self.columns.lists:
            is_right = isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
            if value is not None and not is_right:
                raise InputError(f"{name} must be a list of one text or more, got {describe(value)}")
        elif value is not None and not isinstance(value, str):
            raise InputError(f"{name} must be a text, got {describe(value)}")

    def learn_from(self, row: Any, seed: Sequence[int]) -> list[Example]:
        examples = super().learn_from(row, seed)
        if any(example.encoded.truncated for example in examples):
            self.report_truncation("text", self.limit)
        return examples

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        token_types = takes(self.model.base_model, "token_type_ids")
        return self.processor.collate([example.encoded for example in examples], token_types=token_types)

    def count_positions(self, batch: Batch) -> int:
        return sum(tensor.numel() for name, tensor in batch.inputs.items() if name.endswith("input_ids"))
