"""Configurations: complete, checked when built and when a field is assigned, written as Hugging Face writes them."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..errors import ArgumentError, ConfigError, function_name, nearest
from .config_fields import (
    accepts_none,
    boolean,
    check_crf,
    check_label_ids,
    check_labels,
    check_names,
    check_of,
    check_pruned_heads,
    check_quantization,
    checked,
    choice,
    integer,
    typed,
)
from .config_file import ConfigFile
from .files import make_folder, write_atomically

CONFIG_FILE = "config.json"

# Keys that change the computation in some architecture. One that its own architecture does not know is refused
# unless it is switched off; every other unknown key is kept and written back.
COMPUTING_KEYS = frozenset(
    """attention_bias attention_type attn_layers attention_window block_size conv_kernel_size embedding_size
    head_ratio hidden_groups inner_group_num kernel_fn layerdrop layer_norm_type lsh_num_chunks_after
    n_embd n_head n_layer norm_first normalization_type num_hidden_groups num_key_value_heads
    parallel_attention pos_att_type pre_norm prenorm relative_attention
    relative_attention_num_buckets residual_scale rope_scaling rope_theta rotary rotary_emb_base rotary_pct
    rotary_value sliding_window sparse_attention talking_head use_alibi use_glu use_relative_position
    use_rms_norm""".split()
)
# Of these, the ones that change nothing if they say the same as a field.
REPEATED_FIELDS = {
    "embedding_size": "hidden_size",
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
    "num_key_value_heads": "num_attention_heads",
}
# Names that a field has in the files of other programs; it may stand there under both, with the same value.
SECOND_NAMES = {
    "layer_norm_epsilon": "layer_norm_eps",
    "_output_attentions": "output_attentions",
    "n_token": "vocab_size",
}
# Keys of early releases that resemble those of today. Nothing computes with them.
OUTDATED_KEYS = ("bos_token_ids", "eos_token_ids", "pad_token_ids")
# Fields of a built model's config that can still be assigned: each pass reads them, or no computation does. All others
# were read when the model was built.
ASSIGNABLE = frozenset(
    """output_attentions output_hidden_states return_dict use_cache id2label label2id num_labels problem_type
    pad_token_id bos_token_id eos_token_id decoder_start_token_id initializer_range architectures tokenizer_class
    task_specific_params finetuning_task torch_dtype name_or_path""".split()
)
CODE_KEYS = ("auto_map", "custom_pipelines", "trust_remote_code")


def is_switched_off(value: object) -> bool:
    return value is None or value is False or value in (0, "", "none", [], {}, ["none"])


def refuse_misspelt(key: str, known: Collection[str]) -> None:
    """Raise for an unknown key of a file that is nearly one of the known ones, and none that published files hold."""
    if key.startswith("_") or key in OUTDATED_KEYS:
        return
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.93)
    if close:
        raise ConfigError(f"config key {key!r} is not known, did you mean {close[0]!r}?")


def refuse_contradiction(key: str, value: Any, other: str, known: Any) -> None:
    """Raise if a file has two names of one field, with different values."""
    if key != other and value != known:
        raise ConfigError(f"{key} is {value!r}, but {other} is {known!r}, and both name the same setting")


class ConfigMeta(type):
    """Lets a config be made with its files' names too; a name that is no field raises, with the nearest field."""

    FILE_NAMES: Mapping[str, str]
    field_names: Callable[[], list[str]]

    def __call__(cls, *args: Any, **fields: Any) -> Any:
        ours = {}
        for given, value in fields.items():
            name = cls.FILE_NAMES.get(given, given)
            if name not in cls.field_names():
                raise ArgumentError(f"{cls.__name__} has no field {given!r}{nearest(given, cls.field_names())}")
            if name in ours:
                raise ArgumentError(f"{cls.__name__} got {name!r} twice, also under a name of its files")
            ours[name] = value
        return super().__call__(*args, **ours)


def as_json(value: Any) -> Any:
    """What stands for a value that JSON does not know: a part of a composite, or a function."""
    return function_name(value) if callable(value) else value.to_dict()


def renumbered(labels: Any) -> dict[int, str] | None:
    """The labels of a file in their order, numbered from 0 on; None if they are, or are no table of labels.

    >>> renumbered({"1": "good", "2": "bad"})
    {0: 'good', 1: 'bad'}
    """
    try:
        numbers = sorted((int(number), str(label)) for number, label in labels.items())
    except (AttributeError, TypeError, ValueError):
        return None
    if [number for number, _ in numbers] == list(range(len(numbers))):
        return None
    return {number: label for number, (_, label) in enumerate(numbers)}


