"""The base of tasks that generate text: generation settings as options, and a seed for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from ...errors import InputError, refuse_unknown
from ...generate.config import GenerationConfig, task_settings
from ...generate.generation import Generation, exhaust
from ...generate.request import SearchResult
from ..batch import Batch, Example
from ..task_options import TextOptions
from ..text_task import TextTask

SEED_STEP = 1_000_003  # between the seeds of two rows, which may return several sequences each
Writer = TypeVar("Writer", bound="GenerationTask")


@dataclass(frozen=True, kw_only=True)
class GenerationTaskOptions(TextOptions):
    """The task's own options; every setting of `GenerationConfig` is an option too.

    Attributes:
        clean_up_tokenization_spaces: Whether spaces before punctuation are removed; None: the tokenizer's own
            setting.
        prefix: Prepended to every text.
        generator: A seed; each row has random numbers of its own. Also called seed.
        settings: The settings of GenerationConfig that were given.
    """

    clean_up_tokenization_spaces: bool | None = None
    prefix: str | None = None
    generator: Any = None
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.prefix, str | None):
            raise InputError(f"prefix must be a text, got {self.prefix!r:.60}")
        if self.generator is not None and (not isinstance(self.generator, int) or isinstance(self.generator, bool)):
            raise InputError(f"generator takes a whole number as a seed, got {self.generator!r:.60}")


class GenerationTask(TextTask):
    """A task that generates text. The checkpoint's `task_specific_params` are defaults that a call overrides."""

    uses_random_numbers = True
    generates = True
    settings_name: ClassVar[str] = ""  # what `task_specific_params` calls the task, if not by its own name

    @property
    def supports_label_smoothing(self) -> bool:
        return True

    @classmethod
    def option_names(cls) -> list[str]:
        options = [name for name in super().option_names() if name != "settings"]
        return [*options, "seed", *GenerationConfig.field_names()]

    def with_options(self: Writer, **options: Any) -> Writer:
        refuse_unknown(options, self.option_names(), self.name)
        if "seed" in options:
            options["generator"] = options.pop("seed")
        names = super().option_names()
        settings = {name: value for name, value in options.items() if name not in names}
        task = super().with_options(**{name: value for name, value in options.items() if name in names})
        task.options = replace(task.options, settings={**self.options.settings, **settings})
        return task

    @property
    def default_settings(self) -> GenerationConfig | None:
        """The generation settings for this task in the model's files."""
        return task_settings(self.model.config, self.settings_name or self.name)

    def forward(self, batch: Batch) -> list[list[tuple[list[int], str]]]:
        """The generated sequences for each example, each with its reason to stop."""
        return self.sequences(exhaust(self.generation(batch).steps()), len(batch.examples))

    def generation(self, batch: Batch) -> Generation:
        """The call of `generate` for a batch, which has not started yet."""
        settings = {**self.options.settings, "return_dict_in_generate": True}
        return Generation(
            self.model,
            batch.inputs["input_ids"],
            attention_mask=batch.inputs["attention_mask"],
            generator=self.seeds(batch, settings),
            tokenizer=self.tokenizer,
            generation_config=self.default_settings,
            **settings,
        )

    @staticmethod
    def sequences(result: SearchResult, rows: int) -> list[list[tuple[list[int], str]]]:
        """The sequences of each row, each with its reason to stop."""
        found = [(each.tokens, each.finish_reason) for each in result.continuations]
        count = len(found) // rows
        return [found[start : start + count] for start in range(0, len(found), count)]

    def seeds(self, batch: Batch, settings: dict[str, Any]) -> list[int] | None:
        """A seed for each sequence, which does not depend on the batch that its row is in."""
        if self.options.generator is None:
            return None
        copies = 1 if (settings.get("num_beams") or 1) > 1 else settings.get("num_return_sequences") or 1
        rows = [self.options.generator + SEED_STEP * example.row for example in batch.examples]
        return [seed + copy for seed in rows for copy in range(copies)]

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Without token types, which a decoder would look up in its vocabulary, even if the tokenizer makes them."""
        inputs = self.processor.collate([example.encoded for example in examples], token_types=False)
        return {name: tensor.long() for name, tensor in inputs.items()}
