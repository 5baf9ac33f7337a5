"""`glass train`: a task from the command line, or a recipe in a TOML file."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, UseAppendAction, arg

from ...errors import InputError
from ..output.terminal import print_json

if TYPE_CHECKING:
    from ...train.result import TrainResult

OWN_OPTIONS = ("set", "resume", "print-config", "check-resume", "json", "help")
STOPPED = {"SIGTERM": 143, "SIGINT": 130, "SIGHUP": 129}


def train(
    what: Positional[Annotated[str, arg(metavar="TASK|RECIPE.toml")]],
    /,
    *,
    set: UseAppendAction[Annotated[tuple[str, ...], arg(metavar="FIELD=VALUE")]] = (),
    resume: bool = False,
    print_config: bool = False,
    check_resume: bool = False,
    json: bool = False,
) -> int:
    """Train a model for a task, from the command line or from a recipe; it can be stopped and resumed exactly.

    Every field of a recipe is an option: --model, --data (training rows), --eval, --output-dir,
    --learning-rate, --columns text=sentence, --options.truncation=true, ... All are explained below; with a
    task, `glass train TASK --help`, only that task's. --print-config writes them into a recipe.
    Under torchrun the same command trains with several processes.

    examples:
      glass train text-classification --model ./bert-base-uncased --data train.tsv --eval dev.tsv --output-dir run
      glass train translation --model new:transformer --tokenizer new:bpe --data.train.source train.de \\
        --data.train.target train.en --output-dir de-en
      glass train recipes/classify.toml --train.learning_rate=1e-5 --print-config
      glass train recipes/classify.toml --resume
      torchrun --nproc-per-node 2 -m glassformer.cli.main train recipes/classify.toml

    Args:
        what: A task such as text-classification, or a TOML file.
        set: A field of the recipe; --FIELD=VALUE is the same.
        resume: Resume from the newest checkpoint in the output folder, if there is one.
        print_config: Print the recipe with all its fields, explained, and end; required ones that are not given are
            printed as "...".
        check_resume: Check that resuming is exact: train six steps with and without a break, and compare every bit.
        json: Print the result as JSON.
    """
    from ...train.recipes.recipe import make_recipe
    from ...train.recipes.recipe_fields import fill_placeholders, set_fields
    from ...train.recipes.recipe_text import read_recipe

    is_file = what.endswith(".toml")
    if not is_file and Path(f"{what}.toml").exists():
        raise InputError(f"there is no task {what!r}; the recipe is called {what}.toml")
    values = read_recipe(Path(what)) if is_file else {"task": what}
    set_fields(values, set)
    if print_config:
        fill_placeholders(values)
    recipe = make_recipe(values, what if is_file else "the command line")
    if print_config:
        from ...train.recipes.recipe_reference import explained_toml

        print(explained_toml(recipe), end="")
        return 0
    if check_resume:
        return run_resume_check(recipe, json)

    from ...train.checkpoint import refuse_used_folder
    from ...train.recipes.build_trainer import build_trainer
    from ...train.reporting.run_summary import describe_run

    command = command_line(what, set)
    refuse_used_folder(Path(recipe.train.output_dir), resume, command)  # before rows and weights are read
    trainer = build_trainer(recipe)
    if trainer.process_group.is_main:
        print(describe_run(trainer, recipe), file=sys.stderr)
    result = trainer.train(resume=resume)
    if not trainer.process_group.is_main:
        return STOPPED.get(result.stopped_by or "", 0)
    if json:
        print_json(vars(result))
    elif result.stopped_by in STOPPED:
        print(f"stopped by {result.stopped_by} at step {result.step:,} of {result.total_steps:,}")
        print(f"to resume: {command} --resume")
    else:
        print_summary(result, recipe.train.output_dir)
    return STOPPED.get(result.stopped_by or "", 0)


def command_line(what: str, fields: Sequence[str]) -> str:
    """The command that starts this run, as it is typed.

    >>> command_line("ner", ["model=m", "data=my rows.conll"])
    "glass train ner --model=m '--data=my rows.conll'"
    """
    size, on_this_machine = (os.environ.get(name, "1") for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"))
    launcher = ["glass"]
    if size != "1":  # the options for several machines are torchrun's own
        nodes = [] if size == on_this_machine else ["..."]
        launcher = ["torchrun", "--nproc-per-node", on_this_machine, *nodes, "-m", "glassformer.cli.main"]
    return shlex.join([*launcher, "train", what, *(f"--{field}" for field in fields)])


def print_summary(result: TrainResult, folder: str) -> None:
    """Print what was trained, and its best metric."""
    why = "" if result.stopped_by is None else f" ({result.stopped_by})"
    steps = "1 step" if result.step == 1 else f"{result.step:,} steps"
    print(f"trained {steps}{why}; the model is in {folder}")
    if result.best is not None:
        name, best = result.best["name"], result.best["value"]
        kept = result.metrics.get(name, best)
        of_kept = "" if kept == best else f"; of the model that was kept: {kept:.4f}"
        print(f"best {name}: {best:.4f} at step {result.best['step']:,}{of_kept}")


def run_resume_check(recipe, json: bool) -> int:
    from ...train.distributed import is_main_process
    from ...train.recipes.check_resume import check_resume

    result = check_resume(recipe)
    if not is_main_process():
        return 1 if result.differing else 0
    if json:
        print_json(vars(result))
    elif result.differing:
        print(f"NOT exact: {', '.join(result.differing[:8])} differ after a break at step {result.resumed_at}")
    else:
        print(
            f"exact: {result.steps} steps, and {result.steps} with a break after {result.resumed_at}, give "
            f"{result.compared} tensors that are equal in every bit"
        )
    return 1 if result.differing else 0


def options_as_fields(arguments: Sequence[str], own: Sequence[str]) -> list[str]:
    """Turn every option that is not the verb's own into a field: --seed 3 and --seed=3 are --set seed=3.

    >>> options_as_fields(["ner", "--train.seed", "3", "--resume", "--tensorboard", "--model=m"], OWN_OPTIONS)
    ['ner', '--set', 'train.seed=3', '--resume', '--set', 'tensorboard=true', '--set', 'model=m']
    """
    found: list[str] = []
    remaining = list(arguments)
    while remaining:
        each = remaining.pop(0)
        name, equals, value = each.removeprefix("--").partition("=")
        if not each.startswith("--") or name.replace("_", "-") in own:
            found.append(each)
            if each == "--set" and remaining:
                found.append(remaining.pop(0))
            continue
        if not equals:
            value = "true" if not remaining or remaining[0].startswith("--") else remaining.pop(0)
        found += ["--set", f"{name}={value}"]
    return found


def prepare(arguments: Sequence[str]) -> list[str]:
    return options_as_fields(arguments, OWN_OPTIONS)


def print_fields_after_help(arguments: Sequence[str]) -> None:
    """Print every field of a recipe after the help: those of one task if it is named, else those of all tasks."""
    from ...train.recipes import recipe_reference as reference

    given = arguments[0] if arguments and not arguments[0].startswith("-") else ""
    if given.endswith(".toml"):
        from ...train.recipes.recipe_text import read_recipe

        given = str(read_recipe(Path(given)).get("task", ""))
    reference.print_help(given)


train.prepare = prepare  # type: ignore[attr-defined]
train.after_help = print_fields_after_help  # type: ignore[attr-defined]
