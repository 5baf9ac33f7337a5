"""What a generation will do, settled before its first step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .config import GenerationConfig

# Where a value came from, the nearest first.
CALL, ARGUMENT, MODEL, DEFAULT = NEAREST = ("call", "generation_config", "model", "default")

GREEDY, SAMPLING, CONTRASTIVE = "greedy", "sampling", "contrastive search"
BEAMS, BEAM_SAMPLING = "beam search", "beam sampling"
DIVERSE, CONSTRAINED = "diverse beam search", "constrained beam search"

NEW_TOKENS = 20  # when nobody says how long


@dataclass(frozen=True)
class Source:
    """Where the value of a setting came from."""

    layer: str = DEFAULT  # CALL, ARGUMENT, MODEL or DEFAULT
    file: str = ""  # behind the layer, if there is one
    instead_of: Any = None  # the value that a farther layer gave, if it was another one

    def __str__(self) -> str:
        words = {CALL: "this call", ARGUMENT: "generation_config", MODEL: "model.generation_config", DEFAULT: "default"}
        return self.file or words[self.layer]

    def is_nearer_than(self, other: Source) -> bool:
        return NEAREST.index(self.layer) < NEAREST.index(other.layer)


@dataclass(frozen=True)
class Plan:
    """What a generation will do, and where every setting came from."""

    settings: GenerationConfig
    sources: Mapping[str, Source]
    strategy: str
    eos: list[int]
    pad: int
    prompts: list[int]  # their lengths
    new_tokens: list[int]  # for each prompt, at most
    context: int | None = None  # how many tokens the model reads at once; None: any number
    is_encoder_decoder: bool = False
    has_generator: bool = False
    notes: tuple[str, ...] = ()  # what is worth saying

    @property
    def limits(self) -> list[int]:
        """How many tokens each sequence may have, prompt included."""
        return [prompt + new for prompt, new in zip(self.prompts, self.new_tokens, strict=True)]

    @property
    def passes_context(self) -> bool:
        """Whether some sequence would get, or gets, longer than the model reads at once."""
        if self.context is None:
            return False
        name, settings = self.length_field, self.settings
        if name == "max_length":
            return bool(self.prompts) and settings.max_length > self.context
        new = settings.max_new_tokens if name else NEW_TOKENS
        return any(max(prompt, 1) + new > self.context for prompt in self.prompts)  # an empty one begins with a token

    @property
    def length_field(self) -> str | None:
        return length_field(self.settings, self.sources)


def length_field(settings: GenerationConfig, sources: Mapping[str, Source]) -> str | None:
    """The field that says how long a sequence may get: of two the nearer one, and max_new_tokens in one layer."""
    if settings.max_new_tokens is None or settings.max_length is None:
        return next((name for name in ("max_new_tokens", "max_length") if getattr(settings, name) is not None), None)
    return "max_length" if sources["max_length"].is_nearer_than(sources["max_new_tokens"]) else "max_new_tokens"
