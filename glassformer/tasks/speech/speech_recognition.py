"""automatic-speech-recognition: what is said in a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

from torch import Tensor, nn

from ...audio.whisper_feature_extractor import WhisperFeatureExtractor
from ...errors import InputError
from ...models.whisper_heads import WhisperForConditionalGeneration
from ...models.whisper_layers import STRIDE
from ...text.base.encoding_options import check_choice
from ...text.whisper_tokenizer import WhisperTokenizer
from ..batch import Batch, Example
from ..inputs import Columns, Row
from ..task_options import Options
from .loading import load_transcriber, parts_for
from .sound_task import SoundInputs, SoundTask
from .transcription import Segment, Transcriber, Transcription, TranscriptionSettings


@dataclass(frozen=True, kw_only=True)
class SpeechOptions(Options):
    """Options for what is written.

    Attributes:
        return_timestamps: Add "chunks" with their times: True for segments, "word" for words.
        language: What is spoken, by name or code; None: the model finds out.
        temperature: Temperatures that are tried in turn until what is written passes the thresholds.
        num_beams: How many continuations are followed at once.
        initial_prompt: Text that stands before the first window: names, spelling.
        condition_on_previous_text: What was said stands before each window.
        compression_ratio_threshold: Text that can be compressed further than this repeats itself.
        logprob_threshold: A mean log-probability below this is too unsure.
        no_speech_threshold: Above this probability, and if unsure, nothing is said.
        translate: Write what is said in English.
        chunk_length_s: Accepted for compatibility and ignored: a window is as long as the model reads, and the next
            one begins where the text of the last one ends.
        stride_length_s: The same.
    """

    return_timestamps: bool | str = False
    language: str | None = None
    temperature: float | Sequence[float] = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    num_beams: int = 1
    initial_prompt: str | None = None
    condition_on_previous_text: bool = True
    compression_ratio_threshold: float | None = 2.4
    logprob_threshold: float | None = -1.0
    no_speech_threshold: float | None = 0.6
    translate: bool = False
    chunk_length_s: Any = None
    stride_length_s: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("return_timestamps", self.return_timestamps, (False, True, "word"))
        check_choice("translate", self.translate, (False, True))
        self.settings(with_times=True)  # checks the others

    def settings(self, with_times: bool) -> TranscriptionSettings:
        """How a recording is transcribed; a short one without times once, without a second try."""
        shared = {spec.name for spec in fields(TranscriptionSettings)} & {spec.name for spec in fields(self)}
        settings = {name: getattr(self, name) for name in shared}
        if not with_times:
            limits = ("compression_ratio_threshold", "logprob_threshold", "no_speech_threshold")
            settings |= {"temperature": 0.0, "without_timestamps": True, **dict.fromkeys(limits)}
        return TranscriptionSettings(
            **settings,
            task="translate" if self.translate else "transcribe",
            beam_size=self.num_beams if self.num_beams != 1 else None,
            word_timestamps=self.return_timestamps == "word",
        )


class SpeechRecognition(SoundTask):
    """Write down what is said.

    >>> pipe = pipeline("automatic-speech-recognition", model="./whisper-tiny/")     # doctest: +SKIP
    >>> pipe("talk.flac", return_timestamps=True)                                     # doctest: +SKIP
    {'text': ' And so my fellow Americans ...', 'chunks': [{'timestamp': (0.0, 7.74), 'text': ' And so ...'}]}

    Recordings of any length are read window by window. One that fits into a window is, if no times are requested,
    written without them, as in transformers.
    """

    name = "automatic-speech-recognition"
    head = "speech-seq2seq"
    columns = Columns(("audio",))
    Options = SpeechOptions
    nested_options = "generate_kwargs"
    unwraps_one = False
    uses_random_numbers = True  # at temperatures above 0; and every recording uses all threads

    def __init__(
        self,
        model: WhisperForConditionalGeneration,
        tokenizer: WhisperTokenizer,
        feature_extractor: WhisperFeatureExtractor | None = None,
        **options: Any,
    ) -> None:
        parts = parts_for(model, model.config.name_or_path or ".", tokenizer, feature_extractor, {})
        self.transcriber = Transcriber(model, *parts)
        super().__init__(model, SoundInputs(self.transcriber.extractor), **options)

    @property
    def preprocessor(self) -> WhisperTokenizer:
        return self.tokenizer

    @property
    def tokenizer(self) -> WhisperTokenizer:
        return self.transcriber.tokenizer

    @classmethod
    def from_pretrained(
        cls,
        name_or_path: str | PathLike[str],
        tokenizer: WhisperTokenizer | str | PathLike[str] | None = None,
        feature_extractor: WhisperFeatureExtractor | str | PathLike[str] | None = None,
        *,
        hub: Mapping[str, Any] | None = None,
        model_arguments: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> SpeechRecognition:
        """Load the parts of a folder, a hub name, or one of OpenAI's `.pt` files."""
        parts = load_transcriber(name_or_path, tokenizer, feature_extractor, hub=hub, model_arguments=model_arguments)
        return cls(parts.model, parts.tokenizer, parts.extractor, **options)

    def save_processor(self, folder: str | PathLike[str]) -> None:
        self.tokenizer.save_pretrained(folder)
        super().save_processor(folder)

    def with_options(self, **options: Any) -> SpeechRecognition:
        """The options of `generate` have their names: task="translate" in `generate_kwargs`."""
        nested = options.get("generate_kwargs")
        if isinstance(nested, Mapping) and "task" in nested:
            check_choice("task", nested["task"], ("transcribe", "translate"))
            nested = {**nested, "translate": nested["task"] == "translate"}
            options["generate_kwargs"] = {name: value for name, value in nested.items() if name != "task"}
        return super().with_options(**options)

    # --- rows to texts -----------------------------------------------------------------------------------------

    def encode(self, row: Row) -> list[Example]:
        return [Example(self.processor.encode(row["audio"], STRIDE))]

    def collate_inputs(self, examples: Sequence[Example], labels: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {}  # the windows follow from each other

    def forward(self, batch: Batch) -> list[Transcription]:
        return [self.transcribe(example) for example in batch.examples]

    def outputs(self, model: nn.Module, batch: Batch) -> Any:
        raise InputError(f"{self.name} is not trained here: Whisper's forward takes labels")

    def transcribe(self, example: Example) -> Transcription:
        waveform = example.encoded.waveform
        with_times = bool(self.options.return_timestamps) or len(waveform) > self.feature_extractor.n_samples
        return self.transcriber.transcribe(waveform, self.options.settings(with_times))

    def answer(self, row: Row, examples: Sequence[Example], outputs: Sequence[Transcription]) -> Any:
        (said,) = outputs
        answer: dict[str, Any] = {"text": said.text}
        if self.options.return_timestamps:
            by_word = self.options.return_timestamps == "word"
            answer["chunks"] = [chunk for segment in said.segments for chunk in chunks_of(segment, by_word)]
        if said.language_probability is not None:
            answer["language"] = said.language
        return answer


def chunks_of(segment: Segment, by_word: bool) -> list[dict[str, Any]]:
    """What is said in a segment, and when."""
    if by_word:
        return [{"text": word.word, "timestamp": (word.start, word.end)} for word in segment.words or ()]
    return [{"text": segment.text, "timestamp": (segment.start, segment.end)}] if segment.text else []
