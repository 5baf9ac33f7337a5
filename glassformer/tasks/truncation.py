"""Texts as inputs that fit the model: complete, truncated if requested, or in windows; never truncated silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InputError, spelt
from ..models.base.pretrained_model import PreTrainedModel
from ..text.base.text_inputs import describe
from ..text.encoding import EncodedRow as Encoded
from ..text.tokenizer import PreTrainedTokenizer


class TextEncodingMixin:
    """The part of a task that turns texts into at most as many tokens as the model accepts."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizer
    options: Any
    warn_once: Callable[..., None]

    @property
    def other_remedy(self) -> str:
        """What else can be done about a text that is too long, for the end of an error."""
        return ""

    @property
    def adds_special_tokens(self) -> bool:
        """Whether texts get the tokenizer's special tokens around them."""
        return True

    @property
    def limit(self) -> int:
        """The maximum number of tokens in one input of the model."""
        max_length = getattr(self.options, "max_length", None)
        return smallest(max_positions(self.model), self.tokenizer.model_max_length, max_length)

    def encode_text(self, text: str, pair: str | None = None, *, truncation: bool | str = False) -> Encoded:
        """One text or pair as the model's input; raises if it is too long and truncation is not requested."""
        return self.encode_texts([text], None if pair is None else [pair], truncation=truncation)[0]

    def encode_texts(
        self, texts: list[str], pairs: list[str] | None = None, *, truncation: bool | str = False
    ) -> list[Encoded]:
        """Texts or pairs as the model's inputs."""
        encodings = self.tokenizer(
            texts,
            pairs,
            add_special_tokens=self.adds_special_tokens,
            truncation=truncation,
            max_length=self.limit if truncation else None,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        ).encodings
        for text, encoded in zip(texts, encodings, strict=True):
            self.check_length(text, encoded)
        return encodings

    def warn_truncated(self, what: str, most: int) -> None:
        """Warn once that texts of a kind are truncated, for results that have no place to report it."""
        message = "a %s is longer than %d tokens and is truncated, and so may be others after it"
        self.warn_once(f"{what} truncated", message, what, most)

    def check_length(self, text: str, encoded: Encoded) -> None:
        if len(encoded) == 0:
            raise InputError(f"the text {describe(text)} has no tokens to read")
        if len(encoded) <= self.limit:
            return
        if max_positions(self.model) is None and getattr(self.options, "max_length", None) is None:
            message = "a text has %d tokens; the model takes any number, though its tokenizer's files name %d"
            self.warn_once("long text", message, len(encoded), self.limit)
        else:
            raise InputError(
                f"a text has {len(encoded)} tokens and the model takes {self.limit}; pass "
                f"{spelt('option', 'truncation', True)} to cut it, which is then reported{self.other_remedy}"
            )

    def windows(
        self,
        text: str | list[str],
        pair: str | None = None,
        *,
        limit: int,
        stride: int,
        truncation: str = "longest_first",
        words: bool = False,
    ) -> list[Encoded]:
        """A text, or the second of a pair, in windows of at most `limit` tokens that overlap by `stride`.

        With `words` the text is a list of them.
        """
        encoded = self.tokenizer(
            text,
            pair,
            truncation=truncation,
            max_length=limit,
            stride=stride,
            is_split_into_words=words,
            return_overflowing_tokens=True,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        ).encodings
        if len(encoded[0]) == 0:
            raise InputError(f"the text {describe(text)} has no tokens to read")
        for window in encoded:
            window.truncated = False  # the tokens that one window lacks are in another
        return encoded


def max_positions(model: PreTrainedModel) -> int | None:
    """The number of tokens that a model, or its encoder, reads at once; None if it has no limit."""
    body = model.base_model.encoder if model.config.is_encoder_decoder else model.base_model
    return body.max_length


def smallest(*limits: int | None) -> int:
    """The smallest of several limits, some of which may be None."""
    return min(limit for limit in limits if limit is not None)
