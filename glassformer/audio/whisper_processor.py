"""Whisper's processor: its feature extractor and its tokenizer in one object."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ..errors import ArgumentError, InputError, suggests
from ..text.encoding import BatchEncoding
from ..text.whisper_tokenizer import WhisperTokenizer
from .whisper_feature_extractor import HUB, WhisperFeatureExtractor


class WhisperProcessor:
    """Sound to features, text to labels, ids to text.

    >>> processor = WhisperProcessor.from_pretrained("./whisper-tiny/")                        # doctest: +SKIP
    >>> inputs = processor(sound, sampling_rate=16000, return_tensors="pt")                     # doctest: +SKIP
    >>> processor.batch_decode(model.generate(**inputs), skip_special_tokens=True)             # doctest: +SKIP
    """

    def __init__(self, feature_extractor: WhisperFeatureExtractor, tokenizer: WhisperTokenizer) -> None:
        for value, kind in ((feature_extractor, WhisperFeatureExtractor), (tokenizer, WhisperTokenizer)):
            if not isinstance(value, kind):
                raise ArgumentError(f"a WhisperProcessor needs a {kind.__name__}, got a {type(value).__name__}")
        self.feature_extractor, self.tokenizer = feature_extractor, tokenizer

    @suggests
    def __call__(
        self,
        audio: Any = None,
        text: Any = None,
        sampling_rate: int | None = None,
        return_tensors: str | None = None,
        return_attention_mask: bool | None = None,
        padding: str | bool | None = None,
        truncation: bool | None = None,
        max_length: int | None = None,
    ) -> BatchEncoding:
        """`input_features` of sound, ids of text, or both, the ids then as `labels`.

        Further arguments are those of the two parts; with both, `padding`, `truncation` and `max_length` are for the
        text.
        """
        if audio is None and text is None:
            raise InputError("give audio, text, or both")
        given = {"padding": padding, "truncation": truncation, "max_length": max_length}
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        masked = {} if return_attention_mask is None else {"return_attention_mask": return_attention_mask}
        shared: dict[str, Any] = {"return_tensors": return_tensors, **masked}
        if audio is None:
            return self.tokenizer(text, **shared, **options)
        if text is None:
            return self.feature_extractor(audio, sampling_rate=sampling_rate, **shared, **options)
        features = self.feature_extractor(audio, sampling_rate=sampling_rate, **shared)
        features["labels"] = self.tokenizer(text, return_tensors=return_tensors, **options)["input_ids"]
        return features

    def decode(self, *args: Any, **kwargs: Any) -> Any:
        """The text of ids: see `WhisperTokenizer.decode`."""
        return self.tokenizer.decode(*args, **kwargs)

    def batch_decode(self, *args: Any, **kwargs: Any) -> Any:
        """The text of rows of ids."""
        return self.tokenizer.batch_decode(*args, **kwargs)

    def get_decoder_prompt_ids(self, *args: Any, **kwargs: Any) -> list[tuple[int, int]]:
        return self.tokenizer.get_decoder_prompt_ids(*args, **kwargs)

    def get_prompt_ids(self, text: str, return_tensors: str | None = "np") -> Any:
        return self.tokenizer.get_prompt_ids(text, return_tensors)

    @classmethod
    def from_pretrained(cls, name_or_path: str | PathLike[str], **settings: Any) -> WhisperProcessor:
        """Read both parts from a folder or a hub name; further keywords are settings of the tokenizer."""
        hub = {name: settings[name] for name in HUB if name in settings}
        extractor = WhisperFeatureExtractor.from_pretrained(name_or_path, **hub)
        return cls(extractor, WhisperTokenizer.from_pretrained(name_or_path, **settings))

    def save_pretrained(self, save_directory: str | PathLike[str]) -> None:
        """Write the files of both parts."""
        self.tokenizer.save_pretrained(save_directory)
        self.feature_extractor.save_pretrained(save_directory)

    def __repr__(self) -> str:
        return f"WhisperProcessor({self.feature_extractor!r}, {self.tokenizer!r})"


class AutoFeatureExtractor:
    """Reads the feature extractor of a folder; for sound that is Whisper's."""

    def __init__(self) -> None:
        raise ArgumentError(
            "AutoFeatureExtractor is not built directly; use AutoFeatureExtractor.from_pretrained(folder)"
        )

    @staticmethod
    def from_pretrained(name_or_path: str | PathLike[str], **settings: Any) -> WhisperFeatureExtractor:
        """The feature extractor of a folder or a hub name."""
        return WhisperFeatureExtractor.from_pretrained(name_or_path, **settings)


class AutoProcessor:
    """Reads the processor of a folder; one that joins two parts is Whisper's."""

    def __init__(self) -> None:
        raise ArgumentError("AutoProcessor is not built directly; use AutoProcessor.from_pretrained(folder)")

    @staticmethod
    def from_pretrained(name_or_path: str | PathLike[str], **settings: Any) -> WhisperProcessor:
        """The processor of a folder or a hub name."""
        return WhisperProcessor.from_pretrained(name_or_path, **settings)