def labels_by_number(label2id: Mapping[str, int]) -> dict[int, str]:
    """The id2label of a label2id that names every label once; empty for any other.

    >>> labels_by_number({"good": 1, "bad": 0})
    {0: 'bad', 1: 'good'}
    """
    names = {number: label for label, number in sorted(label2id.items(), key=lambda each: each[1])}
    return names if list(names) == list(range(len(label2id))) else {}


@dataclass(repr=False, eq=False, kw_only=True)
class PretrainedConfig(ConfigFile, metaclass=ConfigMeta):
    """The fields that every architecture has."""

    FILE: ClassVar[str] = CONFIG_FILE
    model_type: ClassVar[str] = ""
    FILE_NAMES: ClassVar[Mapping[str, str]] = {}  # names used in this architecture's files -> ours
    SHAPING: ClassVar[Collection[str]] = ()  # fields that others read in each pass, and this architecture when built

    output_attentions: bool = boolean(False)
    output_hidden_states: bool = boolean(False)
    return_dict: bool = boolean(True)
    num_labels: int = integer(2, high=100_000)
    id2label: dict[int, str] = checked(None, check_labels)  # never None once the config is made, nor is label2id
    label2id: dict[str, int] = checked(None, check_label_ids)
    problem_type: str | None = choice(
        None, (None, "regression", "single_label_classification", "multi_label_classification")
    )
    crf: str | None = checked(None, check_crf)  # of a token classifier: "constrained" by the scheme of its tags, or not
    pruned_heads: dict[int, list[int]] = field(default_factory=dict, metadata={"check": check_pruned_heads})
    pruned_cross_heads: dict[int, list[int]] = field(default_factory=dict, metadata={"check": check_pruned_heads})
    tie_word_embeddings: bool = boolean(True)
    is_decoder: bool = boolean(False)
    is_encoder_decoder: bool = boolean(False)
    add_cross_attention: bool = boolean(False)
    chunk_size_feed_forward: int = integer(0, low=0)
    gradient_checkpointing: bool = boolean(False)  # in training, from the start: see `gradient_checkpointing_enable`
    pad_token_id: int | None = integer(None, low=0, optional=True)
    bos_token_id: int | None = integer(None, low=0, optional=True)
    eos_token_id: int | list[int] | None = typed(None, (int, list))
    architectures: list[str] | None = checked(None, check_names)
    tokenizer_class: str | None = typed(None, str)
    task_specific_params: dict | None = typed(None, dict)
    finetuning_task: str | None = typed(None, str)
    torch_dtype: str | None = typed(None, str)
    quantization_config: dict | None = checked(None, check_quantization)
    name_or_path: str = typed("", str)

    extra: ClassVar[dict[str, Any]]
    stated: ClassVar[frozenset[str]]

    def __post_init__(self) -> None:
        self.__dict__["extra"] = {}  # keys of the file that nothing here reads
        self.__dict__["stated"] = frozenset()  # fields that the file has, which are written again
        if self.id2label is None:
            self._name_labels(self.label2id)
        elif self.num_labels == type(self).num_labels:
            self.num_labels = max(1, len(self.id2label))
        elif self.num_labels != len(self.id2label):
            raise ConfigError(f"num_labels is {self.num_labels}, but id2label names {len(self.id2label)} labels")
        if self.label2id is None:
            self._number_labels()
        self.validate()

    def validate(self) -> None:
        """Check constraints between fields: when the config is built, and when a model is built from it."""

    def __setattr__(self, name: str, value: Any) -> None:
        name = self.FILE_NAMES.get(name, name)
        if name not in (known := self.field_names()):
            raise ConfigError(f"{type(self).__name__} has no field {name!r}{nearest(name, known)}")
        value = check_of(type(self).__dataclass_fields__[name])(name, value)
        if self.is_built:
            self._refuse_change(name, value)
        super().__setattr__(name, value)
        if "extra" not in self.__dict__:  # still being initialised
            return
        if (name == "num_labels" and value != len(self.id2label)) or (name == "id2label" and value is None):
            self._name_labels()
        elif name == "id2label":
            self.__dict__["num_labels"] = max(1, len(self.id2label))
            self._number_labels()
        elif name == "label2id" and value is None:
            self._number_labels()
        elif name == "label2id" and self._has_plain_labels() and labels_by_number(value):
            self._name_labels(value)

    # -- of a built model ------------------------------------------------------------------------------------------

    @property
    def is_built(self) -> bool:
        """Whether this is the config of a model, which has read it."""
        return "_is_built" in self.__dict__

    def mark_as_built(self) -> None:
        """From now on, fields that shaped the model cannot be assigned. A copy of the config is free again."""
        self.__dict__["_is_built"] = True

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_is_built"}

    def record_change(self, **fields: Any) -> None:
        """Set fields of a built model's config after the model itself has changed."""
        was_built = self.__dict__.pop("_is_built", False)
        for name, value in fields.items():
            setattr(self, name, value)
        if was_built:
            self.mark_as_built()

    def _refuse_change(self, name: str, value: Any) -> None:
        """Raise if a model was built with another value of a field."""
        labels = len(value) if name == "id2label" and value is not None else value if name == "num_labels" else None
        if labels not in (None, self.num_labels):
            name, value = "num_labels", labels
        elif (name in ASSIGNABLE and name not in self.SHAPING) or value == self.__dict__.get(name):
            return
        elif "check" not in type(self).__dataclass_fields__[name].metadata:
            return  # a field of a class that was written elsewhere
        raise ConfigError(
            f"{name} cannot become {value!r}: the model was built with {self.__dict__[name]!r}; set it before, "
            f"from_pretrained(folder, {name}=...), or in a copy of the config, for a new model"
        )

    def __getattr__(self, name: str) -> Any:
        ours = type(self).FILE_NAMES.get(name)
        if ours is not None:
            return getattr(self, ours)
        extra = self.__dict__.get("extra", {})
        if name in extra:
            return extra[name]
        raise AttributeError(f"{type(self).__name__} has no field {name!r}{nearest(name, self.field_names())}")

    def _name_labels(self, label2id: Mapping[str, int] | None = None) -> None:
        """Set id2label from label2id if it names every label once, else to plain names."""
        names = labels_by_number(label2id or {})
        if names:
            self.__dict__["num_labels"] = len(names)
        self.__dict__["id2label"] = names or {i: f"LABEL_{i}" for i in range(self.num_labels)}
        self._number_labels()

    def _has_plain_labels(self) -> bool:
        return self.id2label == {i: f"LABEL_{i}" for i in range(self.num_labels)}

    def _number_labels(self) -> None:
        self.__dict__["label2id"] = {label: i for i, label in self.id2label.items()}

    @property
    def use_return_dict(self) -> bool:
        return self.return_dict

    # -- reading -----------------------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], **fields: Any) -> PretrainedConfig:
        """Make a configuration from the keys of a config.json; `fields` win over them."""
        values = dict(values)
        if isinstance(values.get("model_type"), str) and cls.model_type and values["model_type"] != cls.model_type:
            raise ConfigError(f"model_type is {values['model_type']!r}, but {cls.__name__} reads {cls.model_type!r}")
        for key in CODE_KEYS:
            if not is_switched_off(values.get(key)):
                raise ConfigError(f"{key} would run code that came with the checkpoint; that is never done")
        known = {spec.name: spec for spec in dataclasses.fields(cls)}
        values.pop("model_type", None)
        values["name_or_path"] = values.pop("_name_or_path", values.get("name_or_path")) or ""
        values["torch_dtype"] = values.pop("dtype", None) or values.get("torch_dtype")
        ours: dict[str, Any] = {}
        extra: dict[str, Any] = {}  # keys that are no fields
        names: dict[str, str] = {}  # our names -> those in the file
        for key, value in values.items():
            name = cls.FILE_NAMES.get(key, key)
            if name not in known:
                refuse_misspelt(key, known)
                extra[key] = value
            elif value is None and not accepts_none(known[name]):
                continue  # a null stands for the default
            else:
                refuse_contradiction(key, value, names.setdefault(name, key), ours.get(name, value))
                ours[name] = value
        for key, name in SECOND_NAMES.items():
            value = extra.get(key)
            if value is not None and name in known:
                refuse_contradiction(key, value, names.get(name, key), ours.get(name, value))
                ours[name] = value
        numbered = renumbered(ours.get("id2label"))
        if numbered is not None:
            extra["id2label_in_file"], ours["id2label"] = ours["id2label"], numbered
            ours.pop("label2id", None)
        labels = ours.get("id2label")
        if isinstance(labels, Mapping) and labels and "num_labels" in ours and len(labels) != ours["num_labels"]:
            extra["num_labels_in_file"] = ours.pop("num_labels")  # resolved by the weights' own shapes
        config = cls(**ours)
        config.extra.update(extra)
        config.__dict__["stated"] = frozenset(name for name, value in ours.items() if value is not None)
        for key, value in extra.items():
            if key in COMPUTING_KEYS and not is_switched_off(value) and not config._repeats_field(key, value):
                raise ConfigError(f"{key} = {value!r} changes the computation in a way {cls.__name__} does not know")
        config.update(fields)
        return config

    def record_source(self, name_or_path: str | Path) -> None:
        self.name_or_path = str(name_or_path)

    def update(self, fields: Mapping[str, Any]) -> None:
        """Set several fields; a name that is no field raises and suggests."""
        for name in fields:
            if self.FILE_NAMES.get(name, name) not in self.field_names():
                raise ArgumentError(f"{type(self).__name__} has no field {name!r}{nearest(name, self.field_names())}")
        for name in ("id2label", "label2id"):
            named = len(fields.get(name) or ())
            if named and fields.get("num_labels", named) != named:
                raise ConfigError(f"num_labels is {fields['num_labels']}, but {name} names {named} labels")
        for name, value in fields.items():
            setattr(self, name, value)

    def _repeats_field(self, key: str, value: Any) -> bool:
        """Whether an unknown key says what a field says."""
        field = REPEATED_FIELDS.get(key) or SECOND_NAMES.get(key)
        return field in self.field_names() and getattr(self, field) == value

    def _is_outdated(self, key: str, value: Any) -> bool:
        """Whether an unknown key said what a field said that has another value since."""
        field = REPEATED_FIELDS.get(key) or SECOND_NAMES.get(key)
        is_known = field in self.field_names() and not is_switched_off(value)
        return is_known and not self._repeats_field(key, value)

    # -- writing -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Every field, under the names this architecture's files use."""
        file_names = {ours: theirs for theirs, ours in reversed(list(self.FILE_NAMES.items()))}
        values = {file_names.get(name, name): self.__dict__[name] for name in self.field_names()}
        extra = {key: value for key, value in self.extra.items() if not self._is_outdated(key, value)}
        values = {**extra, **values, "model_type": self.model_type}
        values["_name_or_path"] = values.pop("name_or_path")
        return json.loads(json.dumps(values, default=as_json))

    def shaping_fields(self) -> dict[str, Any]:
        """The labels, and the fields that a built model never reads again, as JSON values."""
        assignable = ASSIGNABLE - {"id2label"}
        values = {name: self.__dict__[name] for name in self.field_names() if name not in assignable}
        return json.loads(json.dumps(values, default=as_json))

    def to_diff_dict(self) -> dict[str, Any]:
        """What a config.json holds: the architecture's own fields, and common ones that a file had or that differ from
        their default."""
        common = {spec.name: spec for spec in dataclasses.fields(PretrainedConfig)}
        values = self.to_dict()
        for name, spec in common.items():
            is_own = type(self).__dataclass_fields__[name] is not spec  # of the architecture, perhaps with its default
            if name in values and not is_own and name not in self.stated and values[name] in (spec.default, {}):
                del values[name]
        if self._has_plain_labels() and self.num_labels == PretrainedConfig.num_labels:
            values.pop("id2label", None), values.pop("label2id", None)
        values.pop("num_labels", None)  # id2label implies it
        values.pop("num_labels_in_file", None), values.pop("id2label_in_file", None)
        if not values["_name_or_path"]:
            del values["_name_or_path"]
        return dict(sorted(values.items()))

    def to_json_string(self) -> str:
        return json.dumps(self.to_diff_dict(), indent=2, ensure_ascii=False) + "\n"

    def refuse_functions(self) -> None:
        """Raise if a field holds a function, which no file can."""
        for name in self.field_names():
            if callable(self.__dict__[name]):
                function = function_name(self.__dict__[name])
                raise ConfigError(
                    f"{name} is the function {function}, which config.json cannot hold: only a model whose {name} has "
                    "a name, such as gelu, can be saved"
                )

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json into `folder`."""
        self.refuse_functions()
        make_folder(folder)
        values = self.to_diff_dict()
        values.pop("_name_or_path", None)  # a path of this machine means nothing on another
        text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        # Half of a character, which a label may hold, is written as JSON's own escape of it.
        write_atomically(Path(folder) / CONFIG_FILE, text.encode("utf-8", "backslashreplace"))

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and {**self.to_dict(), "_name_or_path": ""} == {
            **other.to_dict(),
            "_name_or_path": "",
        }

    __hash__ = None  # type: ignore[assignment]


def resolve_config(
    kind: type[PretrainedConfig],
    given: PretrainedConfig | str | Path | None,
    folder: Path,
    hub: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> PretrainedConfig:
    """The configuration that a model is loaded with: the one given, the one it names, or that of the model's folder."""
    if isinstance(given, PretrainedConfig):
        config = copy.deepcopy(given)
        config.update(fields)
        return config
    if given is None:
        return kind.from_pretrained(folder, **fields)  # of the same commit as the weights
    return kind.from_pretrained(given, **hub, **fields)
