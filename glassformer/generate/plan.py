"""The resolved settings of a call of `generate`, and where each of them came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .config import GenerationConfig, warn_once

# Where a setting can come from, in order of precedence.
CALL, ARGUMENT, MODEL, DEFAULT = PRECEDENCE = ("call", "generation_config", "model", "default")

GREEDY, SAMPLING, CONTRASTIVE = "greedy", "sampling", "contrastive search"
BEAMS, BEAM_SAMPLING = "beam search", "beam sampling"
DIVERSE, CONSTRAINED = "diverse beam search", "constrained beam search"

DEFAULT_NEW_TOKENS = 20  # when neither max_new_tokens nor max_length is given


@dataclass(frozen=True)
class Source:
    """Where the value of a setting came from."""

    layer: str = DEFAULT  # CALL, ARGUMENT, MODEL or DEFAULT
    file: str = ""  # that the layer was read from, if any
    overridden: Any = None  # the value of a lower layer, if it was another one

    def __str__(self) -> str:
        names = {CALL: "this call", ARGUMENT: "generation_config", MODEL: "model.generation_config", DEFAULT: "default"}
        return self.file or names[self.layer]

    def takes_precedence_over(self, other: Source) -> bool:
        return PRECEDENCE.index(self.layer) < PRECEDENCE.index(other.layer)


@dataclass(frozen=True)
class Plan:
    """What a call of `generate` will do, and where every setting came from."""

    settings: GenerationConfig
    sources: Mapping[str, Source]
    strategy: str
    eos: list[int]
    pad: int
    prompt_lengths: list[int]
    max_new_tokens: list[int]  # for each prompt
    context_length: int | None = None  # how many tokens the model reads at once; None: any number
    is_encoder_decoder: bool = False
    has_generator: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def max_lengths(self) -> list[int]:
        """The maximum length of each sequence, prompt included."""
        return [prompt + new for prompt, new in zip(self.prompt_lengths, self.max_new_tokens, strict=True)]

    @property
    def exceeds_context(self) -> bool:
        """Whether some sequence would get, or gets, longer than the model reads at once."""
        if self.context_length is None:
            return False
        name, settings = self.length_field, self.settings
        if name == "max_length":
            return bool(self.prompt_lengths) and settings.max_length > self.context_length
        new = settings.max_new_tokens if name else DEFAULT_NEW_TOKENS
        return any(max(prompt, 1) + new > self.context_length for prompt in self.prompt_lengths)  # empty: a BOS token

    @property
    def length_field(self) -> str | None:
        return length_field(self.settings, self.sources)

    def log_warnings(self) -> None:
        for warning in self.warnings:
            warn_once(warning)


def length_field(settings: GenerationConfig, sources: Mapping[str, Source]) -> str | None:
    """The field that limits the length: by precedence, and max_new_tokens if both come from one layer."""
    if settings.max_new_tokens is None or settings.max_length is None:
        return next((name for name in ("max_new_tokens", "max_length") if getattr(settings, name) is not None), None)
    return "max_length" if sources["max_length"].takes_precedence_over(sources["max_new_tokens"]) else "max_new_tokens"
