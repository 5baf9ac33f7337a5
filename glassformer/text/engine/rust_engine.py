"""Text to pieces by the Rust engine, with the readable algorithm as fallback wherever the engine would differ."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..base.special_tokens import AddedToken, SpecialTokens, any_of
from ..encoding import Pieces
from ..wordpiece.wordpiece import lower, lower_text

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class EngineWithFallback:
    """The part of a tokenizer that chooses, for each text, the engine or the fallback."""

    def _engine_agrees(self, text: str, split_special_tokens: bool) -> bool:
        """Whether the engine gives what the original gives."""
        raise NotImplementedError

    def _reference_pieces(self, text: str, split_special_tokens: bool) -> Pieces:
        """The pieces of a text by the original algorithm, step by step."""
        raise NotImplementedError

    def _build_engine(self) -> Tokenizer:
        """The Rust engine for text that holds no special token."""
        raise NotImplementedError

    @cached_property
    def _engine(self) -> Tokenizer:
        return self._build_engine()

    def _encode_plain(self, texts: list[str], split_special_tokens: bool) -> list[Pieces]:
        fast = [i for i, text in enumerate(texts) if self._engine_agrees(text, split_special_tokens)]
        made: dict[int, Pieces] = {}
        if len(fast) == 1:  # without the cost of spreading one text over threads
            made[fast[0]] = from_engine(self._engine.encode(texts[fast[0]], add_special_tokens=False))
        elif fast:
            encoded = self._engine.encode_batch([texts[i] for i in fast], add_special_tokens=False)
            made = {i: from_engine(each) for i, each in zip(fast, encoded, strict=True)}
        return [
            made[i] if i in made else self._reference_pieces(text, split_special_tokens) for i, text in enumerate(texts)
        ]


def from_engine(encoding: Any) -> Pieces:
    return Pieces(encoding.ids, lambda: (encoding.offsets, encoding.word_ids))


class LowerCasing(SpecialTokens):
    """The part of a tokenizer that lower-cases text before it looks for the tokens that were added to it."""

    @property
    def _is_lower_casing(self) -> bool:
        return True

    def _as_added(self, token: AddedToken) -> AddedToken:
        if token.special or not self._is_lower_casing:
            return token
        return AddedToken(token.content.lower(), token.single_word, token.lstrip, token.rstrip, True, special=False)

    def _compile_token_patterns(self) -> None:
        super()._compile_token_patterns()
        # Text is lower-cased before added tokens are looked for, so "NewTok" is found in "newtok" and "NEWTOK". One
        # that is then a word of the vocabulary stays that word, as in the original.
        names = {name: name for name, token in self._added_tokens.items() if token.is_exact}
        for name, token in self._added_tokens.items():
            if not token.is_exact and (name == name.lower() or name.lower() not in self.vocab):
                names.setdefault(name.lower(), name)
        self._by_lower = names if self._is_lower_casing and any(name == name.lower() for name in names) else {}
        self._lower_pattern = any_of(self._by_lower)
        if self._is_lower_casing:
            self._pattern = any_of(names)  # what is not to be lower-cased

    def _added_token(self, found: str) -> AddedToken:
        return self._added_tokens[self._by_lower.get(found, found)]

    def _split_at_special_tokens(self, text: str) -> list[tuple[int, int, str | None]]:
        if self._lower_pattern is None:
            return super()._split_at_special_tokens(text)
        cuts = super()._split_at_special_tokens(text)
        plain = [text[start:end] for start, end, token in cuts if token is None]
        if not any(self._lower_pattern.search(lower_text(part)) for part in plain):
            return cuts
        chars: list[str] = []
        origins: list[int] = []
        for start, end, token in cuts:
            part, places = (text[start:end], range(start, end)) if token else lower(text[start:end], range(start, end))
            chars.append(part)
            origins.extend(places)
        if not origins:
            return [(0, len(text), None)]
        return [
            (origins[start], origins[end - 1] + 1, self._by_lower[token] if token else None)
            for start, end, token in self._cut("".join(chars), self._lower_pattern)
        ]
