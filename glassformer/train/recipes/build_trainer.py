"""From a recipe to a trainer: rows are read, tokenizer and model loaded or created."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from ...data.columns import usual_names
from ...data.file_row import Row as FileRow
from ...data.labels import find_label, make_label2id
from ...data.parallel_text import read_parallel
from ...data.readers import read_rows
from ...data.shuffle import shuffle, split
from ...errors import ConfigError, nearest, refuse_unknown
from ...models import auto
from ...models.base.pretrained_io import loading_for
from ...models.lora import add_lora
from ...registry import architecture_for
from ...tasks.images.image_task import ImageTask
from ...tasks.speech.sound_task import SoundTask
from ...tasks.task import Task
from ...tasks.task_registry import full_name, task_class, task_of
from ...tasks.text_task import TextTask
from ...text.auto_tokenizer import AutoTokenizer
from ...text.tokenizer import PreTrainedTokenizer
from ...text.training.new_tokenizer import train_tokenizer
from ..randomness import set_seed
from ..trainer import Trainer
from .image_models import image_task
from .model_sizes import BYTES_PER_TOKEN, count_bytes, fields_for, gives_shape, size_for
from .recipe import NEW, DataSettings, Recipe, is_new
from .sound_models import sound_task

LABEL_COLUMNS = {
    "text-classification": "label",
    "token-classification": "tags",
    "image-classification": "label",
    "audio-classification": "label",
}  # with the labels of a new head
SENTINELS = 100  # of a new vocabulary for span-corruption, as many as T5 has
NUMBER = re.compile(r"[+-]?\d+(\.\d*)?")
SCORE = re.compile(r"[+-]?\d+\.\d*[1-9]\d*")  # 1.0 may be a label's name, 1.5 is not


def build_trainer(recipe: Recipe) -> Trainer:
    """The trainer of a recipe."""
    kind = task_class(recipe.task)
    check_recipe(recipe)
    rows, eval_rows = recipe_rows(recipe, needed_columns(kind, recipe.data))
    config = {**new_labels(recipe, rows), **recipe.config}
    rows, eval_rows = sample_rows(rows, recipe.data.limit), sample_rows(eval_rows, recipe.data.eval_limit)
    set_seed(recipe.train.seed)  # newly initialised weights are reproducible
    task: Task = task_of_recipe(kind, recipe, rows, config)
    if recipe.lora is not None:
        add_lora(task.model, recipe.lora)
    teacher = None
    if recipe.distill is not None:
        teacher = kind.from_pretrained(recipe.distill.teacher).model
        kind(teacher, task.preprocessor).refuse_untrained()
    buffer = recipe.data.buffer if recipe.data.streaming else None
    return Trainer(task, rows, eval_rows, recipe.train, teacher=teacher, distill=recipe.distill, buffer=buffer)


def task_of_recipe(kind: type[Task], recipe: Recipe, rows: Iterable[Any], config: dict[str, Any]) -> Task:
    """The task of a recipe with its model, by what its rows hold."""
    if issubclass(kind, ImageTask):
        return image_task(kind, recipe, rows, config)
    if issubclass(kind, SoundTask):
        return sound_task(kind, recipe, config)
    return text_task(kind, recipe, rows, config)


def text_task(kind: type[TextTask], recipe: Recipe, rows: Iterable[Any], config: dict[str, Any]) -> TextTask:
    """The task of a recipe that reads texts, with its model and its tokenizer."""
    tokenizer, target = tokenizers(recipe, kind, rows)
    if is_new(recipe.model):
        config = {**shape_for(recipe, kind, rows), **config}
    if recipe.from_scratch or is_new(recipe.model):
        return new_task(kind, recipe, tokenizer, target, config)
    with loading_for("training"):
        return kind.from_pretrained(recipe.model, tokenizer, model_arguments=config, **target, **recipe.options)


def check_recipe(recipe: Recipe) -> None:
    """Raise for invalid options, columns and shapes of a new model, before any row is read."""
    kind, data = task_class(recipe.task), recipe.data
    refuse_unknown(recipe.options, kind.option_names(), kind.name)
    for name in data.columns or ():
        if name not in kind.columns.all:
            known = f"{kind.name} reads {', '.join(kind.columns.all)}{nearest(name, kind.columns.all)}"
            raise ConfigError(f"data.columns has {name!r}, and {known}")
    labels = LABEL_COLUMNS.get(kind.name)
    if data.columns and labels is not None and labels not in data.columns:
        raise ConfigError(f"data.columns must name all columns that are read, and {labels}, the target, is missing")
    if is_new(recipe.model):
        architecture = new_architecture(recipe.model, kind)
        fields = fields_for(architecture, recipe.size, recipe.config)
        shape = auto.AutoConfig.for_model(architecture, **fields, **recipe.config)
    elif recipe.from_scratch:
        shape = auto.AutoConfig.from_pretrained(recipe.model, **recipe.config)
    else:
        return
    with torch.device("meta"):  # without its weights
        auto.AUTO_CLASSES[kind.head].from_config(shape)


def check_files(recipe: Recipe) -> None:
    """Raise for files of rows that are missing or cannot be read with the recipe's settings."""
    needed = needed_columns(task_class(recipe.task), recipe.data)
    for source in (recipe.data.train, recipe.data.eval):
        if source is not None:
            read_source(source, recipe.data, needed)


