"""All fields that a recipe can have, section by section, with their defaults and what they mean."""

from __future__ import annotations

import dataclasses
import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import Any, NamedTuple

from ...field_docs import field_docs
from ..train_settings import TrainSettings
from .recipe import DataSettings, Recipe
from .recipe_text import NONE, SECTIONS, line_of

REQUIRED = dataclasses.MISSING
INTERNAL = ("settings",)  # options that are no fields of a recipe
INDENT = " " * 6


class RecipeField(NamedTuple):
    """A field of a section."""

    name: str
    type: str  # as it is annotated
    default: Any  # REQUIRED if there is none
    text: str

    @property
    def default_text(self) -> str:
        """The default as a recipe has it."""
        if self.default is REQUIRED:
            return "required"
        return "not set" if self.default is None else line_of(self.name, self.default).partition(" = ")[2]


def fields_of(kind: type, but: Iterable[str] = ()) -> list[RecipeField]:
    """The fields of a dataclass.

    >>> fields_of(DataSettings)[-2]
    RecipeField(name='streaming', type='bool', default=False, text='Read training rows while training, so ...')
    """
    texts = field_docs(kind)
    order = list(texts)  # a class's own fields before those of its bases
    specs = [spec for spec in dataclasses.fields(kind) if spec.name not in but]
    specs.sort(key=lambda spec: order.index(spec.name) if spec.name in texts else len(order))
    return [RecipeField(spec.name, str(spec.type), default_of(spec), texts.get(spec.name, "")) for spec in specs]


def default_of(spec: dataclasses.Field) -> Any:
    return spec.default if spec.default_factory is REQUIRED else spec.default_factory()


def arguments_of(function: Any, but: Iterable[str]) -> list[RecipeField]:
    """The arguments of a function, as fields."""
    texts = field_docs(function)
    parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in but]
    return [RecipeField(each.name, str(each.annotation), each.default, texts.get(each.name, "")) for each in parameters]


def plain_sections() -> dict[str, list[RecipeField]]:
    """The fields of every recipe: those outside of all sections, of [data] and of [train]. Needs no torch."""
    return {"": fields_of(Recipe, but=SECTIONS), "data": fields_of(DataSettings), "train": fields_of(TrainSettings)}


def further_sections() -> dict[str, list[RecipeField]]:
    """The fields of [vocabulary], [lora] and [distill]."""
    from ...models.lora import LoraConfig
    from ...text.training.new_tokenizer import train_tokenizer
    from ..distill import DistillSettings

    vocabulary = arguments_of(train_tokenizer, but=("files_or_texts", "kind"))
    return {"vocabulary": vocabulary, "lora": fields_of(LoraConfig), "distill": fields_of(DistillSettings)}


def task_options(task: str) -> list[RecipeField]:
    """The options of a task; for tasks that generate text, without the settings of generation."""
    from ...tasks.task_registry import task_class

    return fields_of(task_class(task).Options, but=INTERNAL)


def generation_settings() -> list[RecipeField]:
    """What tasks that generate text take beside their own options."""
    from ...generate.config import GenerationConfig

    return fields_of(GenerationConfig)


def generates(task: str) -> bool:
    from ...tasks.task_registry import task_class

    return task_class(task).generates


def all_task_options(task: str) -> list[RecipeField]:
    """Everything that [options] can hold for a task."""
    return task_options(task) + (generation_settings() if generates(task) else [])


# --- as text -----------------------------------------------------------------------------------------------------


def explained_toml(recipe: Recipe) -> str:
    """A recipe as TOML in which every field is explained; what is not given is there as a comment."""
    values = recipe.to_dict()
    sections = {**plain_sections(), **further_sections(), "options": all_task_options(recipe.task)}
    lines = [f'# A recipe with all its fields. Those that are not set begin with #; "{NONE}" takes a default away.']
    for name in ("", *SECTIONS):
        given = values if not name else values[name]
        is_complete = name in ("", "data", "train")  # the others hold what was given
        if given is None:
            lines += ["", f"# [{name}]"]
        elif name:
            lines += ["", f"[{name}]"]
        known = {each.name: each for each in sections.get(name, [])}
        if name == "config":
            lines.append("# fields of the model's config: help(glassformer.BertConfig) and its like list them")
            known = {each: RecipeField(each, "", None, "") for each in given}
        for field in known.values():
            is_set = given is not None and given.get(field.name) is not None and (is_complete or field.name in given)
            lines.append(explained_line(field, given[field.name] if is_set else None))
    return "\n".join(lines) + "\n"


def explained_line(field: RecipeField, value: Any) -> str:
    """A field with its value and what it means; commented out, with its default, if it has no value.

    >>> explained_line(RecipeField("limit", "int | None", None, "How many."), 3)
    'limit = 3  # How many.'
    >>> explained_line(RecipeField("limit", "int | None", None, "How many."), None)
    '# limit is not set  # How many.'
    """
    unset = field.default in (None, REQUIRED)
    shown = f"# {field.name} is not set" if unset else f"# {line_of(field.name, field.default)}"
    return (shown if value is None else line_of(field.name, value)) + (f"  # {field.text}" if field.text else "")


def print_help(task: str = "") -> None:
    """Print all fields as options of the shell; those of [options] for one task, or for all of them."""
    from ...tasks.task_registry import TASKS, full_name

    tasks = [full_name(task)] if task else list(TASKS)
    for name, fields in plain_sections().items():  # before torch is imported, which takes a moment
        spelt = [each._replace(name="data") if each.name == "train" else each for each in fields if each.name != "task"]
        print_fields(spelt, f"fields of [{name}]" if name else "fields of the recipe")
    for name, fields in further_sections().items():
        print_fields(fields, f"fields of [{name}]", f"{name}.")
    by_option: dict[RecipeField, list[str]] = {}
    for each in tasks:
        for field in task_options(each):
            by_option.setdefault(field, []).append(each)
    by_tasks: dict[str, list[RecipeField]] = {}
    for field, users in by_option.items():
        by_tasks.setdefault("all tasks" if users == tasks != [task] else ", ".join(users), []).append(field)
    for names, fields in by_tasks.items():
        print_fields(fields, f"[options] of {names}", "options.")
    writers = [each for each in tasks if generates(each)]
    if writers:
        print_fields(generation_settings(), f"[options] of {', '.join(writers)}: settings of generation", "options.")
    print("\n[config], as --config.NAME=VALUE: fields of the model's config; help(glassformer.BertConfig) lists them")


def print_fields(fields: Iterable[RecipeField], heading: str, prefix: str = "") -> None:
    """Print fields as options of the shell."""
    width = min(shutil.get_terminal_size().columns, 110)
    around = {"initial_indent": INDENT, "subsequent_indent": INDENT, "break_on_hyphens": False}
    print(f"\n{heading}")
    for field in fields:
        spelling = field.name if prefix else field.name.replace("_", "-")
        print(f"  --{prefix}{spelling} ({field.default_text})")
        print(textwrap.fill(field.text, width, **around))
    sys.stdout.flush()
