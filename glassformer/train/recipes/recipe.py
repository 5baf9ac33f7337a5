"""A recipe: all that a training run depends on, in one TOML file in which every name is checked.

task = "text-classification"
model = "./bert-base-chinese/"  # or "new:bert": an untrained one, whose shape is in [config]

[data]
train = "train.tsv"
eval = "dev.tsv"
columns = { text = "sentence", label = "label" }

[options]              # of the task
truncation = true

[config]               # fields of the model's config
hidden_dropout_prob = 0.2

[lora]                 # LoraConfig; without this section all weights are trained
r = 8
target_modules = ["query", "value"]

[distill]              # DistillSettings; without this section only the labels are targets
teacher = "./bert-large-chinese-reviews/"

[vocabulary]           # with tokenizer = "new:wordpiece" (bpe, characters, words): how it is made from the rows
vocab_size = 8000

[train]                # TrainSettings
output_dir = "run"
learning_rate = 3e-5
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, meant_by
from ...registry import ARCHITECTURES, architecture_for
from ...tasks.task_options import check_at_least
from ...tasks.task_registry import full_name, reads_pictures, reads_sound, task_class
from ...text.base.encoding_options import check_choice, check_range, check_whole_number
from ..train_settings import TrainSettings
from .recipe_text import NONE, read_option, with_read_none, with_written_none

if TYPE_CHECKING:
    from ...models.lora import LoraConfig
    from ..distill import DistillSettings

NEW = "new:"
SIZES = ("tiny", "mini", "small", "base")  # see model_sizes.py
NEW_TOKENIZERS = ("new:wordpiece", "new:bpe", "new:unigram", "new:characters", "new:words")
NEW_TOKENIZER_OF = {
    "BertTokenizer": "new:wordpiece",
    "DistilBertTokenizer": "new:wordpiece",
    "GPT2Tokenizer": "new:bpe",
    "T5Tokenizer": "new:unigram",
}
USUAL_TOKENIZERS = {  # of new models: the kind that their published checkpoints have
    NEW + each.model_type: NEW_TOKENIZER_OF[each.tokenizer]
    for each in ARCHITECTURES.values()
    if each.tokenizer in NEW_TOKENIZER_OF
}


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The rows for training and evaluation.

    Attributes:
        train: The training rows: a file (txt, csv, tsv, jsonl, json, conll, parquet), a folder of files, a folder
            per class, a pattern, hf://datasets/OWNER/NAME/PATH, or parallel files with a line per row, { source =
            "a.de", target = "a.en" }.
        eval: The evaluation rows, in the same forms.
        eval_fraction: Without eval: the random share of the training rows that is used for evaluation instead.
        eval_tail: Without eval: the last share of the training rows is used for evaluation instead.
        columns: Which of the file's columns are read as what: the task's name -> a name or a number from 0, { text
            = "review", label = 0 }. If not given, columns are found by their names.
        format: The format, if it does not follow from the file's suffix.
        header: Whether the first line of a csv or tsv file names its columns; None: it is detected.
        delimiter: The separator of the columns of a csv or tsv file, if it is neither a comma nor a tab.
        quotes: Whether fields of a csv or tsv file may be quoted; None: those of csv may.
        encoding: What the files are written in, such as gbk, big5 or utf-16; None: UTF-8.
        on_bad: What to do with a row that cannot be read: "raise" stops with its file and line, "skip" leaves it
            out and reports how many.
        limit: Use a random sample of this many training rows, the same in every run.
        eval_limit: The same for the evaluation rows.
        streaming: Read training rows while training, so that they need not fit into memory.
        buffer: When streaming: how many rows are in memory at once, and shuffled together.
    """

    train: str | dict[str, str]
    eval: str | dict[str, str] | None = None
    eval_fraction: float | None = None
    eval_tail: float | None = None
    columns: dict[str, Any] | None = None
    format: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    quotes: bool | None = None
    encoding: str | None = None
    on_bad: str = "raise"
    limit: int | None = None
    eval_limit: int | None = None
    streaming: bool = False
    buffer: int = 10_000

    @property
    def has_eval_rows(self) -> bool:
        """Whether there are rows for evaluation."""
        return not (self.eval is None and self.eval_fraction is None and self.eval_tail is None)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The task, model, rows and settings of a training run.

    Attributes:
        task: The task, such as text-classification; docs/tasks.md lists all.
        model: A folder or a hub name; or "new:bert", "new:gpt2", "new:transformer", ...: an untrained model.
        data: The rows for training and evaluation.
        train: The settings of training.
        tokenizer: A folder or a hub name; or "new:wordpiece", "new:bpe", "new:characters", "new:words": one that is
            made from the rows. None: the model's own; of a new model, a new one of its usual kind.
        target_tokenizer: The same for generated texts, if they need another one.
        size: The size of a new model: "tiny", "mini", "small" or "base"; None: the one that fits the data.
        from_scratch: Take only the shape of the model, and initialise its weights anew.
        vocabulary: How a new tokenizer is made.
        options: The options of the task.
        config: Fields of the model's config, such as hidden_dropout_prob; those of a new model's shape too.
        lora: An adapter; without this section all weights are trained.
        distill: A teacher; without this section only the rows are targets.
    """

    task: str
    model: str
    data: DataSettings
    train: TrainSettings
    tokenizer: str | None = None
    target_tokenizer: str | None = None
    size: str | None = None
    from_scratch: bool = False
    vocabulary: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    lora: LoraConfig | None = None
    distill: DistillSettings | None = None

    def to_dict(self) -> dict[str, Any]:
        """The values of the recipe's file."""
        sections = {name: None if value is None else vars(value) for name, value in self.optional_sections.items()}
        sections["data"] = with_written_none(vars(self.data), DataSettings)
        sections["train"] = with_written_none(self.train.to_dict(), TrainSettings)
        if None in self.options.values():
            sections["options"] = with_written_none(self.options, task_class(self.task).Options)
        return {**vars(self), **sections}

    @property
    def optional_sections(self) -> dict[str, Any]:
        """The sections that may be absent."""
        return {"lora": self.lora, "distill": self.distill}

    def in_folder(self, folder: Path, **others: Any) -> Recipe:
        """The same run, with other settings, in another folder."""
        values = {**self.train.to_dict(), **others, "output_dir": str(folder)}
        return dataclasses.replace(self, train=TrainSettings.from_dict(values))


