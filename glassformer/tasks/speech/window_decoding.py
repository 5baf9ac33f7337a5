"""What is said in one window: the search of the model of speech, and how sure it is of what it writes.

The rules are those of the original (Radford et al. 2022, section 4.5): the mean log-probability of the tokens, how far
the text can be compressed, and the probability that nothing is said.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...generate.beam_search import BeamHypotheses, BeamSearch
from ...generate.generation import SEARCHES, Generation, exhaust
from ...generate.model_runner import Runner, RunnerFactory
from ...generate.plan import BEAMS
from ...generate.request import EOS, Continuation, GenerationRequest, Search
from ...generate.token_sequence import TokenSequence
from ...models.whisper_heads import WhisperForConditionalGeneration
from ...text.whisper_tokenizer import WhisperTokenizer


@dataclass(frozen=True)
class DecodedWindow:
    """What was written for a window; without the tokens before it, and without the end."""

    tokens: list[int]
    text: str
    temperature: float
    avg_logprob: float
    no_speech_prob: float

    @property
    def compression_ratio(self) -> float:
        """How many times shorter compression makes the text: high where it repeats itself."""
        data = self.text.encode("utf-8")
        return len(data) / len(zlib.compress(data))


@dataclass(frozen=True)
class WindowSearch:
    """How a window is searched: at temperature 0 the likeliest tokens or beams, above it samples."""

    beam_size: int | None = None
    best_of: int | None = None
    patience: float | None = None
    length_penalty: float | None = None  # None: scores are means; else (Wu et al. 2016) what lengths are weighed by

    def settings(self, temperature: float) -> dict[str, Any]:
        """The settings of `generate`."""
        if temperature > 0:
            return {
                "do_sample": True,
                "temperature": temperature,
                "top_k": 0,
                "num_return_sequences": self.best_of or 1,
            }
        return {"do_sample": False, "num_beams": self.beam_size or 1}

    def score(self, log_prob: float, length: int) -> float:
        """What the candidates for a window are ranked by."""
        if self.length_penalty is None:
            return log_prob / max(length, 1)
        return log_prob / ((5 + length) / 6) ** self.length_penalty


def decode_window(
    model: WhisperForConditionalGeneration,
    tokenizer: WhisperTokenizer,
    memory: Tensor,
    prompt: Sequence[int],
    start: int,
    search: WindowSearch,
    temperature: float,
    with_times: bool,
    generator: torch.Generator | None,
) -> DecodedWindow:
    """Write what is said in a window.

    `memory` is what the encoder made of it (1 T C). The prompt are all tokens before the text; `start` is the place
    of the start token in it, behind which the model says whether anything is said at all.
    """
    settings = search.settings(temperature)
    generation = WindowGeneration(model, prompt, memory, search, with_times, generator, settings)
    found = generation.candidates()
    best = max(found, key=lambda each: search.score(each[1], len(each[0])))
    tokens, log_prob = best
    return DecodedWindow(
        tokens=tokens,
        text=tokenizer.decode(tokens, clean_up_tokenization_spaces=False).strip(),
        temperature=temperature,
        avg_logprob=log_prob / (len(tokens) + 1),
        no_speech_prob=generation.no_speech_probability(start),
    )


class WindowGeneration(Generation):
    """`generate` for a window, which also keeps the log-probabilities of what is written."""

    def __init__(
        self,
        model: WhisperForConditionalGeneration,
        prompt: Sequence[int],
        memory: Tensor,
        search: WindowSearch,
        with_times: bool,
        generator: torch.Generator | None,
        settings: dict[str, Any],
    ) -> None:
        super().__init__(
            model,
            None,
            encoder_hidden_states=memory,
            decoder_input_ids=torch.tensor([list(prompt)]),
            return_timestamps=with_times,
            max_new_tokens=model.config.max_position_embeddings // 2,
            generator=generator,
            **settings,
        )
        self.search, self.runner = search, None
        self.log_probs = LogProbabilities()
        self.request.processors.append(self.log_probs)
        self.searches = {**SEARCHES, BEAMS: self.beam_search}

    def make_runner(self, max_steps: int) -> Runner:
        self.runner = super().make_runner(max_steps)
        return self.runner

    def beam_search(self, request: GenerationRequest, make_runner: RunnerFactory) -> Search:
        request.processors[-1] = lambda sequences, scores: scores.log_softmax(-1)  # of what the rules have left
        return SpeechBeamSearch(request, self.search).run(make_runner)
        yield []

    def candidates(self) -> list[tuple[list[int], float]]:
        """What was found: the tokens of each candidate without the end, and the sum of their log-probabilities."""
        result = exhaust(self.steps())
        sums = self.log_probs.of_all()
        found = []
        for place, each in enumerate(result.continuations):
            tokens = each.tokens[:-1] if each.finish_reason == EOS else each.tokens
            found.append((tokens, each.score if each.score is not None else sums[place]))
        return found

    def no_speech_probability(self, start: int) -> float:
        """The probability of the token that says that nothing is said, behind the start token."""
        states = self.runner.prompt_states[:1, start]  # 1 C
        with torch.no_grad():
            logits = self.model.word_logits(states)
        return float(logits.softmax(-1)[0, self.request.settings.no_timestamps_token_id - 1])


class LogProbabilities:
    """Adds up the log-probabilities of the tokens that are chosen from the scores that pass through it."""

    def __init__(self) -> None:
        self.sums: dict[int, float] = {}  # of each sequence, by the identity of its list of tokens
        self.last: tuple[list[TokenSequence], Tensor] | None = None

    def __call__(self, sequences: list[TokenSequence], scores: Tensor) -> Tensor:
        self.add_last()
        self.last = (list(sequences), scores)
        return scores

    def add_last(self) -> None:
        """Add the tokens that were chosen from the last scores."""
        if self.last is None:
            return
        sequences, scores = self.last
        chosen = torch.tensor([[sequence.tokens[-1]] for sequence in sequences], device=scores.device)
        gained = scores.gather(1, chosen)[:, 0] - scores.logsumexp(-1)
        for sequence, value in zip(sequences, gained.tolist(), strict=True):
            self.sums[id(sequence.tokens)] = self.sums.get(id(sequence.tokens), 0.0) + value

    def of_all(self) -> list[float]:
        """The sums of all sequences, in their order."""
        self.add_last()
        self.last = None
        return list(self.sums.values())


class SpeechHypotheses(BeamHypotheses):
    """Finished continuations, the first that come; their scores are sums of log-probabilities."""

    def add(self, tokens: list[int], eos: list[int], log_prob: float, reason: str, beam_indices: list[int]) -> None:
        if len(self.kept) < self.size:
            self.kept.append(Continuation(tokens[self.prompt_length :] + eos, reason, log_prob, beam_indices))

    def is_done(self, log_prob: float, length: int) -> bool:
        return len(self.kept) >= self.size


class SpeechBeamSearch(BeamSearch):
    """A beam search that ends when enough sequences have ended, whatever their scores.

    Enough are the number of beams times `patience`. Every ended sequence counts that is better than the worst beam.
    """

    def __init__(self, request: GenerationRequest, search: WindowSearch) -> None:
        self.enough = max(1, round(request.settings.num_beams * (search.patience or 1.0)))
        super().__init__(request)

    def make_hypotheses(self, *settings: Any) -> BeamHypotheses:
        return SpeechHypotheses(self.enough, *settings[1:])

    def extend(self, prompt: int, place: int, token: int, log_prob: float, is_hypothesis: bool) -> Any:
        return super().extend(prompt, place, token, log_prob, is_hypothesis=True)

    def result(self) -> Any:
        self.request.settings.num_return_sequences = self.enough
        return super().result()
