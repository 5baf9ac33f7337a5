"""A task whose rows hold texts, which a tokenizer encodes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from ..errors import InputError
from ..models.auto import AUTO_CLASSES
from ..models.base.pretrained_model import PreTrainedModel
from ..registry import BODY
from ..text.auto_tokenizer import AutoTokenizer
from ..text.base.text_inputs import describe
from ..text.base.vocabulary_checks import MAX_UNUSED_ROWS, warn_if_shifted
from ..text.tokenizer import PreTrainedTokenizer
from .batch import Batch, Example
from .processor import TextProcessor
from .task import Task, takes
from .task_options import TextOptions
from .truncation import TextEncodingMixin

log = logging.getLogger("glassformer")

SomeTask = TypeVar("SomeTask", bound="TextTask")


class TextTask(TextEncodingMixin, Task):
    """What all tasks that read texts share."""

    Options = TextOptions
    needs_special_tokens: ClassVar[bool] = False  # special tokens in texts of files are read as such by default

    needs_sentinels: ClassVar[bool] = False  # tokens that stand for gaps in a text

    processor: TextProcessor

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizer, **options: Any) -> None:
        if self.head == BODY and model.config.is_encoder_decoder:
            raise InputError(f"{self.name} takes an encoder or a decoder; {type(model).__name__} is an encoder-decoder")
        super().__init__(model, TextProcessor(tokenizer), **options)
        self.compare_vocabularies()

    @property
    def tokenizer(self) -> PreTrainedTokenizer:  # type: ignore[override]
        return self.processor.tokenizer

    @property
    def preprocessor(self) -> PreTrainedTokenizer:
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
        """Load the task's model and tokenizer from a folder or by a hub name.

        `hub` holds the arguments for finding files (`revision`, `cache_dir`, ...), `model_arguments` further ones for
        the model's own `from_pretrained`.
        """
        parts = cls.load_parts(name_or_path, tokenizer, dict(hub or {}), dict(model_arguments or {}))
        return cls(**{**parts, **options})

    @classmethod
    def load_parts(cls, name_or_path: Any, tokenizer: Any, hub: dict, model_arguments: dict) -> dict[str, Any]:
        """The constructor's arguments that come from a checkpoint."""
        model = AUTO_CLASSES[cls.head].from_pretrained(name_or_path, **hub, **model_arguments)
        if not isinstance(tokenizer, PreTrainedTokenizer):
            tokenizer = AutoTokenizer.from_pretrained(name_or_path if tokenizer is None else tokenizer, **hub)
        return {"model": model, "tokenizer": tokenizer}

    @classmethod
    def new_config(cls, tokenizer: PreTrainedTokenizer) -> dict[str, Any]:
        """The config fields of a new model that its tokenizer determines."""
        ids = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
        return {"vocab_size": len(tokenizer), **ids}

    def compare_vocabularies(self) -> None:
        """Warn if the tokenizer seems to belong to another model, in which ids mean other tokens."""
        rows, tokens = self.model.get_input_embeddings().num_embeddings, len(self.tokenizer)
        if tokens > rows or rows - tokens >= MAX_UNUSED_ROWS:
            warning = "the tokenizer has %d tokens and the model %d: if they do not belong together, answers are wrong"
            log.warning(warning, tokens, rows)
        warn_if_shifted(self.tokenizer, rows)

    def check_column(self, name: str, value: Any) -> None:
        if name in self.columns.lists:
            is_valid = isinstance(value, list | tuple) and value and all(isinstance(each, str) for each in value)
            if value is not None and not is_valid:
                raise InputError(f"{name} must be a list of one text or more, got {describe(value)}")
        elif value is not None and not isinstance(value, str):
            raise InputError(f"{name} must be a text, got {describe(value)}")

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        token_types = takes(self.model.base_model, "token_type_ids")
        return self.processor.collate([example.encoded for example in examples], token_types=token_types)

    def count_positions(self, batch: Batch) -> int:
        return sum(tensor.numel() for name, tensor in batch.inputs.items() if name.endswith("input_ids"))
