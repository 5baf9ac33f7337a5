"""What all tokenizers share: calling, encoding, padding, converting, decoding.

A subclass adds four things: `vocab`, `template` (the special tokens around a text), `_encode_plain` (text without
special tokens -> pieces) and `convert_tokens_to_string`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, cast

from ..errors import InputError, suggests
from .base.decoding import Decoding
from .base.encoding_options import Options, takes_options
from .base.padding import Padding
from .base.settings import check_settings
from .base.special_tokens import AddedToken, SpecialTokens
from .base.template import Template
from .base.text_inputs import Text, describe, read_ids, read_texts
from .base.tokenizer_files import PretrainedFiles, VocabularyFile
from .base.windows import rows_of, template_without_special_tokens
from .encoding import BatchEncoding, Pieces, join_pieces, join_words

if TYPE_CHECKING:
    from .explanation.explain_wordpiece import Explanation

P = ParamSpec("P")
Token = str | AddedToken
NO_LIMIT = int(1e30)  # what tokenizer files write for a model without a longest input


class PreTrainedTokenizer(PretrainedFiles, Decoding, Padding, Template, SpecialTokens):
    """Text to ids and back.

    >>> tokenizer = BertTokenizer.from_pretrained("./bert-base-uncased/")       # doctest: +SKIP
    >>> tokenizer("I like natural language progressing!")["input_ids"]          # doctest: +SKIP
    [101, 1045, 2066, 3019, 2653, 27673, 999, 102]
    """

    is_fast = True

    def __init__(
        self,
        vocabulary: VocabularyFile,
        *,
        bos_token: Token | None = None,
        eos_token: Token | None = None,
        unk_token: Token | None = None,
        sep_token: Token | None = None,
        pad_token: Token | None = None,
        cls_token: Token | None = None,
        mask_token: Token | None = None,
        additional_special_tokens: Iterable[Token] = (),
        extra_special_tokens: Mapping[str, Token] | None = None,  # under names of their own, such as "image_token"
        added_tokens: Mapping[int, Any] | None = None,
        model_max_length: int | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        clean_up_tokenization_spaces: bool = True,
        name_or_path: str = "",
        kept_settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.vocab = vocabulary.vocab
        self.ids_to_tokens = {index: token for token, index in self.vocab.items()}
        self.model_max_length = NO_LIMIT if model_max_length is None else model_max_length
        self.padding_side = padding_side
        self.truncation_side = truncation_side
        self.clean_up_tokenization_spaces = clean_up_tokenization_spaces
        self.name_or_path = name_or_path
        self.kept_settings = dict(kept_settings or {})
        self._warned = set()
        special = {
            "bos_token": bos_token,
            "eos_token": eos_token,
            "unk_token": unk_token,
            "sep_token": sep_token,
            "pad_token": pad_token,
            "cls_token": cls_token,
            "mask_token": mask_token,
        }
        added = vocabulary.added | dict(added_tokens or {})
        additional, extra = additional_special_tokens or (), extra_special_tokens or {}
        self._initialise_special_tokens(special, additional, extra, added, vocabulary.name)

    # --- what a kind of tokenizer adds -------------------------------------------------------------------------

    def _encode_plain(self, texts: list[str], split_special_tokens: bool) -> list[Pieces]:
        """Pieces of texts that hold no special token."""
        raise NotImplementedError

    def explain(self, text: str) -> Explanation:
        """How a text becomes ids, step by step: print it, or read its fields."""
        raise NotImplementedError

    # --- vocabulary --------------------------------------------------------------------------------------------

    @property
    def vocab_size(self) -> int:
        """Tokens in the vocabulary, without the added ones."""
        return len(self.vocab)

    def __len__(self) -> int:
        """Tokens in all, with the added ones."""
        return len(self.vocab) + len(self.added_tokens_encoder)

    def __bool__(self) -> bool:
        return True

    def get_vocab(self) -> dict[str, int]:
        """Every token with its id, added ones included."""
        return self.vocab | self.added_tokens_encoder

    @property
    def max_len_single_sentence(self) -> int:
        """The longest text, in tokens, that fits the model beside the special tokens."""
        return self.model_max_length - self.num_special_tokens_to_add()

    @property
    def max_len_sentences_pair(self) -> int:
        return self.model_max_length - self.num_special_tokens_to_add(pair=True)

    def __repr__(self) -> str:
        limit = "none" if self.model_max_length >= NO_LIMIT else self.model_max_length
        special = ", ".join(
            f"{name.removesuffix('_token')} {token!r}" for name, token in self.special_tokens_map.items()
        )
        return (
            f"{type(self).__name__}(name_or_path={self.name_or_path!r}, vocab_size={self.vocab_size}, "
            f"added={len(self.added_tokens_encoder)}, model_max_length={limit}, padding_side={self.padding_side!r}, "
            f"truncation_side={self.truncation_side!r}, special tokens: {special})"
        )

    # --- text to tokens to ids ---------------------------------------------------------------------------------

    @suggests
    def tokenize(
        self, text: str, pair: str | None = None, add_special_tokens: bool = False, split_special_tokens: bool = False
    ) -> list[str]:
        """The tokens of a text, or of a pair one after the other."""
        texts = [each for each in (text, pair) if each is not None or each is text]
        for name, each in zip(("text", "pair"), texts, strict=False):
            if not isinstance(each, str):
                raise InputError(f"{name} must be a string, got {describe(each)}")
        pieces = self._pieces(texts, split_special_tokens)
        names = self.ids_to_tokens
        slots = self.template(len(texts) == 2) if add_special_tokens else template_without_special_tokens(len(texts))
        tokens: list[str] = []
        for slot in slots:
            if slot.token_id is None:
                part = pieces[slot.sequence]
                tokens += part.tokens or [names[i] for i in part.ids]
            else:
                tokens.append(names[slot.token_id])
        return tokens

    def _pieces(self, texts: list[str], split_special_tokens: bool = False) -> list[Pieces]:
        """Each text as pieces, special tokens inside it recognised."""
        if split_special_tokens or self._pattern is None:
            return self._encode_plain(texts, split_special_tokens)
        cuts = [self._split_at_special_tokens(text) for text in texts]
        plain = [
            text if len(cut) == 1 else text[start:end]
            for text, cut in zip(texts, cuts, strict=True)
            for start, end, token in cut
            if token is None
        ]
        made = iter(self._encode_plain(plain, split_special_tokens)) if plain else iter(())
        return [
            next(made)
            if len(cut) == 1 and cut[0][2] is None
            else join_pieces([(a, self._special_piece(t) if t else next(made)) for a, _, t in cut], self.ids_to_tokens)
            for cut in cuts
        ]

    def _pieces_of_words(self, words: list[str], split_special_tokens: bool) -> list[Pieces]:
        """Pieces of the words of a text; some tokenizers think of a space before each."""
        return self._pieces(words, split_special_tokens)

    def _special_piece(self, token: str) -> Pieces:
        return Pieces([self._id_of(token)], ([(0, len(token))], [0]))

    def _pieces_of(self, texts: list[Text], options: Options) -> list[Pieces]:
        """Pieces of texts, or of texts given as words: then offsets count within each word."""
        if not options.is_split_into_words:
            return self._pieces(cast("list[str]", texts), options.split_special_tokens)
        made = iter(self._pieces_of_words([word for words in texts for word in words], options.split_special_tokens))
        return [join_words([next(made) for _ in words], self.ids_to_tokens) for words in texts]

    # --- encoding ----------------------------------------------------------------------------------------------

    @takes_options
    def __call__(self, text: Any, text_pair: Any = None, *, options: Options) -> BatchEncoding:
        """Encode one text or a list of texts, each alone or with a second one."""
        firsts, seconds, single = read_texts(text, text_pair, options.is_split_into_words)
        count = len(firsts)
        pieces = self._pieces_of([*firsts, *(seconds or ())], options)
        return self._encode(pieces[:count], pieces[count:] if seconds is not None else None, options, single)

    @takes_options
    def encode_plus(self, text: Any, text_pair: Any = None, *, options: Options) -> BatchEncoding:
        """Encode one text or pair; it may be given as tokens or ids already."""
        pieces = [self._pieces_of_one(each, options) for each in (text, text_pair) if each is not None or each is text]
        return self._encode(pieces[:1], pieces[1:] or None, options, single=True)

    @takes_options
    def encode(self, text: Any, text_pair: Any = None, *, options: Options) -> list[int]:
        """The ids of one text or pair, special tokens included."""
        pieces = [self._pieces_of_one(each, options) for each in (text, text_pair) if each is not None or each is text]
        return self._encode(pieces[:1], pieces[1:] or None, options, single=True)["input_ids"]

    @takes_options
    def batch_encode_plus(self, batch_text_or_text_pairs: Sequence[Any], *, options: Options) -> BatchEncoding:
        """Encode a list of texts or of pairs."""
        firsts, seconds, single = read_texts(batch_text_or_text_pairs, None, options.is_split_into_words)
        if single:
            raise InputError(f"batch_encode_plus takes a list of texts, got {describe(batch_text_or_text_pairs)}")
        count = len(firsts)
        pieces = self._pieces_of([*firsts, *(seconds or ())], options)
        return self._encode(pieces[:count], pieces[count:] if seconds is not None else None, options, single=False)

    @takes_options
    def prepare_for_model(
        self, ids: Any, pair_ids: Any = None, prepend_batch_axis: bool = False, *, options: Options
    ) -> BatchEncoding:
        """Add special tokens to ids, truncate and pad them."""
        first = [Pieces(read_ids(ids))]
        second = None if pair_ids is None else [Pieces(read_ids(pair_ids, "pair_ids"))]
        return self._encode(first, second, options, single=True, batch_axis=prepend_batch_axis)

    def _pieces_of_one(self, text: Any, options: Options) -> Pieces:
        """Pieces of one text given as a string, words, tokens or ids."""
        if isinstance(text, list | tuple) and text and not options.is_split_into_words:
            if isinstance(text[0], str):
                return Pieces(self.convert_tokens_to_ids(text))
            return Pieces(read_ids(text, "text"))
        if hasattr(text, "tolist"):
            return Pieces(read_ids(text, "text"))
        texts, _, single = read_texts(text, None, options.is_split_into_words)
        if not single:
            raise InputError(f"encode and encode_plus take one text, got {describe(text)}; call the tokenizer for many")
        return self._pieces_of(texts, options)[0]

    def _encode(
        self,
        firsts: list[Pieces],
        seconds: list[Pieces] | None,
        options: Options,
        single: bool,
        batch_axis: bool = True,
    ) -> BatchEncoding:
        """Rows of pieces -> the result of a call."""
        texts = [(a,) for a in firsts] if seconds is None else list(zip(firsts, seconds, strict=True))
        slots = (
            self.template(seconds is not None)
            if options.add_special_tokens
            else template_without_special_tokens(len(texts[0]))
        )
        limit = self._limit(options)
        rows = [
            row for i, each in enumerate(texts) for row in rows_of(i, each, slots, limit, options, self.truncation_side)
        ]
        if limit is None and self.model_max_length < NO_LIMIT:
            self._warn_of_length(max(map(len, rows)), options)
        single = single and not options.return_overflowing_tokens
        self._pad_rows(rows, options)
        pad_id = 0 if self.pad_token is None else self.pad_token_id
        columns: dict[str, list] = {"input_ids": [row.ids(pad_id) for row in rows]}
        if self._is_returned("token_type_ids", options.return_token_type_ids):
            columns["token_type_ids"] = [row.type_ids(self.pad_token_type_id) for row in rows]
        if self._is_returned("attention_mask", options.return_attention_mask):
            columns["attention_mask"] = [row.attention_mask() for row in rows]
        if options.return_special_tokens_mask:
            columns["special_tokens_mask"] = [row.special_tokens_mask() for row in rows]
        if options.return_offsets_mapping:
            columns["offset_mapping"] = [row.offsets() for row in rows]
        if options.return_length:
            columns["length"] = [len(ids) for ids in columns["input_ids"]]
        if single:
            columns = {key: values[0] for key, values in columns.items()}
        if options.return_overflowing_tokens:
            columns["overflow_to_sample_mapping"] = [row.sample for row in rows]
        encoded = BatchEncoding(columns, rows, self.ids_to_tokens, pad_id, single=single and batch_axis)
        return encoded.convert_to_tensors(options.return_tensors)

    def _is_returned(self, key: str, requested: bool | None) -> bool:
        return key in self.model_input_names if requested is None else requested

    def _limit(self, options: Options) -> int | None:
        """The longest row allowed, None if nothing is to be cut."""
        limit = self._requested_limit(options)
        multiple = options.pad_to_multiple_of
        if limit is not None and multiple and options.pads_to != "do_not_pad" and limit % multiple:
            raise InputError(f"rows cut to {limit} cannot be padded to a multiple of {multiple}; change one of the two")
        return limit

    def _requested_limit(self, options: Options) -> int | None:
        if options.truncates == "do_not_truncate":
            return None
        if options.max_length is None:
            if self.model_max_length < NO_LIMIT:
                return self.model_max_length
            self._warn_once(
                "truncation was requested, but neither max_length nor the tokenizer's model_max_length is set"
            )
            return None
        if options.truncation is None and options.verbose:
            self._warn_once(
                "max_length is given without truncation: longer texts are cut; pass truncation=True to agree"
            )
        return options.max_length

    def _warn_of_length(self, longest: int, options: Options) -> None:
        if longest > self.model_max_length and options.verbose:
            self._warn_once(
                f"a text has {longest} tokens, more than the model's {self.model_max_length}; nothing was cut, "
                "and the model cannot take it; pass truncation=True to cut",
                key="too long",
            )


def shares_settings(function: Callable[P, None]) -> Callable[P, None]:
    """Decorate the constructor of a tokenizer: its `**shared` are the keyword arguments of `PreTrainedTokenizer`.

    They are part of its signature, and a misspelt keyword names the nearest valid one.
    """
    own = inspect.signature(function).parameters
    shared = inspect.signature(PreTrainedTokenizer.__init__).parameters
    added = [each for name, each in shared.items() if each.kind is each.KEYWORD_ONLY and name not in own]
    named = [each for each in own.values() if each.kind is not each.VAR_KEYWORD]

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> None:
        given = check_settings(dict(zip(own, args, strict=False)))
        function(*given.values(), *args[len(given) :], **check_settings(kwargs))  # type: ignore[arg-type]

    checked.__signature__ = inspect.Signature([*named, *added])  # type: ignore[attr-defined]
    return suggests(checked)
