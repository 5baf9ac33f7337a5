"""Write docs/reference.md and docs/reference.zh.md, every field of a recipe, from the docstrings in the code.

python scripts/write_reference.py

The Chinese page takes its sentences from scripts/reference.zh.toml, where each stands under the English one: a sentence
that changes in the code needs a new translation there, and this script names those that are missing or no longer used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from glassformer.tasks.task_registry import ALIASES, TASKS, task_class
from glassformer.train.recipes import recipe_reference as reference
from glassformer.train.recipes.recipe_reference import RecipeField
from glassformer.train.recipes.recipe_text import read_recipe

ROOT = Path(__file__).resolve().parents[1]
TRANSLATIONS = ROOT / "scripts" / "reference.zh.toml"
INTRODUCTION = {
    "en": (
        "# Reference\n\n[中文](reference.zh.md)\n\n"
        "Every field of a recipe, section by section, with its default. On the command line each is an option of "
        "`glass train`: `--seed 1`, `--options.top_k=3`, `--lora.r=4`; the fields of `[data]` and `[train]` need no "
        "section there. `glass train TASK --help` prints what stands here for one task, `glass train RECIPE "
        "--print-config` a recipe with all of it, and `help(...)` of a class the same in Python. In a file, which has "
        'no null, the text `"none"` takes a default away.\n\n'
        "Made by `python scripts/write_reference.py` from the docstrings in the code.\n"
    ),
    "zh": (
        "# 参考\n\n[English](reference.md)\n\n"
        "训练配方（recipe）的全部字段，逐节列出，带默认值。在命令行里，每个字段都是 `glass train` 的一个选项："
        "`--seed 1`、`--options.top_k=3`、`--lora.r=4`；`[data]` 和 `[train]` 的字段不必写出节名。"
        "`glass train TASK --help` 打印这里关于某个任务的内容，"
        "`glass train RECIPE --print-config` 打印写全这一切的配方，"
        '在 Python 里 `help(...)` 给出同样的说明。TOML 文件没有 null，要取消一个默认值，写文本 `"none"`。\n\n'
        "本页由 `python scripts/write_reference.py` 根据代码里的文档字符串生成。\n"
    ),
}
WORDS = {
    "zh": {
        "The recipe": "配方",
        "Outside of all sections.": "写在所有节之前。",
        "Options of tasks": "任务的选项",
        "Settings of generation": "文本生成的设置",
        "field": "字段",
        "type": "类型",
        "default": "默认值",
        "meaning": "含义",
        "required": "必填",
        "not set": "无",
        " or ": " 或 ",
        "Rows: ": "每行数据：",
        "; to learn from: ": "；训练还需要：",
        ".": "。",
        ", ": "、",
        " (`{}`)": "（`{}`）",
        "Class: ": "类：",
        "In `[options]`; in Python keywords of `pipeline(task, model, ...)` and of its calls; `--option NAME=VALUE` of "
        "`glass predict` and `glass evaluate`.": "写在 `[options]` 里；在 Python 里是 `pipeline(task, model, ...)` "
        "及其调用的关键字参数；在 `glass predict` 和 `glass evaluate` 里写作 `--option NAME=VALUE`。",
        "Options of text-generation, translation and summarization, beside their own; arguments of `model.generate`.": (
            "text-generation、translation、summarization 除自己的选项外还接受这些，它们也是 `model.generate` 的参数。"
        ),
        "`[{}]` makes the tokenizer if `tokenizer` is new; arguments of `train_tokenizer`.": (
            "`tokenizer` 是新的时，`[{}]` 决定怎样制作它；它们也是 `train_tokenizer` 的参数。"
        ),
        "`[{}]` holds fields of the model's config, those of its class: `help(glassformer.BertConfig)`.": (
            "`[{}]` 里是模型配置的字段，即配置类的字段：`help(glassformer.BertConfig)`。"
        ),
    }
}


def pages() -> dict[str, str]:
    """Both pages, by their file names."""
    return {"reference.md": page("en", str), "reference.zh.md": page("zh", Translations())}


class Translations:
    """The Chinese of each English sentence."""

    def __init__(self) -> None:
        self.known = read_recipe(TRANSLATIONS)
        self.used: set[str] = set()
        self.missing: set[str] = set()

    def __call__(self, text: str) -> str:
        self.used.add(text)
        if text not in self.known:
            self.missing.add(text)
        return self.known.get(text, text)

    def check(self) -> None:
        """Raise if sentences have no translation, or translations no sentence."""
        unused = self.known.keys() - self.used
        lines = [*(f"has no {text!r}" for text in sorted(self.missing)), *(f"needs no {text!r}" for text in unused)]
        if lines:
            raise SystemExit("\n".join(f"{TRANSLATIONS.name} {line}" for line in lines))


def page(language: str, translate: Callable[[str], str]) -> str:
    """The page in one language."""
    words = WORDS.get(language, {})

    def say(text: str) -> str:
        return words.get(text, text)

    def table(fields: list[RecipeField]) -> str:
        names = ("field", "type", "default", "meaning")
        rows = [f"| {' | '.join(map(say, names))} |", "|---|---|---|---|"]
        for field in fields:
            kind = say(" or ").join(part for part in field.type.split(" | ") if part not in ("None", "Any"))
            default = field.default_text
            shown = say(default) if default in ("required", "not set") else f"`{default}`"
            cells = (f"`{field.name}`", kind, shown, translate(field.text))
            rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        return "\n".join(rows) + "\n"

    def quoted(names: Sequence[str]) -> str:
        return say(", ").join(f"`{name}`" for name in names)

    plain, further = reference.plain_sections(), reference.further_sections()
    parts = [
        INTRODUCTION[language],
        f"## {say('The recipe')}\n\n{say('Outside of all sections.')}\n\n{table(plain[''])}",
    ]
    parts += [
        f"## [{name}]\n\n{table(fields)}" for name, fields in (("data", plain["data"]), ("train", plain["train"]))
    ]
    vocabulary = say("`[{}]` makes the tokenizer if `tokenizer` is new; arguments of `train_tokenizer`.")
    parts.append(f"## [vocabulary]\n\n{vocabulary.format('vocabulary')}\n\n{table(further['vocabulary'])}")
    config = say("`[{}]` holds fields of the model's config, those of its class: `help(glassformer.BertConfig)`.")
    parts.append(f"## [config]\n\n{config.format('config')}\n")
    parts += [f"## [{name}]\n\n{table(further[name])}" for name in ("lora", "distill")]
    options = say(
        "In `[options]`; in Python keywords of `pipeline(task, model, ...)` and of its calls; `--option NAME=VALUE` of "
        "`glass predict` and `glass evaluate`."
    )
    parts.append(f"## {say('Options of tasks')}\n\n{options}\n")
    for task in TASKS:
        kind = task_class(task)
        alias = "".join(say(" (`{}`)").format(other) for other, name in ALIASES.items() if name == task)
        rows = say("Rows: ") + quoted(kind.columns.inputs)
        rows += say("; to learn from: ") + quoted(kind.columns.targets) if kind.columns.targets else ""
        parts.append(f"### {task}{alias}\n\n{rows}{say('.')}\n\n{table(reference.task_options(task))}")
    settings = say(
        "Options of text-generation, translation and summarization, beside their own; arguments of `model.generate`."
    )
    parts.append(f"## {say('Settings of generation')}\n\n{settings}\n\n{table(reference.generation_settings())}")
    if isinstance(translate, Translations):
        translate.check()
    return "\n".join(parts)


def main() -> None:
    for name, text in pages().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
