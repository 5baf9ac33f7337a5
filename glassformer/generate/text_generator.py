"""`TextGenerator`: prompts to texts, one batch after the other with the same settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .generation import Generation, exhaust
from .model_runner import pad_right
from .request import Continuation, SearchResult
from .settings_resolution import resolve
from .streaming import TextStream, stream_pieces

if TYPE_CHECKING:
    from ..models.base.pretrained_model import PreTrainedModel
    from ..text.tokenizer import PreTrainedTokenizer
    from .config import GenerationConfig

RANDOM_SEEDS = 1_000_000  # random seeds stay short enough to be typed


@dataclass(frozen=True)
class GeneratedText:
    """The continuation of a prompt."""

    text: str
    ids: list[int]  # the new tokens
    finish_reason: str  # "eos", "stop" or "length"
    prompt: list[int]  # as the model read it


class TextGenerator:
    """Continues prompts, given as ids; settings are those of `generate`.

    Every sampled sequence has a generator of its own, seeded by `seed` and the number of the sequence: the same prompts
    in the same order give the same texts in batches of any size. Without a seed a random one is chosen.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizer,
        generation_config: GenerationConfig | None = None,
        *,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        plan = resolve(model, generation_config, settings, [], has_tokenizer=True, has_generator=seed is not None)
        self.model, self.tokenizer, self.generation_config = model, tokenizer, generation_config
        self.call = {**settings, "pad_token_id": plan.pad}
        self.settings = plan.settings
        self.seed = secrets.randbelow(RANDOM_SEEDS) if seed is None and plan.settings.do_sample else seed
        self.sequences_started = 0

    @property
    def can_stream(self) -> bool:
        """Whether text is known before its end: with one sequence, and without beams that may be dropped."""
        return self.settings.num_beams == 1 and self.settings.num_return_sequences == 1

    def generate(self, prompts: Sequence[Sequence[int]]) -> list[list[GeneratedText]]:
        """Continue a batch; `num_return_sequences` texts for each prompt."""
        generation = self.start(prompts)
        return self.decode_result(generation, exhaust(generation.steps()))

    def stream(self, prompt: Sequence[int], on_text: Callable[[str], None]) -> GeneratedText:
        """Continue one prompt; `on_text` receives the pieces of its text."""
        generation = self.start([prompt])
        stream = TextStream(self.tokenizer, skip_special_tokens=True)
        stream.begin(generation.request.prompts[0])
        return self.decode_result(generation, exhaust(stream_pieces(generation, stream), on_text))[0][0]

    def start(self, prompts: Sequence[Sequence[int]]) -> Generation:
        ids, real = pad_right(prompts, self.model.device)
        copies = 1 if self.settings.num_beams > 1 else self.settings.num_return_sequences
        numbers = range(self.sequences_started, self.sequences_started + len(prompts) * copies)
        self.sequences_started = numbers.stop
        return Generation(
            self.model,
            ids,
            self.generation_config,
            attention_mask=real.long(),
            tokenizer=self.tokenizer,
            generator=None if self.seed is None else [self.seed + number for number in numbers],
            **self.call,
        )

    def decode_result(self, generation: Generation, result: SearchResult) -> list[list[GeneratedText]]:
        copies = len(result.continuations) // len(generation.request.prompts)
        return [
            [self.decode(prompt, one) for one in result.continuations[row * copies : (row + 1) * copies]]
            for row, prompt in enumerate(generation.request.prompts)
        ]

    def decode(self, prompt: list[int], continuation: Continuation) -> GeneratedText:
        stream = TextStream(self.tokenizer, skip_special_tokens=True)
        stream.begin(prompt)
        text = stream.put(continuation.tokens) + stream.end()
        return GeneratedText(text, continuation.tokens, continuation.finish_reason, prompt)
