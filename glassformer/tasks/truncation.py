"""Texts as inputs that fit the model: whole, cut because that was asked for, or in windows; never cut in silence."""

from __future__ import annotations

import logging
from typing import Any

from ..errors import InputError, spelt
from ..models.base import PreTrainedModel
from ..text.base.text_inputs import describe
from ..text.encoding import EncodedRow as Encoded
from ..text.tokenizer import PreTrainedTokenizer

log = logging.getLogger("glassformer")


class EncodesTexts:
    """The part of a task that turns texts into tokens, as many as the model takes."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizer
    options: Any
    kept: dict[str, Any]

    @property
    def marks_texts(self) -> bool:
        """Whether texts get the special tokens that the tokenizer puts around them."""
        return True

    @property
    def limit(self) -> int:
        """The most tokens that one input of the model may have."""
        return least(
            positions_of(self.model), self.tokenizer.model_max_length, getattr(self.options, "max_length", None)
        )

    def fit(self, text: str, pair: str | None = None, *, cut: bool | str = False) -> Encoded:
        """One text or pair as the model's input: cut when that is asked for, refused when it is too long."""
        return self.fit_all([text], None if pair is None else [pair], cut=cut)[0]

    def fit_all(self, texts: list[str], pairs: list[str] | None = None, *, cut: bool | str = False) -> list[Encoded]:
        """Texts or pairs as the model's inputs."""
        encodings = self.tokenizer(
            texts,
            pairs,
            add_special_tokens=self.marks_texts,
            truncation=cut,
            max_length=self.limit if cut else None,
            split_special_tokens=self.options.split_special_tokens,
            verbose=False,
        ).encodings
        for text, encoded in zip(texts, encodings, strict=True):
            self.check_length(text, encoded)
        return encodings

    def report_truncation(self, what: str, most: int) -> None:
        """Say once that texts of a kind are cut, where an answer has no place to say it in."""
        told = self.kept.setdefault("told", set())
        if what not in told:
            told.add(what)
            log.warning("a %s is longer than %d tokens and is cut, and so may be others after it", what, most)

    def check_length(self, text: str, encoded: Encoded) -> None:
        if len(encoded) == 0:
            raise InputError(f"the text {describe(text)} has no tokens to read")
        if len(encoded) > self.limit:
            raise InputError(
                f"a text has {len(encoded)} tokens and the model takes {self.limit}; pass "
                f"{spelt('option', 'truncation', True)} to cut it, which is then told"
            )

    def windows(
        self,
        text: str | list[str],
        pair: str | None = None,
        *,
        limit: int,
        stride: int,
        cut: str = "longest_first",
        words: bool = False,
    ) -> list[Encoded]:
        """A text, or the second of a pair, in windows of at most `limit` tokens that overlap by `stride`.

        With `words` the text is a list of them.
        """
        encoded = self.tokenizer(
            text,
            pair,
            truncation=cut,
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
            window.truncated = False  # what one of them leaves out stands in another
        return encoded


def positions_of(model: PreTrainedModel) -> int | None:
    """How many positions a model has, None if it does not count them."""
    return getattr(model.config, "max_position_embeddings", None)


def least(*limits: int | None) -> int:
    """The smallest of several limits, of which some may not be set."""
    return min(limit for limit in limits if limit is not None)