def needed_columns(kind: type[TextTask], data: DataSettings) -> tuple[str, ...]:
    """The columns that no row may leave empty: those of a task that generates texts."""
    known = kind.columns.needed + kind.columns.targets if kind.generated_columns else ()
    return known if data.columns is None or {*data.columns} >= {*known} else ()


def recipe_rows(recipe: Recipe, needed: Sequence[str] = ()) -> tuple[Any, list[Any] | None]:
    """Training rows and evaluation rows. Streamed rows stay in their files."""
    data = recipe.data
    rows: Any = read_source(data.train, data, needed)
    if not data.streaming:
        rows = list(rows)
    if data.eval is not None:
        return rows, list(read_source(data.eval, data, needed))
    if data.eval_fraction is None and data.eval_tail is None:
        return rows, None
    if data.eval_fraction is not None:
        train_rows, eval_rows = map(list, split(rows, data.eval_fraction, recipe.train.seed))
    else:
        first = round(len(rows) * (1 - data.eval_tail))
        train_rows, eval_rows = rows[:first], rows[first:]
    if not train_rows or not eval_rows:
        name = "eval_tail" if data.eval_fraction is None else "eval_fraction"
        sizes = f"{len(train_rows)} for training and {len(eval_rows)} for evaluation"
        raise ConfigError(f"data.{name} {getattr(data, name)} of {len(rows)} rows leaves {sizes}")
    return train_rows, eval_rows


def read_source(source: str | dict[str, str], data: DataSettings, needed: Sequence[str] = ()) -> Iterable[Any]:
    """Rows of a file, or of parallel files with a column each."""
    options = {name: getattr(data, name) for name in ("columns", "format", "header", "delimiter", "quotes")}
    if isinstance(source, str):
        return read_rows(source, needed=needed, on_bad=data.on_bad, encoding=data.encoding, **options)
    given = next((name for name, value in options.items() if value is not None), None)
    if given or (data.on_bad != "raise" and not needed):
        raise ConfigError(f"data.{given or 'on_bad'} is not for files of plain lines, one for each column")
    return read_parallel(source, needed=needed, on_bad=data.on_bad, encoding=data.encoding)


def sample_rows(rows: Any, limit: int | None) -> Any:
    """A random sample of rows, the same in every run; all of them without a limit."""
    if limit is None or rows is None:
        return rows
    return list(itertools.islice(shuffle(rows, len(rows), seed=0), limit))


def tokenizers(recipe: Recipe, kind: type[TextTask], rows: Iterable[Any]) -> tuple[Any, dict[str, Any]]:
    """The task's tokenizer, and a dictionary with that of the target if it has its own."""
    inputs, generated = kind.columns.inputs, kind.generated_columns
    if recipe.target_tokenizer is None:
        return tokenizer_of(recipe, recipe.tokenizer, kind, rows, (*inputs, *kind.columns.target_texts)), {}
    if not generated:
        raise ConfigError(f"target_tokenizer is for tasks that write other texts than they read, not for {kind.name}")
    target = tokenizer_of(recipe, recipe.target_tokenizer, kind, rows, generated)
    if not isinstance(target, PreTrainedTokenizer):
        target = AutoTokenizer.from_pretrained(target)
    return tokenizer_of(recipe, recipe.tokenizer, kind, rows, inputs), {"target_tokenizer": target}


def tokenizer_of(
    recipe: Recipe, name: str | None, kind: type[TextTask], rows: Iterable[Any], columns: Sequence[str]
) -> Any:
    """The name of a tokenizer, or a new one that is trained on all texts in some columns."""
    if not is_new(name):
        return name
    known = inspect.signature(train_tokenizer).parameters.keys() - {"files_or_texts", "kind"}
    refuse_unknown(recipe.vocabulary, sorted(known), "[vocabulary]")
    sentinels = {"extra_ids": SENTINELS} if kind.needs_sentinels and name == "new:unigram" else {}
    settings = {**sentinels, **recipe.vocabulary}
    return train_tokenizer(texts_of(kind, rows, columns), str(name).removeprefix(NEW), **settings)


