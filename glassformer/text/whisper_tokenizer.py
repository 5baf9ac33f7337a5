"""Whisper's tokenizer: GPT-2's byte-pair encoding, with tokens for languages, tasks and times."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, TokenizerError, shown, suggests
from ..json_fields import JsonFields, json_text
from .base.special_tokens import AddedToken
from .base.text_inputs import read_ids
from .base.tokenizer_files import read_json, setting
from .bpe.bpe import Pair
from .bpe.bpe_files import BpeFile
from .bpe.byte_level_tokenizer import ByteLevelTokenizer
from .bpe.tiktoken_file import SUFFIX, read_tiktoken
from .encoding import Slot
from .tokenizer import Token, shares_settings
from .whisper_languages import LANGUAGES, language_code
from .whisper_text import TimedText, basic_normalize, timed_texts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END = "<|endoftext|>"
START, PREVIOUS, NO_SPEECH = "<|startoftranscript|>", "<|startofprev|>", "<|nospeech|>"
NO_TIMESTAMPS = "<|notimestamps|>"
TASKS = ("translate", "transcribe")
TIMES = 1501  # from <|0.00|> to <|30.00|>
SPELLING = "normalizer.json"
PRECISION = 0.02  # seconds from one to the next
TIMESTAMP = re.compile(r"<\|(\d+\.\d+)\|>")


def special_tokens(languages: int) -> list[str]:
    """The tokens behind the words, in their order, without those of times."""
    codes = [f"<|{code}|>" for code in list(LANGUAGES)[:languages]]
    tasks = [f"<|{task}|>" for task in TASKS]
    return [START, *codes, *tasks, "<|startoflm|>", PREVIOUS, NO_SPEECH, NO_TIMESTAMPS]


class WhisperTokenizer(ByteLevelTokenizer):
    """Text to ids as Whisper does it.

    >>> tokenizer = WhisperTokenizer.from_pretrained("./whisper-tiny/", language="de")    # doctest: +SKIP
    >>> tokenizer.decode(tokenizer("Guten Tag")["input_ids"])                             # doctest: +SKIP
    '<|startoftranscript|><|de|><|notimestamps|>Guten Tag<|endoftext|>'

    It is read from a folder, from GPT-2's files (the English models), or from OpenAI's `gpt2.tiktoken` and
    `multilingual.tiktoken`: what these lack of Whisper's own tokens is added, for `num_languages`.
    """

    errors = setting("errors")
    add_prefix_space = setting("add_prefix_space")

    @shares_settings
    def __init__(
        self,
        vocab_file: str | PathLike[str] | None = None,
        merges_file: str | PathLike[str] | None = None,
        errors: str = "replace",  # what becomes of bytes that make no character, as for bytes.decode
        unk_token: Token | None = END,
        bos_token: Token | None = END,
        eos_token: Token | None = END,
        pad_token: Token | None = END,
        add_prefix_space: bool = False,
        language: str | None = None,
        task: str | None = None,
        predict_timestamps: bool = False,
        clean_up_tokenization_spaces: bool = False,
        *,
        num_languages: int | None = None,  # None: 99, or those that the files have
        additional_special_tokens: Sequence[Token] | None = None,
        added_tokens: Mapping[int, Any] | None = None,
        vocab: BpeFile | Mapping[str, int] | None = None,
        merges: Sequence[Pair] | None = None,
        **shared: Any,
    ) -> None:
        vocabulary = self._vocabulary(vocab_file, merges_file, vocab, merges)
        if num_languages is not None and not 1 <= num_languages <= len(LANGUAGES):
            raise TokenizerError(f"num_languages must be from 1 to {len(LANGUAGES)}, got {shown(num_languages)}")
        added = with_own_tokens(vocabulary.vocab, {**vocabulary.added, **(added_tokens or {})}, num_languages or 99)
        contents = [content_of(value) for value in added.values()]
        special = [text for text in contents if text.startswith("<|") and not TIMESTAMP.fullmatch(text) and text != END]
        super().__init__(
            vocabulary,
            {"errors": errors, "add_prefix_space": add_prefix_space},
            unk_token=unk_token,
            bos_token=bos_token,
            eos_token=eos_token,
            pad_token=pad_token,
            clean_up_tokenization_spaces=clean_up_tokenization_spaces,
            additional_special_tokens=additional_special_tokens or special,
            added_tokens=added,
            **shared,
        )
        self.english_spelling_normalizer: dict[str, str] = {}  # British spellings to American ones, of a folder
        self.language: str | None = None
        self.task: str | None = None
        self.predict_timestamps = False
        self.set_prefix_tokens(language, task, predict_timestamps)

    # --- what stands before a text -----------------------------------------------------------------------------

    def set_prefix_tokens(
        self, language: str | None = None, task: str | None = None, predict_timestamps: bool | None = None
    ) -> None:
        """Choose the tokens before texts; what is None stays as it is."""
        if task is not None and task not in TASKS:
            raise InputError(f"task must be 'transcribe' or 'translate', got {shown(task)}")
        code = None if language is None else language_code(language)
        if code is not None and f"<|{code}|>" not in self.added_tokens_encoder:
            raise InputError(f"this vocabulary has no token for the language {code!r}")
        self.language = self.language if code is None else code
        self.task = self.task if task is None else task
        self.predict_timestamps = self.predict_timestamps if predict_timestamps is None else predict_timestamps

    @property
    def prefix_tokens(self) -> list[int]:
        """The ids before a text: the start, language and task if they are set, and whether there are no times."""
        names = [START]
        names += [f"<|{self.language}|>"] if self.language is not None else []
        names += [f"<|{self.task}|>"] if self.task is not None else []
        names += [] if self.predict_timestamps else [NO_TIMESTAMPS]
        return self.convert_tokens_to_ids(names)

    def template(self, pair: bool) -> tuple[Slot, ...]:
        """The prefix, the text, and the end."""
        before = [Slot(token, 0, 0) for token in self.prefix_tokens]
        texts = [Slot(None, number, number) for number in range(1 + pair)]
        return (*before, *texts, Slot(self.eos_token_id, int(pair), int(pair)))

    def get_decoder_prompt_ids(
        self, task: str | None = None, language: str | None = None, no_timestamps: bool = True
    ) -> list[tuple[int, int]]:
        """The prefix behind its first token, each id with its place, as `forced_decoder_ids` has them."""
        self.set_prefix_tokens(language, task, not no_timestamps)
        return list(enumerate(self.prefix_tokens))[1:]

    def get_prompt_ids(self, text: str, return_tensors: str | None = "np") -> Any:
        """Text that came before, as ids: the token that says so, and the words."""
        found = [token for _, _, token in self._split_at_special_tokens(text) if token is not None]
        if found:
            raise InputError(f"a prompt is plain text, and this one has {shown(found[0])} in it")
        ids = [self.convert_tokens_to_ids(PREVIOUS), *self.encode(" " + text.strip(), add_special_tokens=False)]
        if return_tensors is None:
            return ids
        import numpy

        array = numpy.array(ids)
        if return_tensors == "np":
            return array
        import torch

        return torch.from_numpy(array)

    # --- times -------------------------------------------------------------------------------------------------

    @property
    def timestamp_begin(self) -> int:
        """The id of <|0.00|>."""
        return self.convert_tokens_to_ids(NO_TIMESTAMPS) + 1

    @property
    def is_multilingual(self) -> bool:
        """Whether it is the vocabulary of a model of many languages; in those, the end comes after all words."""
        return self.eos_token_id > 50256

    def timestamp_ids(self, time_precision: float = PRECISION) -> list[int]:
        """The ids of all times."""
        return self.convert_tokens_to_ids([f"<|{place * time_precision:.2f}|>" for place in range(TIMES)])

    # --- back to text ------------------------------------------------------------------------------------------

    @suggests
    def decode(
        self,
        token_ids: Any,
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        spaces_between_special_tokens: bool = False,
        output_offsets: bool = False,
        time_precision: float = PRECISION,
        decode_with_timestamps: bool = False,
        normalize: bool = False,
        basic_normalize: bool = False,
        remove_diacritics: bool = False,
    ) -> Any:
        """The text of some ids, without times unless `decode_with_timestamps`.

        Times of a second window go on from those of the first. `skip_special_tokens` leaves out a prompt too.
        `output_offsets` gives {"text": ..., "offsets": [{"text", "timestamp": (start, end)}]}. `normalize` takes out of
        English what does not count as a difference between two transcriptions, `basic_normalize` of any language.
        """
        ids = read_ids(token_ids, "token_ids")
        kept = self._without_prompt(ids) if skip_special_tokens else ids

        def plain(part: Sequence[int]) -> str:
            options = (skip_special_tokens, clean_up_tokenization_spaces, spaces_between_special_tokens)
            return super(WhisperTokenizer, self).decode(list(part), *options)

        if decode_with_timestamps:
            text = "".join(
                each if isinstance(each, str) else plain(each)
                for each in timed_texts(kept, self.timestamp_begin, time_precision)
            )
        else:
            text = plain([token for token in kept if token < self.timestamp_begin])
            if normalize:
                text = self.normalize(text)
            elif basic_normalize:
                text = self.basic_normalize(text, remove_diacritics)
        if not output_offsets:
            return text
        return {"text": text, "offsets": self._offsets(ids, time_precision)}

    def batch_decode(self, sequences: Any, skip_special_tokens: bool = False, **options: Any) -> list[Any]:  # type: ignore[override]
        """The text of each row of ids; options as those of `decode`."""
        return [self.decode(row, skip_special_tokens, **options) for row in sequences]

    def _without_prompt(self, ids: list[int]) -> list[int]:
        """The ids from the start of the transcript on, if they begin with earlier text."""
        if ids and ids[0] == self.convert_tokens_to_ids(PREVIOUS):
            start = self.convert_tokens_to_ids(START)
            return ids[ids.index(start) :] if start in ids else []
        return ids

    def _offsets(self, ids: list[int], time_precision: float) -> list[dict[str, Any]]:
        """The text between every two times."""
        pieces = TimedText.between_times(ids, self.timestamp_begin)
        return [
            {
                "text": super(WhisperTokenizer, self).decode(list(piece.ids), spaces_between_special_tokens=False),
                "timestamp": (piece.start * time_precision, piece.end * time_precision),
            }
            for piece in pieces
        ]

    def normalize(self, text: str) -> str:
        """English without what does not count as a difference: see whisper_english.py."""
        from .whisper_english import normalize_english

        return normalize_english(text, self.english_spelling_normalizer)

    @staticmethod
    def basic_normalize(text: str, remove_diacritics: bool = False) -> str:
        """Any language without what does not count as a difference: case, signs, brackets with what is in them."""
        return basic_normalize(text, remove_diacritics)

    # --- files -------------------------------------------------------------------------------------------------

    @classmethod
    def _in_folder(cls, path: Path) -> BpeFile:
        if path.is_file() and path.suffix == SUFFIX:
            return read_tiktoken(path)
        return super()._in_folder(path)

    @classmethod
    def _from_files(cls, path: Path, settings: dict, kept: dict, name_or_path: str) -> WhisperTokenizer:
        made = super()._from_files(path, settings, kept, name_or_path)
        if path.is_dir() and (path / SPELLING).is_file():
            read = read_json(path / SPELLING)
            made.english_spelling_normalizer = {word: str(other) for word, other in read.items()}
        return made

    def _vocabulary_files(self) -> dict[str, str]:
        files = super()._vocabulary_files()
        spelling = self.english_spelling_normalizer
        return {**files, **({SPELLING: json_text(spelling)} if spelling else {})}

    def _saved_settings(self) -> dict[str, Any]:
        own = {"language": self.language, "task": self.task, "predict_timestamps": self.predict_timestamps}
        return {**self._own_settings, **{name: value for name, value in own.items() if value}}

    @classmethod
    def _read_template(cls, parsed: JsonFields, path: Path) -> dict[str, Any]:
        return {}  # the prefix follows from language and task

    def _finish_engine(self, engine: Tokenizer) -> None:
        from .base.template import template_processing

        super()._finish_engine(engine)
        engine.post_processor = template_processing(self)


def content_of(value: Any) -> str:
    """The text of an added token, however files describe it."""
    return str(value.get("content") if isinstance(value, Mapping) else getattr(value, "content", value))


def with_own_tokens(vocab: Mapping[str, int], added: Mapping[int, Any], languages: int) -> dict[int, Any]:
    """Added tokens by id, with those of Whisper that a vocabulary lacks behind them."""
    ids = {content_of(value): index for index, value in added.items()} | dict(vocab)
    wanted = [END] if END not in ids else []
    wanted += special_tokens(languages) if START not in ids else []
    complete = dict(added)
    for text in wanted:
        index = max(ids.values()) + 1
        ids[text], complete[index] = index, AddedToken(text)
    if NO_TIMESTAMPS not in ids:
        raise TokenizerError(f"the vocabulary has {START} and no {NO_TIMESTAMPS}: it is not Whisper's")
    for place in range(TIMES):
        text, index = f"<|{place * PRECISION:.2f}|>", ids[NO_TIMESTAMPS] + 1 + place
        if text not in ids:
            complete[index] = AddedToken(text, special=False)
    return complete


WhisperTokenizerFast = WhisperTokenizer
__all__ = ["WhisperTokenizer", "WhisperTokenizerFast"]
