"""From a recipe to a trainer: rows are read, tokenizer and model loaded or made."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable
from typing import Any

from ..data.labels import make_label2id
from ..data.readers import read_rows
from ..data.shuffle import shuffle, split
from ..errors import refuse_unknown
from ..models import auto
from ..models.lora import add_lora
from ..tasks.base import Task
from ..tasks.registry import ALIASES, task_class, task_of
from ..text.auto import AutoTokenizer
from ..text.fresh import train_tokenizer
from ..text.tokenizer import PreTrainedTokenizer
from .recipe import NEW, Recipe, is_new
from .state import seed_all
from .trainer import Trainer

LABELLED = {"text-classification": "label", "token-classification": "tags"}  # where the labels of a new head stand
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id")


def build(recipe: Recipe) -> Trainer:
    """The trainer of a recipe."""
    kind = task_class(recipe.task)
    refuse_unknown(recipe.options, kind.option_names(), kind.name)
    rows, eval_rows = recipe_rows(recipe)
    config = {**new_labels(recipe, rows), **recipe.config}
    rows, eval_rows = drawn(rows, recipe.data.limit), drawn(eval_rows, recipe.data.eval_limit)
    seed_all(recipe.train.seed)  # weights that are drawn belong to the run
    tokenizer = new_tokenizer(recipe, kind, rows) if is_new(recipe.tokenizer) else recipe.tokenizer
    if recipe.from_scratch or is_new(recipe.model):
        task = new_task(kind, recipe, tokenizer, config)
    else:
        task = kind.from_pretrained(recipe.model, tokenizer, model_arguments=config, **recipe.options)
    if recipe.lora is not None:
        add_lora(task.model, recipe.lora)
    teacher = None
    if recipe.distill is not None:
        teacher = kind.from_pretrained(recipe.distill.teacher).model
        kind(teacher, task.tokenizer).refuse_untrained()
    buffer = recipe.data.buffer if recipe.data.streaming else None
    return Trainer(task, rows, eval_rows, recipe.train, teacher=teacher, distill=recipe.distill, buffer=buffer)


def recipe_rows(recipe: Recipe) -> tuple[Any, list[Any] | None]:
    """Rows to learn from and rows to judge by. What is streamed stays in its files."""
    data = recipe.data
    how = {"columns": data.columns, "format": data.format, "header": data.header}
    rows: Any = read_rows(data.train, **how)
    if not data.streaming:
        rows = list(rows)
    if data.eval is not None:
        return rows, list(read_rows(data.eval, **how))
    if data.eval_fraction is not None:
        training, judged = map(list, split(rows, data.eval_fraction, recipe.train.seed))
        return training, judged
    if data.eval_tail is not None:
        first = round(len(rows) * (1 - data.eval_tail))
        return rows[:first], rows[first:]
    return rows, None


def drawn(rows: Any, limit: int | None) -> Any:
    """So many rows, drawn at random and always the same; all of them without a limit."""
    if limit is None or rows is None:
        return rows
    return list(itertools.islice(shuffle(rows, len(rows), seed=0), limit))


def new_tokenizer(recipe: Recipe, kind: type[Task], rows: Iterable[Any]) -> PreTrainedTokenizer:
    """A tokenizer made from all texts that the task reads in its rows."""
    own = [name for name in inspect.signature(train_tokenizer).parameters if name not in ("files_or_texts", "kind")]
    refuse_unknown(recipe.vocabulary, own, "[vocabulary]")
    texts = (row[name] + "\n" for row in rows for name in kind.columns.inputs if isinstance(row.get(name), str))
    return train_tokenizer(texts, str(recipe.tokenizer).removeprefix(NEW), **recipe.vocabulary)


def new_task(
    kind: type[Task], recipe: Recipe, tokenizer: PreTrainedTokenizer | str | None, config: dict[str, Any]
) -> Task:
    """The task with a model that knows nothing yet: of the shape that a folder has, or that [config] tells."""
    if not isinstance(tokenizer, PreTrainedTokenizer):
        tokenizer = AutoTokenizer.from_pretrained(tokenizer or recipe.model)
    elsewhere = tokenizer if is_new(recipe.model) or is_new(recipe.tokenizer) else None
    if is_new(recipe.model):
        architecture = recipe.model.removeprefix(NEW)
        known = auto.config_class(architecture, "model").field_names()
        special = {name: getattr(elsewhere, name) for name in SPECIAL_IDS if name in known}
        shape = auto.AutoConfig.for_model(architecture, **{"vocab_size": len(tokenizer), **special, **config})
    else:
        size = {} if elsewhere is None else {"vocab_size": len(tokenizer)}
        shape = auto.AutoConfig.from_pretrained(recipe.model, **{**size, **config})
    return kind(getattr(auto, kind.head).from_config(shape), tokenizer, **recipe.options)


def new_labels(recipe: Recipe, rows: Iterable[Any]) -> dict[str, Any]:
    """The labels of a head that the checkpoint does not have yet: those of the rows."""
    task = ALIASES.get(recipe.task, recipe.task)
    if task not in LABELLED or recipe.config.keys() & {"num_labels", "id2label", "label2id"}:
        return {}
    classes = [] if is_new(recipe.model) else auto.AutoConfig.from_pretrained(recipe.model).architectures or []
    if classes and task_of(classes[0], recipe.model) == task:
        return {}
    label2id = make_label2id(rows, LABELLED[task])
    return {"label2id": label2id, "id2label": {number: label for label, number in label2id.items()}}
