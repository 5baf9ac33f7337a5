"""Special and added tokens: what they are called, which ids they have, and where they stand in a text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ...errors import InputError, TokenizerError, refuse_unknown, shown
from ...json_fields import JsonFields, is_boolean
from .encoding_options import Side
from .settings import read_token

if TYPE_CHECKING:
    from ..tokenizer import PreTrainedTokenizer

NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
ADDITIONAL = "additional_special_tokens"
SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is searched for in the text before tokenization."""

    content: str
    single_word: bool = False  # only where it is not part of a longer word
    lstrip: bool = False  # takes the white space on its left with it
    rstrip: bool = False
    normalized: bool = False  # whether it is looked for in the changed text, lower-cased if that is
    special: bool = True

    def __str__(self) -> str:
        return self.content

    @property
    def is_exact(self) -> bool:
        """Whether it is looked for letter by letter, even where text is lower-cased."""
        return self.special or not self.normalized

    @classmethod
    def read(cls, value: Any, special: bool, where: str) -> AddedToken:
        """From a plain string, or from the dictionaries that tokenizer files hold."""
        if isinstance(value, AddedToken):
            return value
        if isinstance(value, Mapping):
            value = dict(value)
            content = value.get("content")
            if isinstance(content, str) and content:
                fields = JsonFields(value, f"{where}, token {shown(content)}", TokenizerError)
                special = fields.read("special", is_boolean, special)
                names = ("single_word", "lstrip", "rstrip", "normalized")
                flags = {name: fields.read(name, is_boolean) for name in names if value.get(name) is not None}
                return cls(read_token(content, where), **{"normalized": not special, **flags}, special=special)
        elif isinstance(getattr(value, "content", None), str):  # the AddedToken of the tokenizers library
            flags = {n: getattr(value, n) for n in ("single_word", "lstrip", "rstrip", "normalized")}
            return cls(value.content, **flags, special=special or value.special)
        elif isinstance(value, str) and value:
            return cls(read_token(value, where), normalized=not special, special=special)
        raise TokenizerError(f"{where}: a token must be a string that is not empty, got {shown(value)}")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class SpecialToken:
    """An attribute such as `tokenizer.mask_token`: a token by the part it plays, None if the tokenizer has none."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, tokenizer: SpecialTokens | None, owner: type) -> Any:
        return self if tokenizer is None else tokenizer._special[self.name]

    def __set__(self, tokenizer: SpecialTokens, value: str | None) -> None:
        tokenizer._set_special(self.name, value)


class SpecialTokenId:
    """An attribute such as `tokenizer.mask_token_id`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.removesuffix("_id")

    def __get__(self, tokenizer: SpecialTokens | None, owner: type) -> Any:
        if tokenizer is None:
            return self
        token = tokenizer._special[self.name]
        return None if token is None else tokenizer._id_of(token)

    def __set__(self, tokenizer: PreTrainedTokenizer, value: int | None) -> None:
        tokenizer._set_special(self.name, None if value is None else tokenizer.convert_ids_to_tokens(value))