def texts_of(kind: type[TextTask], rows: Iterable[Any], columns: Sequence[str]) -> Iterator[str]:
    """The texts in some columns of a task's rows; a list of words or of choices is one text."""
    is_empty, present = True, ()
    for row in rows:
        present = present or tuple(map(str, row))
        row = kind.from_published(row) if isinstance(row, FileRow) else row
        names = {**kind.column_aliases, **usual_names(row, kind.columns.inputs)}
        found = {names.get(name, name): value for name, value in row.items()}
        for value in map(found.get, columns):
            text = " ".join(map(str, value)) if isinstance(value, list | tuple) else value
            if isinstance(text, str) and text.strip():
                is_empty = False
                yield text + "\n"
    if is_empty:
        there = ", ".join(present) or "nothing"
        raise ConfigError(f"a new tokenizer needs texts in {', '.join(columns)}; the rows hold {there}")


def new_task(
    kind: type[TextTask],
    recipe: Recipe,
    tokenizer: PreTrainedTokenizer | str | None,
    target: dict[str, Any],
    config: dict[str, Any],
) -> TextTask:
    """The task with an untrained model, of the shape of a checkpoint or of [config]."""
    if not isinstance(tokenizer, PreTrainedTokenizer):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer or recipe.model)
    if is_new(recipe.model):
        architecture = new_architecture(recipe.model, kind)
        known = auto.config_class(architecture, "model").field_names()
        defaults = {name: value for name, value in kind.new_config(tokenizer, **target).items() if name in known}
        shape = auto.AutoConfig.for_model(architecture, **{**defaults, **config})
    else:
        size = {"vocab_size": len(tokenizer)} if is_new(recipe.tokenizer) else {}
        shape = auto.AutoConfig.from_pretrained(recipe.model, **{**size, **config})
    return kind(auto.AUTO_CLASSES[kind.head].from_config(shape), tokenizer, **target, **recipe.options)


def new_architecture(model: str, kind: type[TextTask]) -> str:
    """The architecture that new:NAME means for a task."""
    return architecture_for(model.removeprefix(NEW), kind.head)


def shape_for(recipe: Recipe, kind: type[TextTask], rows: Iterable[Any]) -> dict[str, int]:
    """The shape of a new model: that of its size, or of the size that fits the rows if [config] gives no shape."""
    architecture, size = new_architecture(recipe.model, kind), recipe.size
    if size is None and not gives_shape(architecture, recipe.config):
        train = recipe.train
        tokens = (train.max_steps or 0) * train.gradient_accumulation_steps * train.tokens_per_batch
        size = size_for(tokens * BYTES_PER_TOKEN if recipe.data.streaming else count_bytes(rows))
    return fields_for(architecture, size, recipe.config)


def new_labels(recipe: Recipe, rows: Iterable[Any]) -> dict[str, Any]:
    """The config fields for the labels of a new head: those of the rows. None for a head that the checkpoint has."""
    column = LABEL_COLUMNS.get(full_name(recipe.task))
    if column is None or recipe.config.keys() & {"num_labels", "id2label", "label2id"}:
        return {}
    known = None if recipe.config.get("ignore_mismatched_sizes") else labels_of(recipe)
    if known is not None and (len(known) == 1 or recipe.data.streaming):  # regression, or checked when a row is read
        return {}
    label2id = make_label2id(rows, column)
    if known is None:
        check_labels(list(label2id), column)
        return {"label2id": label2id, "id2label": {number: label for label, number in label2id.items()}}
    numbers = {name: number for number, name in enumerate(known)}
    other = next((name for name in label2id if find_label(name, numbers) is None), None)
    if other is not None:
        raise ConfigError(
            f"the rows have the label {other!r}, and {recipe.model} was trained on {', '.join(list(known)[:20])}; "
            "config.ignore_mismatched_sizes=true gives it a new head, with the labels of the rows"
        )
    return {}


def labels_of(recipe: Recipe) -> list[str] | None:
    """The labels of the task's head, if the checkpoint has one."""
    if is_new(recipe.model):
        return None
    config = auto.AutoConfig.from_pretrained(recipe.model)
    classes = config.architectures or []
    has_head = bool(classes) and task_of(classes[0], recipe.model) == full_name(recipe.task)
    return list(config.id2label.values()) if has_head else None


def check_labels(names: list[str], column: str) -> None:
    """Raise if a column of labels does not hold labels: only one value, or numbers that are scores."""
    score = next((name for name in names if SCORE.fullmatch(name)), None)
    if score is not None and all(NUMBER.fullmatch(name) for name in names):
        raise ConfigError(
            f"labels such as {score!r} are not names but scores: config.num_labels=1 trains on them as numbers"
        )
    stripped: dict[str, str] = {}
    for name in names:
        other = stripped.setdefault(name.strip(), name)
        if other != name:
            raise ConfigError(f"the labels {other!r} and {name!r} differ in spaces alone: make them one in the rows")
    if column == "tags" and all(map(str.isdecimal, names)):
        raise ConfigError(
            f"tags such as {names[0]!r} are numbers, and it is unknown which of them is outside of all entities: "
            'config.id2label={ 0 = "O", 1 = "B-PER", ... } names them'
        )
    if len(names) == 1:
        raise ConfigError(f"all rows have the label {names[0]!r}, and there is nothing to choose")