def names_of(kind: type) -> list[str]:
    return [spec.name for spec in dataclasses.fields(kind)]


# The section of a field that is given by its name alone.
SECTION_OF = dict.fromkeys(names_of(DataSettings), "data") | dict.fromkeys(names_of(TrainSettings), "train")


def make_recipe(values: Mapping[str, Any], where: str = "the recipe") -> Recipe:
    """A checked recipe from the values of a file and a command line."""
    refuse(values, Recipe, where)
    sections: dict[str, Any] = {}
    for name in ("data", "train", "vocabulary", "options", "config", "lora", "distill"):
        sections[name] = values.get(name, {})
        if not isinstance(sections[name], Mapping):
            raise ConfigError(f"{where}: [{name}] must be a section, got {sections[name]!r}")
    refuse(sections["data"], DataSettings, f"{where}: [data]")
    refuse(sections["train"], TrainSettings, f"{where}: [train]")
    full_name(require_text("task", values.get("task"), "such as text-classification", where))
    model = require_text("model", values.get("model"), "a folder or a hub name", where)
    require_text("train.output_dir", sections["train"].get("output_dir"), "the folder to write", where)
    for name in ("train", "eval"):
        check_source(name, sections["data"].get(name), where)
    check_choice("size", values.get("size"), (None, *SIZES))
    if values.get("size") is not None and not is_new(model):
        raise ConfigError(f"{where}: size is for a new model such as new:bert, and {model} has its own")
    check_choice("from_scratch", values.get("from_scratch", False), (True, False))
    if (values.get("from_scratch") or is_new(model)) and "lora" in values:
        option = model if is_new(model) else "from_scratch"
        raise ConfigError(f"{where}: an adapter needs trained weights; give {option} or [lora], not both")
    for name in ("tokenizer", "target_tokenizer"):
        if not isinstance(values.get(name), str | None):
            raise ConfigError(f"{where}: {name} must be a folder or a hub name, got {values[name]!r}")
    others = "pictures" if reads_pictures(values["task"]) else "sound" if reads_sound(values["task"]) else ""
    if others and (values.get("tokenizer") or values.get("target_tokenizer")):
        raise ConfigError(f"{where}: {values['task']} reads {others}, and has no tokenizer")
    tokenizer = None if others else values.get("tokenizer") or usual_tokenizer(model, values["task"])
    if is_new(model) and tokenizer is None and not others:
        near = difflib.get_close_matches(model, USUAL_TOKENIZERS, n=1, cutoff=0.8)
        hint = f"; did you mean {near[0]}?" if near else ""
        kinds = ", ".join(NEW_TOKENIZERS)
        raise ConfigError(f"{where}: {model} needs a tokenizer: a folder, a name or {kinds}{hint}")
    if is_new(tokenizer) and not is_new(model) and not values.get("from_scratch"):
        raise ConfigError(f"{where}: {tokenizer} gives tokens other ids than {model} has: give from_scratch too")
    if sections["vocabulary"] and not is_new(tokenizer):
        raise ConfigError(f"{where}: [vocabulary] is for a new tokenizer: {', '.join(NEW_TOKENIZERS)}")
    data = DataSettings(**with_read_none(sections["data"], DataSettings))
    options = sections["options"]
    if NONE in options.values():
        options = {name: read_option(task_class(values["task"]), name, value) for name, value in options.items()}
    check_data(data, where)
    return Recipe(
        task=values["task"],
        model=model,
        tokenizer=tokenizer,
        target_tokenizer=values.get("target_tokenizer"),
        size=values.get("size"),
        from_scratch=values.get("from_scratch", False),
        vocabulary=dict(sections["vocabulary"]),
        data=data,
        train=TrainSettings.from_dict(with_read_none(sections["train"], TrainSettings), f"{where}: [train]"),
        options=dict(options),
        config=dict(sections["config"]),
        **make_optional_sections({name: sections[name] for name in ("lora", "distill") if name in values}, where),
    )


