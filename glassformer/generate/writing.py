"""Prompts in, texts out: one batch after the other with the same settings."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.rnn import pad_sequence

from .engine import Generation
from .job import Continuation, Found
from .settings import settle
from .streaming import TextStream, pieces

if TYPE_CHECKING:
    from ..models.base import PreTrainedModel
    from ..text.tokenizer import PreTrainedTokenizer
    from .config import GenerationConfig

SEEDS = 1_000_000  # seeds that are made up stay short enough to be typed again


@dataclass(frozen=True)
class Written:
    """What was written behind a prompt."""

    text: str
    ids: list[int]  # the new tokens
    finish_reason: str  # "eos", "stop" or "length"
    prompt: list[int]  # as the model read it


class Writer:
    """Continues prompts, given as ids; settings are those of `generate`.

    Every sequence that is drawn has a generator of its own, by the seed and the sequence's number: the same prompts in
    the same order give the same texts, however they are cut into batches. Without a seed one is made up.
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
        plan = settle(model, generation_config, settings, [], has_tokenizer=True, has_generator=seed is not None)
        self.model, self.tokenizer, self.generation_config = model, tokenizer, generation_config
        self.call = {**settings, "pad_token_id": plan.pad}
        self.settings = plan.settings
        self.seed = secrets.randbelow(SEEDS) if seed is None and plan.settings.do_sample else seed
        self.begun = 0  # sequences so far

    @property
    def streams(self) -> bool:
        """Whether a text is known before its end: one sequence, and no beams that may be given up."""
        return self.settings.num_beams == 1 and self.settings.num_return_sequences == 1

    def write(self, prompts: Sequence[Sequence[int]]) -> list[list[Written]]:
        """Continue a batch; for each prompt as many texts as `num_return_sequences` says."""
        generation = self.begin(prompts)
        steps = generation.steps()
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return self.written(generation, end.value)

    def stream(self, prompt: Sequence[int], show: Callable[[str], None]) -> Written:
        """Continue one prompt and show the pieces of its text as they come."""
        generation = self.begin([prompt])
        stream = TextStream(self.tokenizer, skip_special_tokens=True)
        stream.begin(generation.job.prompts[0])
        coming = pieces(generation, stream)
        while True:
            try:
                show(next(coming))
            except StopIteration as end:
                return self.written(generation, end.value)[0][0]

    def begin(self, prompts: Sequence[Sequence[int]]) -> Generation:
        rows = [torch.tensor(list(prompt), dtype=torch.long, device=self.model.device) for prompt in prompts]
        ids = pad_sequence(rows, batch_first=True)
        lengths = torch.tensor([len(row) for row in rows], device=ids.device)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        each = 1 if self.settings.num_beams > 1 else self.settings.num_return_sequences
        numbers = range(self.begun, self.begun + len(prompts) * each)
        self.begun = numbers.stop
        return Generation(
            self.model,
            ids,
            self.generation_config,
            attention_mask=real.long(),
            tokenizer=self.tokenizer,
            generator=None if self.seed is None else [self.seed + number for number in numbers],
            **self.call,
        )

    def written(self, generation: Generation, found: Found) -> list[list[Written]]:
        each = len(found.continuations) // len(generation.job.prompts)
        return [
            [self.spell(prompt, one) for one in found.continuations[place * each : (place + 1) * each]]
            for place, prompt in enumerate(generation.job.prompts)
        ]

    def spell(self, prompt: list[int], continuation: Continuation) -> Written:
        stream = TextStream(self.tokenizer, skip_special_tokens=True)
        stream.begin(prompt)
        text = stream.put(continuation.tokens) + stream.end()
        return Written(text, continuation.tokens, continuation.reason, prompt)
