"""What the tasks share whose model writes: settings of generation as options, a seed for each row, the texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from torch import Tensor

from ...errors import InputError, refuse_unknown
from ...generate.config import GenerationConfig, task_settings
from ...generate.engine import Generation, exhaust
from ..batch import Batch, Example
from ..task_options import TextOptions
from ..text_task import TextTask

SEQUENCES = 1_000_003  # apart from each other stand the seeds of two rows
Writer = TypeVar("Writer", bound="GenerationTask")


@dataclass(frozen=True, kw_only=True)
class GenerationTaskOptions(TextOptions):
    """What is done with texts; besides, every setting of `GenerationConfig` can be asked for."""

    clean_up_tokenization_spaces: bool | None = None  # None: as the tokenizer is set
    prefix: str | None = None  # stands before every text
    generator: Any = None  # a seed; each row draws on its own
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.generator is not None and (not isinstance(self.generator, int) or isinstance(self.generator, bool)):
            raise InputError(f"generator takes a whole number as a seed, got {self.generator!r:.60}")


class GenerationTask(TextTask):
    """A task whose model writes. What the checkpoint's `task_specific_params` say of it counts unless a call says
    otherwise."""

    draws = True

    generates = True

    @property
    def smooths_labels(self) -> bool:
        return True

    @classmethod
    def option_names(cls) -> list[str]:
        own = [name for name in super().option_names() if name != "settings"]
        return [*own, "seed", *GenerationConfig.field_names()]

    def with_options(self: Writer, **options: Any) -> Writer:
        refuse_unknown(options, self.option_names(), self.name)
        if "seed" in options:
            options["generator"] = options.pop("seed")
        own = super().option_names()
        settings = {name: value for name, value in options.items() if name not in own}
        rest = {name: value for name, value in options.items() if name in own}
        task = super().with_options(**rest)
        task.options = replace(task.options, settings={**self.options.settings, **settings})
        return task

    @property
    def own_settings(self) -> GenerationConfig | None:
        """What the model's files say of generation in this task."""
        return task_settings(self.model.config, self.name)

    def forward(self, batch: Batch) -> list[list[tuple[list[int], str]]]:
        """For each text what is written for it, each with the reason for its end."""
        settings = {**self.options.settings, "return_dict_in_generate": True}
        generation = Generation(
            self.model,
            batch.inputs["input_ids"],
            attention_mask=batch.inputs["attention_mask"],
            generator=self.seeds(batch, settings),
            tokenizer=self.tokenizer,
            generation_config=self.own_settings,
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

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Without token types, which a decoder would look up among its words, whatever tokenizer it came with."""
        inputs = self.processor.collate([example.encoded for example in examples], token_types=False)
        return {name: tensor.long() for name, tensor in inputs.items()}