def usual_tokenizer(model: str, task: str) -> str | None:
    """The kind of tokenizer that a new model of this name gets for a task if none is given."""
    if not is_new(model) or model in USUAL_TOKENIZERS:
        return USUAL_TOKENIZERS.get(model)
    return USUAL_TOKENIZERS.get(NEW + architecture_for(model.removeprefix(NEW), task_class(task).head))


def refuse(given: Iterable[str], kind: type, where: str) -> None:
    """Raise for a name that is not a field, with its section or the nearest valid name."""
    valid = names_of(kind)
    for name in given:
        if name in valid:
            continue
        if kind is Recipe and name in SECTION_OF:
            raise ConfigError(f"{where} has no field {name!r}: it is {SECTION_OF[name]}.{name}")
        hint = meant_by(name, [*valid, *SECTION_OF] if kind is Recipe else valid) or f"; there are {', '.join(valid)}"
        raise ConfigError(f"{where} has no field {name!r}{hint}")


def require_text(name: str, value: Any, what: str, where: str) -> str:
    """The value of a required text field."""
    if not isinstance(value, str):
        raise ConfigError(f"{where} needs {name}, {what}" + ("" if value is None else f"; got {value!r}"))
    return value


def check_source(name: str, value: Any, where: str) -> None:
    """Raise unless a value is a source of rows."""
    parallel = isinstance(value, Mapping) and len(value) > 1 and all(isinstance(file, str) for file in value.values())
    if isinstance(value, str) or parallel or (name == "eval" and value is None):
        return
    what = "the training rows" if name == "train" else "the evaluation rows"
    got = "" if value is None else f"; got {value!r}"
    raise ConfigError(f"{where} needs data.{name}, {what}: a file, or a file for each column{got}")


def check_data(data: DataSettings, where: str) -> None:
    """Raise for invalid or contradictory settings of the rows."""
    check_whole_number("data.limit", data.limit, 1)
    check_whole_number("data.eval_limit", data.eval_limit, 1)
    check_choice("data.streaming", data.streaming, (True, False))
    check_at_least("data.buffer", data.buffer, 1)
    if not isinstance(data.columns, Mapping | None):
        expected = 'maps names that the task reads to columns of the file, such as { text = "sentence" }'
        raise ConfigError(f"{where}: data.columns {expected}; got {data.columns!r}")
    given = [name for name in ("eval", "eval_fraction", "eval_tail") if getattr(data, name) is not None]
    if len(given) > 1:
        raise ConfigError(f"{where}: give data.{given[0]} or data.{given[1]}, not both")
    for name in ("eval_fraction", "eval_tail"):
        if getattr(data, name) is not None:
            check_range(f"data.{name}", getattr(data, name), 0.0, 1.0)
    other = next((name for name in ("limit", "eval_fraction", "eval_tail") if getattr(data, name) is not None), None)
    if data.streaming and other:
        raise ConfigError(f"{where}: data.{other} needs all rows at once, which data.streaming never has")
    if data.buffer != DataSettings.buffer and not data.streaming:
        raise ConfigError(f"{where}: data.buffer is for data.streaming, which is false")


def make_optional_sections(values: Mapping[str, Mapping[str, Any]], where: str) -> dict[str, Any]:
    """The checked optional sections of a recipe."""
    if not values:
        return {}
    from ...models.lora import LoraConfig
    from ..distill import DistillSettings

    tables = {}
    for name, section in values.items():
        kind: Any = {"lora": LoraConfig, "distill": DistillSettings}[name]
        refuse(section, kind, f"{where}: [{name}]")
        if name == "distill" and "teacher" not in section:
            raise ConfigError(f"{where} needs distill.teacher, a folder or a hub name")
        tables[name] = kind(**section)
    return tables


def is_new(name: Any) -> bool:
    """Whether a model or tokenizer is to be created instead of loaded."""
    return isinstance(name, str) and name.startswith(NEW)
