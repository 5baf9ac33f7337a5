"""What is said in a recording of any length: window by window, by the rules of the original (Radford et al. 2022).

A window is 30 seconds. The times that the model writes say where the next window begins, so that no sentence is cut.
Text that repeats itself, or that the model is unsure of, is written again at a higher temperature; a window in which
nothing seems to be said is skipped. What was said before stands before each window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ...audio.whisper_feature_extractor import WhisperFeatureExtractor
from ...errors import InputError
from ...models.base.evaluation_mode import evaluation_mode
from ...models.whisper_heads import WhisperForConditionalGeneration
from ...models.whisper_layers import STRIDE
from ...nn.prepared import prepared
from ...text.whisper_languages import language_code
from ...text.whisper_tokenizer import TASKS, WhisperTokenizer
from .segment_times import SegmentTimes
from .window_decoding import DecodedWindow, WindowSearch, decode_window
from .word_times import align_words

HOT = 0.5  # text that was written above this temperature does not stand before the next window


@dataclass(frozen=True)
class TranscriptionSettings:
    """How a recording is transcribed; names and defaults are those of the original.

    Attributes:
        language: What is spoken, by name or code; None: the model finds out from the first window.
        task: "transcribe", or "translate" into English.
        temperature: Temperatures that are tried in turn until what is written passes the thresholds.
        beam_size: At temperature 0, how many continuations are followed at once; None: one.
        best_of: Above temperature 0, of how many samples the best is taken; None: one.
        patience: With beams: how many sequences must have ended, in multiples of beam_size; None: 1.
        length_penalty: Weighs the lengths of candidates (from 0 to 1); None: scores are means over tokens.
        compression_ratio_threshold: Text that can be compressed further than this repeats itself.
        logprob_threshold: A mean log-probability below this is too unsure.
        no_speech_threshold: Above this probability, and if unsure, nothing is said.
        condition_on_previous_text: What was said stands before each window.
        initial_prompt: Text that stands before the first window: names, spelling.
        word_timestamps: Find out when each word is said.
        without_timestamps: The model writes no times: each window is one segment.
    """

    language: str | None = None
    task: str = "transcribe"
    temperature: float | Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    beam_size: int | None = None
    best_of: int | None = None
    patience: float | None = None
    length_penalty: float | None = None
    compression_ratio_threshold: float | None = 2.4
    logprob_threshold: float | None = -1.0
    no_speech_threshold: float | None = 0.6
    condition_on_previous_text: bool = True
    initial_prompt: str | None = None
    word_timestamps: bool = False
    without_timestamps: bool = False

    def __post_init__(self) -> None:
        if self.task not in TASKS:
            raise InputError(f"task must be 'transcribe' or 'translate', got {self.task!r:.40}")
        if not self.temperatures or any(
            isinstance(each, bool) or not isinstance(each, int | float) or not 0 <= each <= 10
            for each in self.temperatures
        ):
            raise InputError(f"temperature must be one number from 0 to 10, or several, got {self.temperature!r:.60}")
        for name in ("beam_size", "best_of"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise InputError(f"{name} must be a positive integer or None, got {value!r:.40}")
        if self.patience is not None and not (self.beam_size and self.patience > 0):
            raise InputError(f"patience must be above 0 and needs a beam_size, got {self.patience!r:.40}")
        if self.length_penalty is not None and not 0 <= self.length_penalty <= 1:
            raise InputError(f"length_penalty must be from 0 to 1, got {self.length_penalty!r:.40}")

    @property
    def temperatures(self) -> tuple[float, ...]:
        several = not isinstance(self.temperature, int | float)
        return tuple(self.temperature) if several else (self.temperature,)  # type: ignore[arg-type]

    @property
    def search(self) -> WindowSearch:
        return WindowSearch(self.beam_size, self.best_of, self.patience, self.length_penalty)


@dataclass
class Word:
    """A word, and when it is said, in seconds."""

    word: str
    start: float
    end: float
    probability: float


@dataclass
class Segment:
    """A stretch of speech, in seconds from the beginning of the recording."""

    id: int
    seek: int  # the column of the spectrogram in which its window begins
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    words: list[Word] | None = None


@dataclass
class Transcription:
    """What is said in a recording."""

    text: str
    segments: list[Segment]
    language: str
    duration: float  # seconds
    language_probability: float | None = None  # where the model found out the language


class Transcriber:
    """A model of speech with what it needs to read sound and to write text."""

    def __init__(
        self,
        model: WhisperForConditionalGeneration,
        tokenizer: WhisperTokenizer,
        extractor: WhisperFeatureExtractor,
    ) -> None:
        self.model, self.tokenizer, self.extractor = model, tokenizer, extractor
        columns, bands = model.config.columns, model.config.num_mel_bins
        if extractor.nb_max_frames != columns or extractor.feature_size != bands:
            raise InputError(
                f"the model reads spectrograms of {bands} x {columns}, and the feature extractor makes them of "
                f"{extractor.feature_size} x {extractor.nb_max_frames}"
            )
        if tokenizer.timestamp_begin >= model.config.vocab_size:
            raise InputError(
                f"the tokenizer's times begin at token {tokenizer.timestamp_begin}, beyond the model's vocabulary of "
                f"{model.config.vocab_size}: a model of English alone and one of many languages have different ones"
            )

    @cached_property
    def is_multilingual(self) -> bool:
        given = self.model.generation_config.extra.get("is_multilingual")
        return bool(self.model.generation_config.extra.get("lang_to_id")) if given is None else bool(given)

    def transcribe(self, sound: Any, settings: TranscriptionSettings | None = None, **options: Any) -> Transcription:
        """The transcription of a recording: a file, an array, or a mapping; see `Recording`."""
        recording = self.open(sound, settings, **options)
        for _ in recording:
            pass
        return recording.transcription

    def open(self, sound: Any, settings: TranscriptionSettings | None = None, **options: Any) -> Recording:
        """A recording whose segments are written while one loops over it."""
        settings = TranscriptionSettings(**options) if settings is None else settings
        return Recording(self, self.extractor.waveform(sound), settings)


class Recording:
    """A recording that is being transcribed: a loop over it gives each segment as soon as it is written."""

    def __init__(self, parts: Transcriber, waveform: np.ndarray, settings: TranscriptionSettings) -> None:
        self.parts, self.settings, self.waveform = parts, settings, waveform
        self.tokenizer = parts.tokenizer
        with torch.no_grad(), evaluation_mode(parts.model):
            self.model = prepared(parts.model)
        if not len(waveform):
            raise InputError("the recording is empty: it has no samples")
        extractor, window = parts.extractor, parts.extractor.n_samples
        self.spectrogram = extractor.spectrogram(waveform, len(waveform) + window)  # silence follows
        self.window = extractor.nb_max_frames
        self.columns = self.spectrogram.shape[1] - self.window  # that hold sound
        self.columns_per_second = extractor.sampling_rate / extractor.hop_length
        self.duration = self.columns / self.columns_per_second
        self.seek = 0  # where the next window begins
        self.segments: list[Segment] = []
        self.written: list[int] = []  # all tokens so far, an initial prompt included
        self.forget_until = 0  # tokens of these that do not stand before the next window
        self.generator = torch.Generator().manual_seed(0)
        self.encoded: tuple[int, Tensor] | None = None  # the last window, and what the encoder made of it
        self.language, self.language_probability = self.find_language()
        self.times = SegmentTimes(self.seconds_of_vector, self.columns_per_second)
        prompt = settings.initial_prompt
        self.initial = [] if prompt is None else self.encode(" " + prompt.strip())
        self.written += self.initial

    @property
    def transcription(self) -> Transcription:
        """What was written so far."""
        text = self.tokenizer.decode(self.written[len(self.initial) :], clean_up_tokenization_spaces=False)
        return Transcription(text, self.segments, self.language, self.duration, self.language_probability)

    @property
    def seconds_of_vector(self) -> float:
        """How much sound one of the encoder's vectors holds."""
        return STRIDE / self.columns_per_second

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    # --- windows -----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Segment]:
        while self.seek < self.columns:
            yield from self.next_window()

    @torch.no_grad()
    def memory(self, seek: int, columns: int) -> Tensor:
        """What the encoder makes of a window: 1 T C. The last one is kept.

        What follows the sound is nothing, as in the original; without times it is silence, as in transformers.
        """
        columns = self.window if self.settings.without_timestamps else columns
        if self.encoded is None or self.encoded[0] != seek:
            window = F.pad(self.spectrogram[:, seek : seek + columns], (0, self.window - columns))
            with evaluation_mode(self.parts.model):
                body = self.model.encoder.encode(input_features=window[None].to(self.model.device))
            self.encoded = (seek, body.last_hidden_state)
        return self.encoded[1]

    def find_language(self) -> tuple[str, float | None]:
        """The code of the language, and its probability if the model had to find it out."""
        if self.settings.language is not None:
            code = language_code(self.settings.language)
            if code != "en" and not self.parts.is_multilingual:
                raise InputError(f"the model knows English alone, and the language is {code!r}")
            return code, None
        if not self.parts.is_multilingual:
            return "en", None
        first = self.spectrogram[:, : self.window]  # silence behind a short recording is heard too
        with torch.no_grad(), evaluation_mode(self.parts.model):
            memory = self.model.encoder.encode(input_features=first[None].to(self.model.device)).last_hidden_state
        chances = self.parts.model.language_scores(memory)[0].softmax(-1)
        names = list(self.parts.model.generation_config.extra["lang_to_id"])
        return language_code(names[int(chances.argmax())]), float(chances.max())

    @cached_property
    def instructions(self) -> list[int]:
        """The tokens that say what to write."""
        start = self.parts.model.first_token(self.parts.model.generation_config)
        if not self.parts.is_multilingual:
            return [start]
        extra = self.parts.model.generation_config.extra
        return [start, extra["lang_to_id"][f"<|{self.language}|>"], extra["task_to_id"][self.settings.task]]

    def prompt(self) -> list[int]:
        """The tokens before the text of the next window: the last words, if any, and the instructions."""
        longest = self.model.config.max_position_embeddings // 2 - 1
        before = self.written[self.forget_until :][-longest:]
        previous = self.parts.model.generation_config.extra.get("prev_sot_token_id")
        previous = self.tokenizer.convert_tokens_to_ids("<|startofprev|>") if previous is None else previous
        said = [*self.instructions, *([self.tokenizer.timestamp_begin - 1] if self.settings.without_timestamps else [])]
        return [previous, *before, *said] if before else said

    def next_window(self) -> list[Segment]:
        """Transcribe the next window, and move on; its segments."""
        seek, columns = self.seek, min(self.window, self.columns - self.seek)
        result = self.decode(self.memory(seek, columns))
        if self.is_silent(result):
            self.seek += columns
            return []
        offset = seek / self.columns_per_second
        pieces, moved, ends_with_time = self.times.split(result.tokens, columns, self.tokenizer.timestamp_begin)
        self.seek += moved
        segments = [
            Segment(
                id=0,
                seek=seek,
                start=offset + start,
                end=offset + end,
                text=self.text_of(tokens),
                tokens=tokens,
                temperature=result.temperature,
                avg_logprob=result.avg_logprob,
                compression_ratio=result.compression_ratio,
                no_speech_prob=result.no_speech_prob,
            )
            for start, end, tokens in pieces
        ]
        if self.settings.word_timestamps:
            self.add_words(segments, columns, offset, ends_with_time)
        return self.keep(segments, result)

    def text_of(self, tokens: Sequence[int]) -> str:
        words = [token for token in tokens if token < self.tokenizer.eos_token_id]
        return self.tokenizer.decode(words, clean_up_tokenization_spaces=False)

    def decode(self, memory: Tensor) -> DecodedWindow:
        """What is written for a window, at the first temperature at which it passes."""
        prompt = self.prompt()
        start = prompt.index(self.instructions[0])
        for temperature in self.settings.temperatures:
            result = decode_window(
                self.parts.model,
                self.tokenizer,
                memory,
                prompt,
                start,
                self.settings.search,
                temperature,
                not self.settings.without_timestamps,
                self.generator if temperature > 0 else None,
            )
            if not self.fails(result):
                break
        return result

    def fails(self, result: DecodedWindow) -> bool:
        """Whether a window is to be written again: text that repeats itself, or that is too unsure and not silence."""
        settings = self.settings
        repeats = exceeds(result.compression_ratio, settings.compression_ratio_threshold)
        unsure = exceeds(settings.logprob_threshold, result.avg_logprob)
        silent = unsure and exceeds(result.no_speech_prob, settings.no_speech_threshold)
        return (repeats or unsure) and not silent

    def is_silent(self, result: DecodedWindow) -> bool:
        """Whether nothing is said in a window."""
        sure = exceeds(result.avg_logprob, self.settings.logprob_threshold)
        return exceeds(result.no_speech_prob, self.settings.no_speech_threshold) and not sure

    # --- segments ----------------------------------------------------------------------------------------------

    def add_words(self, segments: list[Segment], columns: int, offset: float, ends_with_time: bool) -> None:
        """Find out when each word of the segments is said; the next window begins behind the last of them."""
        end = self.tokenizer.eos_token_id
        texts = [[token for token in segment.tokens if token < end] for segment in segments]
        memory = self.memory(segments[0].seek, columns)
        text = [token for each in texts for token in each]
        words = align_words(self.parts.model, self.tokenizer, self.instructions, text, memory, columns, self.language)
        self.times.add_words(segments, texts, words, offset)
        last = next((s.words[-1].end for s in reversed(segments) if s.words), None)
        if last is not None and not ends_with_time and last > offset:
            self.seek = round(last * self.columns_per_second)

    def keep(self, segments: list[Segment], result: DecodedWindow) -> list[Segment]:
        """Number the segments, empty those without text or time, and remember what they say."""
        for number, segment in enumerate(segments, start=len(self.segments)):
            segment.id = number
            if segment.start == segment.end or not segment.text.strip():
                segment.text, segment.tokens = "", []
                segment.words = None if segment.words is None else []
            self.written += segment.tokens
        self.segments += segments
        if not self.settings.condition_on_previous_text or result.temperature > HOT:
            self.forget_until = len(self.written)
        return segments


def exceeds(value: float | None, limit: float | None) -> bool:
    """Whether a value is above a limit; no limit is exceeded by nothing."""
    return value is not None and limit is not None and value > limit
