"""`GenerationConfig`: the settings of `generate` under the names of transformers, and their file."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..checkpoints.config_fields import boolean, checked, choice, integer
from ..checkpoints.config_file import ConfigFile
from ..checkpoints.files import make_folder, write_atomically
from ..checkpoints.pretrained_config import PretrainedConfig
from ..errors import ArgumentError, ConfigError, nearest
from .unsupported import UNSUPPORTED, ignored_settings, refuse_unsupported

log = logging.getLogger("glassformer")

GENERATION_CONFIG_FILE = "generation_config.json"
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
LARGEST = sys.float_info.max
INNER_CONFIGS = ("decoder", "generator", "text_config")  # the part of a composite config that generates
METADATA = ("_from_model_config", "_commit_hash", "transformers_version")
# Defaults that old libraries wrote into every config.json, where ours differ.
OLD_DEFAULTS = {"max_length": 20}


@functools.lru_cache(maxsize=256)
def warn_once(message: str) -> None:
    log.warning(message)


def warn_of_ignored_settings(values: Mapping[str, Any]) -> None:
    """Warn of settings in a file that would change the text and are not implemented."""
    for setting in ignored_settings(values):
        warn_once(f"a generation setting of the model is not supported and is ignored: {setting}")


def finite_number(default: float | None, accepted: str, is_valid: Any) -> Any:
    """A field for a finite number; errors say what is `accepted`."""

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not -LARGEST <= value <= LARGEST or not is_valid(value):
            raise ConfigError(f"{name} must be {accepted}, got {value!r:.60}")
        return value

    return checked(default, check)


def is_token_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_token_id_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(is_token_id, value))


def check_token_id_or_list(name: str, value: Any) -> int | list[int]:
    if not is_token_id(value) and not is_token_id_list(value):
        raise ConfigError(f"{name} must be a token id or a list of them, got {value!r:.60}")
    return value if is_token_id(value) else list(value)


def check_token_ids(name: str, value: Any) -> list[int]:
    if not is_token_id_list(value) and value != []:
        raise ConfigError(f"{name} must be a list of token ids, got {value!r:.60}")
    return list(value)


def check_words(name: str, value: Any) -> list[list[int]]:
    if not isinstance(value, (list, tuple)) or not all(map(is_token_id_list, value)):
        raise ConfigError(f"{name} must be a list of words, each a list of token ids, got {value!r:.60}")
    return [list(word) for word in value]


def check_forced_words(name: str, value: Any) -> list:
    """Words, or lists of words of which one must occur."""
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{name} must be a list of words, each a list of token ids, got {value!r:.60}")
    words = []
    for one in value:
        alternatives = isinstance(one, (list, tuple)) and len(one) > 0 and all(map(is_token_id_list, one))
        if not alternatives and not is_token_id_list(one):
            raise ConfigError(f"{name} must contain words as token ids, or lists of such words, got {one!r:.60}")
        words.append([list(word) for word in one] if alternatives else list(one))
    return words


def check_forced_tokens(name: str, value: Any) -> list[list[int | None]]:
    """Pairs of a place, from 1 on, and a token; a token that is None is for the model to find."""
    are_pairs = isinstance(value, (list, tuple)) and all(isinstance(one, (list, tuple)) for one in value)
    pairs = [list(one) for one in value] if are_pairs else None
    if pairs is None or any(len(one) != 2 or not (one[1] is None or is_token_id(one[1])) for one in pairs):
        raise ConfigError(f"{name} must be a list of pairs [place, token id], got {value!r:.60}")
    if [one[0] for one in pairs] != list(range(1, len(pairs) + 1)):
        raise ConfigError(f"{name} must name the places from 1 on, one after the other, got {value!r:.60}")
    return pairs


def check_strings(name: str, value: Any) -> list[str]:
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, (list, tuple)) or not all(isinstance(one, str) and one for one in strings):
        raise ConfigError(f"{name} must be a string or a list of strings, none of them empty, got {value!r:.60}")
    return list(strings)


def check_early_stopping(name: str, value: Any) -> bool | str:
    if not isinstance(value, bool) and value != "never":
        raise ConfigError(f"{name} must be True, False or 'never', got {value!r:.60}")
    return value


@dataclass(init=False, repr=False, eq=False)
class GenerationConfig(ConfigFile):
    """How a model continues a text. Lengths count a sequence's own tokens, never its padding.

    A field that is not given, or given as None, falls back to the model's own settings, then to the defaults below.

    >>> GenerationConfig(do_sample=True, top_p=0.9).given
    {'do_sample': True, 'top_p': 0.9}

    Attributes:
        max_length: The maximum number of tokens, prompt and new ones together.
        max_new_tokens: The maximum number of new tokens.
        min_length: No sequence ends before it has this many tokens, prompt included.
        min_new_tokens: No sequence ends before this many new tokens.
        early_stopping: When a beam search ends: True: as soon as num_beams sequences have ended; False: when the
            running beams look no better; "never": when none can become better.
        stop_strings: A sequence ends when its new text contains one of these.
        on_full_context: When the context is full: "stop" ends the text, "slide" drops the older half and continues.
        do_sample: Choose tokens at random, by their probabilities.
        num_beams: How many of the best continuations are followed at once.
        num_beam_groups: How many groups the beams are split into, which differ from each other.
        diversity_penalty: What a token loses for each earlier group that has just chosen it.
        penalty_alpha: Contrastive search: how much novelty weighs against probability.
        force_words_ids: Words that must occur, as token ids; of a list of words, one.
        num_return_sequences: How many sequences are returned for each prompt.
        length_penalty: The score of a beam is divided by its length to this power; above 0 favours long sequences.
        length_penalty_counts: Whether that length includes the prompt: "all", or "new".
        use_cache: Keep keys and values of earlier tokens; without, every step reads the full sequence again.
        temperature: Logits are divided by this; below 1, likely tokens become likelier.
        top_k: Only this many of the likeliest tokens are sampled; 0: all.
        top_p: Only the smallest set of likeliest tokens with this total probability is sampled.
        min_p: Only tokens whose probability is at least this share of the highest one are sampled.
        typical_p: Only the tokens nearest to the expected surprise, up to this total probability, are sampled.
        epsilon_cutoff: Only tokens with at least this probability are sampled.
        eta_cutoff: Like epsilon_cutoff, with a lower limit where the entropy is high.
        repetition_penalty: Above 1, tokens that already occur become less likely by this factor.
        no_repeat_ngram_size: No run of this many tokens occurs twice; 0: no limit.
        bad_words_ids: Words that must not occur, as token ids.
        suppress_tokens: Token ids that do not occur.
        begin_suppress_tokens: Token ids that are not the first new one.
        forced_bos_token_id: The first new token.
        forced_decoder_ids: Tokens that a target begins with, each as [place, token], places counted from 1.
        forced_eos_token_id: The last token of a sequence of maximum length.
        return_timestamps: Times stand around what a model of speech writes, in pairs that never go back.
        no_timestamps_token_id: The token that says that there are no times; those of times follow it.
        max_initial_timestamp_index: The latest first time, in steps.
        renormalize_logits: Normalise the probabilities of the remaining tokens again.
        bos_token_id: The token that an empty prompt begins with.
        eos_token_id: The token, or the tokens, that end a sequence.
        pad_token_id: The token that shorter sequences are padded with.
        decoder_start_token_id: The token that a target begins with.
        return_dict_in_generate: Return an object that holds more than the sequences.
        output_scores: With it: include the scores that tokens were chosen by.
    """

    FILE: ClassVar[str] = GENERATION_CONFIG_FILE
    if_missing: ClassVar[str] = (
        "; the generation settings of its config.json are read by GenerationConfig.from_model_config"
    )

    # Length
    max_length: int | None = integer(None, optional=True)
    max_new_tokens: int | None = integer(None, optional=True)
    min_length: int = integer(0, low=0)
    min_new_tokens: int | None = integer(None, low=0, optional=True)
    early_stopping: bool | str = checked(False, check_early_stopping)
    stop_strings: list[str] | None = checked(None, check_strings)
    on_full_context: str = choice("stop", ("stop", "slide"))

    # Strategy
    do_sample: bool = boolean(False)
    num_beams: int = integer(1)
    num_beam_groups: int = integer(1)
    diversity_penalty: float = finite_number(0.0, "a number from 0", lambda x: x >= 0)
    penalty_alpha: float | None = finite_number(
        None, "a number from 0 to 1", lambda x: 0 <= x <= 1
    )  # contrastive search
    force_words_ids: list | None = checked(None, check_forced_words)
    num_return_sequences: int = integer(1)
    length_penalty: float = finite_number(1.0, "a number", lambda x: True)
    length_penalty_counts: str = choice("all", ("all", "new"))
    use_cache: bool = boolean(True)

    # Sampling
    temperature: float = finite_number(1.0, "above 0 (for greedy search pass do_sample=False)", lambda x: x > 0)
    top_k: int = integer(50, low=0)
    top_p: float = finite_number(1.0, "above 0 and at most 1", lambda x: 0 < x <= 1)
    min_p: float | None = finite_number(None, "a number from 0 to 1", lambda x: 0 <= x <= 1)
    typical_p: float = finite_number(1.0, "above 0 and at most 1", lambda x: 0 < x <= 1)
    epsilon_cutoff: float = finite_number(0.0, "at least 0 and below 1", lambda x: 0 <= x < 1)
    eta_cutoff: float = finite_number(0.0, "at least 0 and below 1", lambda x: 0 <= x < 1)

    # Required, penalised and forbidden tokens
    repetition_penalty: float = finite_number(1.0, "above 0", lambda x: x > 0)
    no_repeat_ngram_size: int = integer(0, low=0)
    bad_words_ids: list[list[int]] | None = checked(None, check_words)
    suppress_tokens: list[int] | None = checked(None, check_token_ids)
    begin_suppress_tokens: list[int] | None = checked(None, check_token_ids)
    forced_bos_token_id: int | None = integer(None, low=0, optional=True)
    forced_eos_token_id: int | list[int] | None = checked(None, check_token_id_or_list)
    renormalize_logits: bool = boolean(False)

    # Speech
    forced_decoder_ids: list[list[int | None]] | None = checked(None, check_forced_tokens)
    return_timestamps: bool = boolean(False)
    no_timestamps_token_id: int | None = integer(None, low=0, optional=True)
    max_initial_timestamp_index: int | None = integer(None, low=0, optional=True)

    # Tokens
    bos_token_id: int | None = integer(None, low=0, optional=True)
    eos_token_id: int | list[int] | None = checked(None, check_token_id_or_list)
    pad_token_id: int | None = integer(None, low=0, optional=True)
    decoder_start_token_id: int | None = integer(None, low=0, optional=True)

    # Result
    return_dict_in_generate: bool = boolean(False)
    output_scores: bool = boolean(False)

    def __init__(self, **fields: Any) -> None:
        self.__dict__["extra"] = {}  # keys of a file that are not read
        self.__dict__["files"] = {}  # field -> the file that its value came from
        self.update(fields)

    @property
    def given(self) -> dict[str, Any]:
        """The fields that were given a value; all others have their default."""
        return {name: self.__dict__[name] for name in self.field_names() if name in self.__dict__}

    def update(self, fields: Mapping[str, Any] = {}, /, **more: Any) -> None:
        """Set several fields; a name that is no field raises and suggests."""
        fields = {**fields, **more}
        for name in fields:
            if name not in self.__dataclass_fields__ and name not in UNSUPPORTED:
                raise ArgumentError(f"{type(self).__name__} has no field {name!r}{nearest(name, self.field_names())}")
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in UNSUPPORTED:
            refuse_unsupported(name, value)
            self.extra[name] = value
            return
        spec = self.__dataclass_fields__.get(name)
        if spec is None:
            raise ConfigError(f"{type(self).__name__} has no field {name!r}{nearest(name, self.field_names())}")
        if value is None:
            self.__dict__.pop(name, None)
        else:
            self.__dict__[name] = spec.metadata["check"](name, value)
        self.files.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        extra = self.__dict__.get("extra", {})
        if name in extra:
            return extra[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}{nearest(name, self.field_names())}")

    # -- reading -----------------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **fields: Any) -> GenerationConfig:
        """Make settings from the keys of a generation_config.json; `fields` override them.

        Unknown keys are kept and written back; those that would change the text are reported.
        """
        config = cls()
        for name, value in values.items():
            if name not in cls.__dataclass_fields__:
                config.extra[name] = value
            elif name not in TOKENS or value != -1:  # some files write -1 for a missing token
                setattr(config, name, value)
        warn_of_ignored_settings(config.extra)
        for name in config.extra:
            close = difflib.get_close_matches(name, cls.field_names(), n=1, cutoff=0.93)
            if close and name not in UNSUPPORTED:
                warn_once(f"{name!r} is not a generation setting and is ignored, did you mean {close[0]!r}?")
        config.update(fields)
        return config

    def record_file(self, file: str) -> None:
        """Remember where the given fields came from."""
        self.files.update(dict.fromkeys(self.given, file))

    def record_source(self, name_or_path: str | Path) -> None:
        self.record_file(GENERATION_CONFIG_FILE)

    @classmethod
    def from_model_config(cls, config: PretrainedConfig | Mapping[str, Any]) -> GenerationConfig:
        """The tokens in a config.json, and the generation settings that old libraries kept there."""
        values = config.to_dict() if isinstance(config, PretrainedConfig) else dict(config)
        inner = next((values[part] for part in INNER_CONFIGS if isinstance(values.get(part), Mapping)), {})
        settings = cls()
        for source in (values, inner):  # the outer config takes precedence
            for spec in dataclasses.fields(cls):
                value = source.get(spec.name)
                if spec.name == "decoder_start_token_id" and isinstance(value, list):
                    value = value[0] if value else None  # one published file names the language and the task too
                is_set = value not in (None, spec.default, OLD_DEFAULTS.get(spec.name))
                is_present = spec.name not in TOKENS or value != -1
                if is_set and is_present and spec.name not in settings.given:
                    setattr(settings, spec.name, value)
        if values.get("force_bos_token_to_be_generated"):
            settings.forced_bos_token_id = settings.bos_token_id
        settings.record_file("model.config")
        own_fields = PretrainedConfig.__dataclass_fields__
        warn_of_ignored_settings({name: value for name, value in values.items() if name not in own_fields})
        return settings

    # -- writing -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Every field, and the keys of its file that are not read."""
        values = {name: getattr(self, name) for name in self.field_names()}
        return json.loads(json.dumps({**self.extra, **values}))

    def to_diff_dict(self) -> dict[str, Any]:
        """What a generation_config.json holds: the fields that were given."""
        values = {**self.extra, **self.given}
        values.pop("_from_model_config", None)  # it makes other libraries read config.json instead
        return dict(sorted(values.items()))

    def to_json_string(self) -> str:
        return json.dumps(self.to_diff_dict(), indent=2, ensure_ascii=False) + "\n"

    def save_pretrained(self, folder: str | Path) -> None:
        """Write generation_config.json into `folder`."""
        make_folder(folder)
        write_atomically(Path(folder) / GENERATION_CONFIG_FILE, self.to_json_string())

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"

    def __eq__(self, other: object) -> bool:
        def comparable(config: GenerationConfig) -> dict[str, Any]:
            return {name: value for name, value in config.to_dict().items() if name not in METADATA}

        return type(other) is type(self) and comparable(self) == comparable(other)

    __hash__ = None  # type: ignore[assignment]


def task_settings(config: PretrainedConfig, task: str) -> GenerationConfig | None:
    """The settings in a config.json for one task, such as "text-generation"; None if there are none.

    Pass them as `generation_config`: they override the model's own settings, and a call overrides them.
    """
    values = (config.task_specific_params or {}).get(task)
    if not values:
        return None
    if not isinstance(values, Mapping):
        raise ConfigError(f"task_specific_params[{task!r}] must map settings to values, got {values!r:.60}")
    settings = GenerationConfig.from_dict(values)
    settings.record_file(f"task_specific_params[{task!r}]")
    return settings
