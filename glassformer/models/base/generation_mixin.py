"""`generate` and the generation config of models that predict the next word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

if TYPE_CHECKING:
    from ...generate.config import GenerationConfig
    from ...generate.output import GenerateOutput


class GenerationMixin:
    """A model whose `word_logits` (N C -> N V) score the word that follows each row."""

    _generation_config: GenerationConfig | None = None

    @property
    def generation_config(self) -> GenerationConfig:
        """The default settings of `generate`: generation_config.json, else those of the model's config."""
        if self._generation_config is None:
            from ...generate.config import GenerationConfig

            self._generation_config = GenerationConfig.from_model_config(self.config)
        return self._generation_config

    @generation_config.setter
    def generation_config(self, value: GenerationConfig) -> None:
        self._generation_config = value

    def generate(
        self,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **settings: Any,
    ) -> Tensor | GenerateOutput:
        """Continue prompts (B T, padded on either side or not at all).

        Settings have the names of `GenerationConfig`; besides, `generator` takes a torch.Generator or a seed, or one
        for each sequence; `tokenizer` encodes `stop_strings`; `streamer` receives every token. A prompt generates the
        same text in a batch as alone.

        >>> model.generate(ids, max_new_tokens=20, num_beams=4)  # doctest: +SKIP
        """
        from ...generate.generation import generate

        given = inputs if input_ids is None else input_ids
        return generate(self, given, generation_config, attention_mask=attention_mask, **settings)

    def read_generation_config(self, folder: Path) -> None:
        """Read the generation config of a checkpoint, if it has one."""
        from ...generate.config import GenerationConfig

        if (folder / "generation_config.json").is_file():
            self._generation_config = GenerationConfig.from_pretrained(folder)

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> None:
        from ...checkpoints.folder_save import saved_together

        with saved_together(save_directory) as staged:
            super().save_pretrained(staged, **options)
            self.generation_config.save_pretrained(staged)