class SpecialTokens:
    """The part of a tokenizer that knows special and added tokens, with the attributes that all its parts share."""

    model_input_names: list[str] = ["input_ids", "token_type_ids", "attention_mask"]
    padding_side, truncation_side = Side(), Side()

    vocab: dict[str, int]  # before additions
    ids_to_tokens: dict[int, str]  # with additions
    model_max_length: int
    clean_up_tokenization_spaces: bool
    name_or_path: str
    kept_settings: dict[str, Any]  # keys of tokenizer_config.json that nobody here reads
    _warned: set[str]

    bos_token, bos_token_id = SpecialToken(), SpecialTokenId()
    eos_token, eos_token_id = SpecialToken(), SpecialTokenId()
    unk_token, unk_token_id = SpecialToken(), SpecialTokenId()
    sep_token, sep_token_id = SpecialToken(), SpecialTokenId()
    pad_token, pad_token_id = SpecialToken(), SpecialTokenId()
    cls_token, cls_token_id = SpecialToken(), SpecialTokenId()
    mask_token, mask_token_id = SpecialToken(), SpecialTokenId()

    def _warn_once(self, message: str, key: str = "") -> None:
        if (key or message) not in self._warned:
            self._warned.add(key or message)
            warnings.warn(message, UserWarning, stacklevel=7)

    def _initialise_special_tokens(
        self,
        special: Mapping[str, Any],
        additional: Iterable[Any],
        extra: Mapping[str, Any],
        added: Mapping[int, Any],
        where: str,
    ) -> None:
        """Register the tokens; every special token must have an id, in the vocabulary or among the added.

        Only those under names of their own, `extra`, may lack one: they are then no tokens, as in older programs.
        """
        self._special: dict[str, str | None] = dict.fromkeys(NAMES)
        self._additional: list[str] = []
        self._extra: dict[str, str] = {}
        self._added_tokens: dict[str, AddedToken] = {}  # what is looked for in texts
        self.added_tokens_encoder: dict[str, int] = {}
        named = [*special.items(), *((ADDITIONAL, value) for value in additional)]
        read = [(n, AddedToken.read(v, special=True, where=f"{where}, {n}")) for n, v in named if v is not None]
        special_texts = {token.content for _, token in read}
        for index, value in sorted(added.items()):
            is_special = isinstance(value, str) and value in special_texts
            token = AddedToken.read(value, special=is_special, where=where)
            self._assign_id(token.content, index, where)
            self._added_tokens[token.content] = token
        missing = []
        for name, token in read:
            if token.content not in self.vocab and token.content not in self.added_tokens_encoder:
                missing.append(f"{token.content!r} ({name})")
                continue
            if name == ADDITIONAL:
                self._additional.append(token.content)
            else:
                self._special[name] = token.content
            self._added_tokens.setdefault(token.content, token)
        self._initialise_extra_tokens(extra, where)
        if missing:
            raise TokenizerError(
                f"{where} has no {', '.join(missing)}; add it to the vocabulary, name another token that is there, "
                f"or pass None for a special token that is not needed, as in mask_token=None"
            )
        self._compile_token_patterns()

    def _initialise_extra_tokens(self, extra: Mapping[str, Any], where: str) -> None:
        """Register special tokens under names of their own."""
        for name, value in extra.items():
            token = AddedToken.read(value, special=True, where=f"{where}, {name}")
            if token.content in self.vocab or token.content in self.added_tokens_encoder:
                self._extra[name] = token.content
                self._added_tokens.setdefault(token.content, token)
            else:
                self.kept_settings[name] = token.content
                self._warn_once(f"{where} has no {token.content!r} ({name}), which stays plain text")

    def __getattr__(self, name: str) -> Any:
        extra = self.__dict__.get("_extra", {})
        if name in extra:
            return extra[name]
        if name.removesuffix("_id") in extra:
            return self._id_of(extra[name.removesuffix("_id")])
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def _assign_id(self, token: str, index: int, where: str) -> None:
        """Give an added token its id, unless the vocabulary has the pair already."""
        if self.vocab.get(token) == index:
            return
        if token in self.vocab or self.ids_to_tokens.get(index, token) != token:
            raise TokenizerError(
                f"{where}: added token {token!r} has id {index}, but the vocabulary says "
                f"{token!r} -> {self.vocab.get(token)}, {index} -> {self.ids_to_tokens.get(index)!r}"
            )
        self.added_tokens_encoder[token] = index
        self.ids_to_tokens[index] = token

    def _compile_token_patterns(self) -> None:
        """Prepare the search for special and added tokens; to be called when they have changed."""
        self._pattern = any_of(self._added_tokens)

    def _id_of(self, token: str) -> int:
        index = self.added_tokens_encoder.get(token)
        return self.vocab[token] if index is None else index

    def _set_special(self, name: str, value: Any) -> None:
        if value is not None:
            token = AddedToken.read(value, special=True, where=name)
            if token.content not in self.vocab and token.content not in self.added_tokens_encoder:
                raise TokenizerError(
                    f"{name} {token.content!r} is not in the vocabulary; "
                    f"use add_special_tokens({{{name!r}: {token.content!r}}}) and then resize the model's embeddings"
                )
            self._added_tokens.setdefault(token.content, token)
            value = token.content
        self._special[name] = value
        self._compile_token_patterns()

    @property
    def special_tokens_map(self) -> dict[str, str | list[str]]:
        """The part each special token plays, and the token."""
        named: dict[str, Any] = {name: token for name, token in self._special.items() if token is not None}
        return named | self._extra | ({ADDITIONAL: list(self._additional)} if self._additional else {})

    @property
    def additional_special_tokens(self) -> list[str]:
        return list(self._additional)

    @property
    def additional_special_tokens_ids(self) -> list[int]:
        return [self._id_of(token) for token in self._additional]

    @property
    def all_special_tokens(self) -> list[str]:
        """The special tokens, each once."""
        return list(
            dict.fromkeys(
                [*(t for t in self._special.values() if t is not None), *self._extra.values(), *self._additional]
            )
        )

    @property
    def all_special_ids(self) -> list[int]:
        return [self._id_of(token) for token in self.all_special_tokens]

    @property
    def added_tokens_decoder(self) -> dict[int, AddedToken]:
        """All tokens that are looked for in texts, by id."""
        return dict(sorted((self._id_of(content), token) for content, token in self._added_tokens.items()))

    def get_added_vocab(self) -> dict[str, int]:
        """The tokens that were added to the vocabulary, with their ids."""
        return dict(self.added_tokens_encoder)

    def add_tokens(
        self, new_tokens: str | AddedToken | Iterable[str | AddedToken], special_tokens: bool = False
    ) -> int:
        """Add tokens that the vocabulary lacks, and return how many there were.

        A model needs `resize_token_embeddings(len(tokenizer))` afterwards.
        """
        listed = [new_tokens] if isinstance(new_tokens, str | AddedToken) else list(new_tokens)
        count = 0
        for position, value in enumerate(listed):
            token = AddedToken.read(value, special=special_tokens, where=f"add_tokens, token {position}")
            token = self._as_added(token)
            known = token.content in self.vocab or token.content in self.added_tokens_encoder
            if not known:
                index = len(self.vocab) + len(self.added_tokens_encoder)
                while index in self.ids_to_tokens:  # a vocabulary with repeated lines has ids beyond its length
                    index += 1
                self._assign_id(token.content, index, "add_tokens")
                count += 1
            if not known or token.special:
                self._added_tokens[token.content] = token
        self._compile_token_patterns()
        return count

    def _as_added(self, token: AddedToken) -> AddedToken:
        """What a token becomes when it is added, for tokenizers that change all text (lower-casing)."""
        return token

    def add_special_tokens(self, special_tokens_dict: Mapping[str, Any]) -> int:
        """Name special tokens, `{"eos_token": "[EOS]"}`, and return how many the vocabulary lacked and were added."""
        refuse_unknown(special_tokens_dict, (*NAMES, ADDITIONAL), "add_special_tokens")
        count = 0
        for name, value in special_tokens_dict.items():
            if name == ADDITIONAL:
                if isinstance(value, str) or not isinstance(value, Iterable):
                    raise InputError(f"{ADDITIONAL} must be a list of tokens, got {value!r}")
                tokens = [AddedToken.read(each, special=True, where=name) for each in value]
                count += self.add_tokens(tokens, special_tokens=True)
                self._additional = list(dict.fromkeys([*self._additional, *(t.content for t in tokens)]))
            else:
                count += self.add_tokens([AddedToken.read(value, special=True, where=name)], special_tokens=True)
                self._set_special(name, value)
        return count

    def _split_at_special_tokens(self, text: str) -> list[tuple[int, int, str | None]]:
        """Split a text at its special and added tokens: (start, end, the token, or None for plain text)."""
        return self._cut(text, self._pattern)

    def _added_token(self, found: str) -> AddedToken:
        """The token that was found in a text."""
        return self._added_tokens[found]

    def _cut(self, text: str, pattern: re.Pattern[str] | None) -> list[tuple[int, int, str | None]]:
        matches = list(pattern.finditer(text)) if pattern else []
        if not matches:
            return [(0, len(text), None)]
        cut: list[tuple[int, int, str | None]] = []
        done = 0
        for match in matches:
            start, end = match.span()
            token = self._added_token(match.group())
            if start < done or (token.single_word and is_part_of_word(text, start, end)):
                continue
            before = text[done:start]
            plain_end = done + len(before.rstrip()) if token.lstrip else start
            if plain_end > done:
                cut.append((done, plain_end, None))
            cut.append((start, end, match.group()))
            done = end
            if token.rstrip:
                space = SPACE.match(text, end)
                done = space.end() if space else end
        if done < len(text):
            cut.append((done, len(text), None))
        return cut


def any_of(tokens: Iterable[str], flags: int = 0) -> re.Pattern[str] | None:
    """A pattern that finds the first, and of those the longest, of some tokens."""
    listed = sorted(tokens, key=lambda token: (-len(token), token))
    return re.compile("|".join(map(re.escape, listed)), flags) if listed else None


def is_part_of_word(text: str, start: int, end: int) -> bool:
    """Whether a letter, digit or underscore is directly before or after a span."""
    around = text[start - 1 : start] + text[end : end + 1]
    return any(char.isalnum() or char == "_" for char in around)
