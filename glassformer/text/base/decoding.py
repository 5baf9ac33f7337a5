"""Ids and tokens back to text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from ...errors import InputError, suggests
from .special_tokens import SpecialTokens
from .text_inputs import describe, read_ids

ENGLISH_SPACING = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)


class Decoding(SpecialTokens):
    """The part of a tokenizer that converts tokens and ids, and decodes."""

    def convert_tokens_to_string(self, tokens: Sequence[str]) -> str:
        """Put tokens together to text; each kind of tokenizer says how."""
        raise NotImplementedError

    @overload
    def convert_tokens_to_ids(self, tokens: str) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def convert_tokens_to_ids(self, tokens: None) -> None: ...
    @overload
    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]: ...
    def convert_tokens_to_ids(self, tokens: str | Iterable[str] | None) -> int | list[int] | None:
        """The id of a token, or of each; the unknown token's id for those that the vocabulary lacks."""
        if tokens is None:
            return None
        if isinstance(tokens, str):
            index = self.added_tokens_encoder.get(tokens, self.vocab.get(tokens))
            if index is None:
                if self.unk_token is None:
                    raise InputError(f"token {tokens!r} is not in the vocabulary, and there is no unknown token")
                return self.unk_token_id
            return index
        if not isinstance(tokens, Iterable):
            raise InputError(f"tokens must be a string or a list of strings, got {describe(tokens)}")
        listed = list(tokens)
        for position, token in enumerate(listed):
            if not isinstance(token, str):
                raise InputError(f"token {position} must be a string, got {describe(token)}")
        return [self.convert_tokens_to_ids(token) for token in listed]

    @suggests
    def convert_ids_to_tokens(self, ids: Any, skip_special_tokens: bool = False) -> str | list[str]:
        """The token of an id, or of each id in a list or tensor."""
        listed = read_ids(ids)
        one = not isinstance(ids, list | tuple | range) and getattr(ids, "ndim", 0) == 0
        for position, index in enumerate(listed):
            if index not in self.ids_to_tokens and not 0 <= index < max(self.ids_to_tokens, default=-1):
                raise InputError(
                    f"id {index} at position {position} is outside the vocabulary, ids go from 0 to "
                    f"{max(self.ids_to_tokens)}"
                )
        tokens = [self.ids_to_tokens.get(index, self.unk_token) for index in listed]
        if one:
            return tokens[0]
        if skip_special_tokens:
            special = set(self.all_special_ids)
            tokens = [token for token, index in zip(tokens, listed, strict=True) if index not in special]
        return tokens

    @suggests
    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool = True,
    ) -> str:
        """The text of some ids, as well as it can be put together again."""
        if isinstance(token_ids, list | tuple) and token_ids and isinstance(token_ids[0], list | tuple):
            raise InputError("decode takes the ids of one row, got several rows; use batch_decode")
        if getattr(token_ids, "ndim", 1) > 1:
            raise InputError(f"decode takes the ids of one row, got shape {tuple(token_ids.shape)}; use batch_decode")
        tokens = self.convert_ids_to_tokens(read_ids(token_ids, "token_ids"), skip_special_tokens=skip_special_tokens)
        parts: list[str] = []
        run: list[str] = []
        for token in tokens:
            if token in self.added_tokens_encoder:  # added tokens are text as they stand, not pieces of it
                if run:
                    parts.append(self.convert_tokens_to_string(run))
                    run = []
                parts.append(token)
            else:
                run.append(token)
        if run:
            parts.append(self.convert_tokens_to_string(run))
        text = (" " if spaces_between_special_tokens else "").join(parts)
        clean = (
            self.clean_up_tokenization_spaces if clean_up_tokenization_spaces is None else clean_up_tokenization_spaces
        )
        return self.clean_up_tokenization(text) if clean else text

    @suggests
    def batch_decode(
        self,
        sequences: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool = True,
    ) -> list[str]:
        """The text of each row of ids."""
        if not hasattr(sequences, "__iter__"):
            raise InputError(f"batch_decode takes rows of ids, got {describe(sequences)}")
        return [
            self.decode(row, skip_special_tokens, clean_up_tokenization_spaces, spaces_between_special_tokens)
            for row in sequences
        ]

    @staticmethod
    def clean_up_tokenization(text: str) -> str:
        """Take out the spaces that English does not put before punctuation and short forms."""
        for spaced, tight in ENGLISH_SPACING:
            text = text.replace(spaced, tight)
        return text
