"""A recipe: all that a training run depends on, in one TOML file, every name of it checked.

task = "text-classification"
model = "./bert-base-chinese/"  # or "new:bert": an untrained one, whose shape [config] tells

[data]
train = "train.tsv"
eval = "dev.tsv"
columns = { text = "sentence", label = "label" }

[options]              # of the task
truncation = true

[config]               # fields of the model's config
hidden_dropout_prob = 0.2

[lora]                 # LoraConfig; without this section all weights learn
r = 8
target_modules = ["query", "value"]

[distill]              # DistillSettings; without this section only the rows teach
teacher = "./bert-large-chinese-reviews/"

[vocabulary]           # with tokenizer = "new:wordpiece" (bpe, characters, words): how it is made from the rows
vocab_size = 8000

[train]                # TrainSettings
output_dir = "run"
learning_rate = 3e-5
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..checkpoints.files import reason_of
from ..errors import ConfigError, InputError, nearest
from ..text.options import between, one_of, whole
from .settings import TrainSettings, at_least

if TYPE_CHECKING:
    from ..models.lora import LoraConfig
    from .distill import DistillSettings

NEW = "new:"
NEW_TOKENIZERS = ("new:wordpiece", "new:bpe", "new:characters", "new:words")
USUAL_TOKENIZERS = {"new:bert": "new:wordpiece", "new:distilbert": "new:wordpiece", "new:gpt2": "new:bpe"}


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Which rows are read."""

    train: str | dict[str, str]  # a file, a folder, a pattern, hf://datasets/OWNER/NAME/PATH; or {column: file}, ...
    eval: str | dict[str, str] | None = None  # ... for texts that stand in several files, line beside line
    eval_fraction: float | None = None  # without `eval`: this share of the training rows is kept for it
    eval_tail: float | None = None  # without `eval`: this share of the rows, the last ones, is kept for it
    columns: dict[str, Any] | None = None  # name the task reads -> name or number in the file
    format: str | None = None
    header: bool | None = None
    limit: int | None = None  # so many of the training rows, drawn at random, the same ones in every run
    eval_limit: int | None = None  # the same of the evaluation rows
    streaming: bool = False  # training rows are read while training, and need not fit into the memory
    buffer: int = 10_000  # when streaming: rows that are held at once, and put in another order


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to train, on what, and how."""

    task: str
    model: str
    data: DataSettings
    train: TrainSettings
    tokenizer: str | None = None  # None: the model's own; of a new model, a new one of its usual kind
    target_tokenizer: str | None = None  # of the texts that are written; None: the same
    from_scratch: bool = False  # the shape of `model` with weights that are drawn, and not those it has
    vocabulary: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    lora: LoraConfig | None = None
    distill: DistillSettings | None = None

    def to_dict(self) -> dict[str, Any]:
        added = {name: None if value is None else vars(value) for name, value in self.added.items()}
        return {**vars(self), "data": vars(self.data), "train": self.train.to_dict(), **added}

    @property
    def added(self) -> dict[str, Any]:
        """The sections that may be absent."""
        return {"lora": self.lora, "distill": self.distill}

    def in_folder(self, folder: Path, **others: Any) -> Recipe:
        """The same run, with other settings, in another folder."""
        values = {**self.train.to_dict(), **others, "output_dir": str(folder)}
        return dataclasses.replace(self, train=TrainSettings.from_dict(values))


def read_recipe(path: Path) -> dict[str, Any]:
    """The values of a TOML file, not yet checked."""
    try:
        import tomllib as toml
    except ImportError:  # Python 3.10
        import tomli as toml  # type: ignore[no-redef]
    try:
        return toml.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"could not read {path}: {reason_of(error)}") from None
    except (toml.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from None


def parse_value(text: str) -> Any:
    """A value as a command line has it: what TOML can read, else the text itself.

    >>> parse_value("3e-5"), parse_value("true"), parse_value("[1, 2]"), parse_value("train.tsv")
    (3e-05, True, [1, 2], 'train.tsv')
    """
    try:
        import tomllib as toml
    except ImportError:
        import tomli as toml  # type: ignore[no-redef]
    if text in ("none", "None"):
        return None
    try:
        return toml.loads(f"value = {text}")["value"]
    except toml.TOMLDecodeError:
        return text


def put(values: dict[str, Any], name: str, value: Any) -> None:
    """Set one field of a recipe by its full name, such as train.learning_rate; settings of [train] alone will do.

    >>> values = {"train": {"seed": 1}}
    >>> put(values, "learning-rate", 0.1); put(values, "data.columns.text", "sentence"); values
    {'train': {'seed': 1, 'learning_rate': 0.1}, 'data': {'columns': {'text': 'sentence'}}}
    """
    *sections, last = name.split(".")
    last = last.replace("-", "_")
    if not sections and last in names_of(TrainSettings):
        sections = ["train"]
    elif not sections and last == "eval":
        sections = ["data"]
    elif not sections and last == "data":
        sections, last = ["data"], "train"
    for section in sections:
        values = values.setdefault(section.replace("-", "_"), {})
        if not isinstance(values, dict):
            raise ConfigError(f"{name} cannot be set: {section} is not a section")
    values[last] = value


def put_all(values: dict[str, Any], given: Iterable[str]) -> None:
    """Set fields written as NAME=VALUE."""
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes FIELD=VALUE, got {each!r}")
        put(values, name, parse_value(value))


def fill_in(values: dict[str, Any]) -> None:
    """Put "..." where a recipe lacks what it needs, so that it can be shown."""
    values.setdefault("model", "...")
    for section, name in (("data", "train"), ("train", "output_dir")):
        if isinstance(values.setdefault(section, {}), dict):
            values[section].setdefault(name, "...")


def names_of(kind: type) -> list[str]:
    return [spec.name for spec in dataclasses.fields(kind)]


def make_recipe(values: Mapping[str, Any], where: str = "the recipe") -> Recipe:
    """A checked recipe from the values of a file and a command line."""
    everything = [*names_of(Recipe), *(f"train.{name}" for name in names_of(TrainSettings))]
    refuse(values, names_of(Recipe), where, [*everything, *names_of(TrainSettings)])
    sections: dict[str, Any] = {}
    for name in ("data", "train", "vocabulary", "options", "config", "lora", "distill"):
        sections[name] = values.get(name, {})
        if not isinstance(sections[name], Mapping):
            raise ConfigError(f"{where}: [{name}] must be a section, got {sections[name]!r}")
    refuse(sections["data"], names_of(DataSettings), f"{where}: [data]")
    refuse(sections["train"], names_of(TrainSettings), f"{where}: [train]")
    for name, section, told in (
        ("task", values, "task, such as text-classification"),
        ("model", values, "model, a folder or a hub name"),
        ("output_dir", sections["train"], "train.output_dir, the folder to write"),
    ):
        if not isinstance(section.get(name), str):
            raise ConfigError(f"{where} needs {told}; got {section.get(name)!r}")
    for name in ("train", "eval"):
        check_source(name, sections["data"].get(name), where)
    data = DataSettings(**sections["data"])
    one_of("from_scratch", values.get("from_scratch", False), (True, False))
    if values.get("from_scratch") and "lora" in values:
        raise ConfigError(f"{where}: an adapter stands on trained weights; give from_scratch or [lora], not both")
    tokenizer = values.get("tokenizer") or USUAL_TOKENIZERS.get(values["model"])
    if is_new(values["model"]) and tokenizer is None:
        raise ConfigError(f"{where}: a new model needs a tokenizer: a folder, a name or {', '.join(NEW_TOKENIZERS)}")
    check_data(data, where)
    if sections["vocabulary"] and not is_new(tokenizer):
        raise ConfigError(f"{where}: [vocabulary] is for a new tokenizer: {', '.join(NEW_TOKENIZERS)}")
    return Recipe(
        task=values["task"],
        model=values["model"],
        tokenizer=tokenizer,
        target_tokenizer=values.get("target_tokenizer"),
        from_scratch=values.get("from_scratch", False),
        vocabulary=dict(sections["vocabulary"]),
        data=data,
        train=TrainSettings.from_dict(sections["train"], f"{where}: [train]"),
        options=dict(sections["options"]),
        config=dict(sections["config"]),
        **added_sections({name: sections[name] for name in ("lora", "distill") if name in values}, where),
    )


def check_source(name: str, value: Any, where: str) -> None:
    """Refuse what does not say where rows are."""
    parallel = isinstance(value, Mapping) and len(value) > 1 and all(isinstance(file, str) for file in value.values())
    if isinstance(value, str) or parallel or (name == "eval" and value is None):
        return
    what = "the rows to learn from" if name == "train" else "the rows to judge by"
    raise ConfigError(f"{where} needs data.{name}, {what}: a file, or a file for each column; got {value!r}")


def check_data(data: DataSettings, where: str) -> None:
    """Refuse settings of the rows that cannot be meant."""
    whole("data.limit", data.limit, 1)
    whole("data.eval_limit", data.eval_limit, 1)
    one_of("data.streaming", data.streaming, (True, False))
    at_least("data.buffer", data.buffer, 1)
    told = [name for name in ("eval", "eval_fraction", "eval_tail") if getattr(data, name) is not None]
    if len(told) > 1:
        raise ConfigError(f"{where}: give data.{told[0]} or data.{told[1]}, not both")
    if data.eval_tail is not None:
        between("data.eval_tail", data.eval_tail, 0.0, 1.0)
    other = next((name for name in ("limit", "eval_fraction", "eval_tail") if getattr(data, name) is not None), None)
    if data.streaming and other:
        raise ConfigError(f"{where}: data.{other} needs all rows at once, which data.streaming never has")


def added_sections(values: Mapping[str, Mapping[str, Any]], where: str) -> dict[str, Any]:
    """The sections that a recipe may do without, checked."""
    if not values:
        return {}
    from ..models.lora import LoraConfig
    from .distill import DistillSettings

    found = {}
    for name, section in values.items():
        kind: Any = {"lora": LoraConfig, "distill": DistillSettings}[name]
        refuse(section, names_of(kind), f"{where}: [{name}]")
        if name == "distill" and "teacher" not in section:
            raise ConfigError(f"{where} needs distill.teacher, a folder or a hub name")
        found[name] = kind(**section)
    return found


def refuse(given: Iterable[str], valid: list[str], where: str, near: list[str] | None = None) -> None:
    for name in given:
        if name not in valid:
            hint = nearest(name, near or valid) or f"; there are {', '.join(valid)}"
            raise ConfigError(f"{where} has no field {name!r}{hint}")


def as_toml(recipe: Recipe) -> str:
    """A recipe as a file, complete with all that was not said."""
    values = recipe.to_dict()
    plain = {name: value for name, value in values.items() if not isinstance(value, dict) and name not in recipe.added}
    lines = [line_of(name, value) for name, value in plain.items()]
    for section in ("data", "vocabulary", "options", "config", "lora", "distill", "train"):
        if values[section] is None:
            lines += ["", f"# [{section}] is not set"]
            continue
        lines += ["", f"[{section}]", *(line_of(name, value) for name, value in values[section].items())]
    return "\n".join(lines) + "\n"


def line_of(name: str, value: Any) -> str:
    return f"# {name} is not set" if value is None else f"{name} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items()) + " }" if value else "{}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def is_new(name: Any) -> bool:
    """Whether a model or tokenizer is to be made, and not loaded."""
    return isinstance(name, str) and name.startswith(NEW)
