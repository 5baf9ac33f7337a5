"""Training checkpoints: ordinary model folders, with the state that is needed to resume a run exactly.

    checkpoint-120/
      config.json, model.safetensors, tokenizer files    what from_pretrained reads
      training_state.safetensors                         the optimizer's state
      training_state.json                                all other state: data position, random states, settings
      unscheduled                                        marks one saved by a signal or the clock, until the next one

A folder is complete on disk before it gets its name.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..checkpoints.files import (
    ENTRIES,
    TEMPORARY,
    flush_folder,
    make_folder,
    read_json,
    reason_of,
    remove_stale_temporaries,
    write_atomically,
)
from ..checkpoints.folder_save import finish_save, saved_together
from ..checkpoints.formats import one_line
from ..checkpoints.safetensors_file import write_safetensors
from ..checkpoints.weights import open_weights
from ..errors import CheckpointError, ConfigError, DamagedFileError, GlassformerError, InputError, shown
from ..json_fields import Check, JsonFields, is_integer, is_list, is_number, is_table
from ..models.lora import WEIGHTS_FILE as ADAPTER
from ..models.lora import is_adapter, load_adapter_tensors
from ..tasks.task import Task
from .result import Progress
from .sharding import copy_weights, full_tensor, match_sharding

log = logging.getLogger("glassformer")

NAME = re.compile(r"checkpoint-(\d+)")
VALUES, TENSORS, UNSCHEDULED = "training_state.json", "training_state.safetensors", "unscheduled"
FORMAT = 1


def are_sums(name: str, value: Any) -> Mapping[str, float]:
    """The sums since the last log line: all of them, each a number, NaN included."""
    table, names = is_table(name, value), Progress().since_log.keys()
    if table.keys() != names or not all(isinstance(each, int | float) for each in table.values()):
        raise ConfigError(f"{name} must hold the numbers {', '.join(names)}, got {shown(value)}")
    return table


FIELDS: dict[str, Check] = {
    "step": is_integer(0, 2**53),
    "best": is_table,
    "waited": is_integer(0, 2**53),
    "seconds": is_number(0),
    "tokens": is_integer(0, 2**53),
    "since_log": are_sums,
    "objectives": is_table,
    "data": is_table,
    "scaler": is_table,
    "random": is_list,
    "settings": is_table,
    "metrics": is_table,
}
REQUIRED = (*vars(Progress()), "data", "scaler", "random", "task", "settings", "metrics")  # in VALUES


# --- folders -----------------------------------------------------------------------------------------------------


def checkpoints_in(folder: Path) -> dict[int, Path]:
    """The complete checkpoints of a run by step, oldest first."""
    if not folder.is_dir():
        return {}
    steps = {int(match[1]): folder / name for name in os.listdir(folder) if (match := NAME.fullmatch(name))}
    return {step: steps[step] for step in sorted(steps) if (steps[step] / VALUES).exists()}


def refuse_used_folder(folder: Path, resume: bool, command: str | None = None) -> None:
    """Raise if the folder of a run contains files that it must not overwrite; `command` is the one that was given."""
    finish_save(folder)
    existing = checkpoints_in(folder)
    if existing and not resume:
        raise InputError(
            f"{folder} holds checkpoints of a run, the last of step {max(existing)}; " + ways_out(folder, command)
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"output_dir {folder} is a file; name a folder")
    model = next((name for name in (*ENTRIES, ADAPTER) if (folder / name).exists()), None)
    if model is not None and not existing:
        raise InputError(f"{folder} holds a model, {model}, which the run would overwrite; name another output_dir")


def require_best(folder: Path, step: int, resumed: Path) -> None:
    """Raise if the best checkpoint so far is not in the folder of a run that resumes from another one."""
    name = f"checkpoint-{step}"
    if not (folder / name).exists():
        raise InputError(f"{name}, the best so far, is not in {folder}: copy it from {resumed.parent}")


def ways_out(folder: Path, command: str | None) -> str:
    """What can be done about a folder that holds a run."""
    if command is None:
        return "train(resume=True) resumes it, and another output_dir starts a new one"
    return f"to resume it: {command} --resume; to replace it: rm -r {shlex.quote(str(folder))} && {command}"


def write_model(folder: Path, task: Task, model: nn.Module | None = None) -> None:
    """Write the task's model, or an unsharded copy of it, and its processor, as from_pretrained reads them."""
    with saved_together(folder) as staged:
        (task.trainable if model is None else model).save_pretrained(staged)
        task.save_processor(staged)


def write_checkpoint(
    folder: Path,
    step: int,
    task: Task,
    model: nn.Module,
    tensors: dict[str, Tensor],
    values: dict[str, Any],
    unscheduled: bool,
) -> Path:
    """Write checkpoint-STEP; whatever happens, it exists completely or not at all, and older ones are untouched."""
    final = folder / f"checkpoint-{step}"
    make_folder(folder)
    temporary, replaced = temporary_beside(final), temporary_beside(final)
    try:
        write_model(make_folder(temporary), task, model)
        write_safetensors(temporary / TENSORS, tensors)
        write_atomically(temporary / VALUES, json.dumps({"format": FORMAT, **values}))
        if unscheduled:
            write_atomically(temporary / UNSCHEDULED, "")
        if final.exists():
            os.replace(final, replaced)
        os.replace(temporary, final)
        flush_folder(folder)
    except OSError as error:
        raise CheckpointError(f"could not write {final}: {reason_of(error)}; older checkpoints are intact") from error
    except CheckpointError as error:
        raise CheckpointError(f"{error}; older checkpoints are intact") from error
    finally:
        for path in (temporary, replaced):
            shutil.rmtree(path, ignore_errors=True)
    return final


def temporary_beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.glassformer-tmp")


def discard(path: Path) -> None:
    """Remove a folder by renaming it first, so that it never exists partially under its name."""
    renamed = temporary_beside(path)
    os.replace(path, renamed)
    shutil.rmtree(renamed, ignore_errors=True)


def remove_old_checkpoints(folder: Path, now: int, keep: int | None, best: int | None) -> None:
    """Keep the newest checkpoints up to step `now`, and the best; one saved by a signal only while it is the newest.

    So a run that was interrupted ends with the checkpoints of one that was not. Those of later steps remain from a run
    that was resumed at an earlier step.
    """
    existing = checkpoints_in(folder)
    obsolete = [step for step in existing if step > now or (step < now and (existing[step] / UNSCHEDULED).exists())]
    steps = [step for step in existing if step not in (*obsolete, best) and not (existing[step] / UNSCHEDULED).exists()]
    for step in [*obsolete, *steps[: -keep if keep else 0]]:
        discard(existing[step])


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of runs that were killed."""
    if not folder.is_dir():
        return
    remove_stale_temporaries(folder)
    for path in folder.iterdir():
        match = TEMPORARY.fullmatch(path.name)
        if match and path.is_dir() and not is_running(int(match[1])):
            shutil.rmtree(path, ignore_errors=True)


def is_running(process: int) -> bool:
    """Whether another process with this id is running."""
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)  # signal 0 only checks
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def read_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and values of a checkpoint, without the model."""
    if not (folder / VALUES).exists():
        raise InputError(f"{folder} is no checkpoint of a training run: it has no {VALUES}")
    values = read_json(folder / VALUES, VALUES)
    if values.get("format") != FORMAT:
        raise DamagedFileError(f"{folder / VALUES} has the format {values.get('format')!r}, supported is {FORMAT}")
    missing = [name for name in REQUIRED if name not in values]
    if missing:
        raise DamagedFileError(f"{folder / VALUES} lacks {', '.join(missing)}")
    fields = JsonFields(values, folder / VALUES, DamagedFileError)
    for name, check in FIELDS.items():
        fields.read(name, check)
    if values["best"] is not None and not isinstance(values["best"].get("step"), int):
        raise DamagedFileError(f"{folder / VALUES}: best must name a step, got {shown(values['best'])}")
    stored = open_weights(folder / TENSORS)
    return {name: stored.read(name) for name in stored}, values


@contextlib.contextmanager
def reading_values(folder: Path) -> Iterator[None]:
    """While a run restores its state from a checkpoint: whatever the values lead to is damage of their file."""
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError, RuntimeError) as error:
        if isinstance(error, GlassformerError):
            raise
        raise DamagedFileError(f"{folder / VALUES} is damaged: {one_line(error)}") from error


def load_model(folder: Path, task: Task) -> None:
    """Load the weights of a checkpoint into the model in place; with an adapter, only those of the adapter."""
    model = task.trainable
    trains_adapter = task.model.adapter is not None
    if is_adapter(folder) != trains_adapter:
        mine, theirs = ("an adapter", "the full model") if trains_adapter else ("the full model", "an adapter")
        raise InputError(f"{folder} was training {theirs}, and this run trains {mine}")
    if trains_adapter and model is task.model:
        load_adapter_tensors(task.model, folder)
        return
    stored = type(model).from_pretrained(folder, dtype=task.model.dtype)
    copy_weights(model, stored.state_dict())


def load_average(folder: Path, count: int, task: Task) -> None:
    """Load the mean of the weights of a run's newest checkpoints, which is often better than the last ones."""
    model = task.trainable
    folders = list(checkpoints_in(folder).values())[-count:]
    if len(folders) < count:  # stopped early
        log.warning("the mean of %d checkpoints was requested, and that of %d is taken", count, len(folders))
    mean: dict[str, Tensor] = {}
    for path in folders:
        for name, tensor in type(model).from_pretrained(path, dtype=task.model.dtype).state_dict().items():
            share = tensor.double() / len(folders) if tensor.is_floating_point() else tensor
            mean[name] = mean[name] + share if tensor.is_floating_point() and name in mean else share
    model.load_state_dict({name: mean[name].to(tensor.dtype) for name, tensor in model.state_dict().items()})


# --- optimizer ---------------------------------------------------------------------------------------------------


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state by the names of the parameters, which groups made by `parameter_groups` have."""
    tensors = {}
    for group in optimizer.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"{key}:{name}"] = full_tensor(value.detach()).clone().contiguous()
    return tensors


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    states: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        key, _, parameter = name.partition(":")
        states.setdefault(parameter, {})[key] = tensor
    for group in optimizer.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            state = states.pop(name, {})
            wrong = [key for key, value in state.items() if key != "step" and value.shape != parameter.shape]
            if wrong:
                raise InputError(f"the checkpoint's {wrong[0]} of {name} has another shape than the parameter")
            optimizer.state[parameter] = {
                key: value.clone() if key == "step" else match_sharding(value, parameter).clone()
                for key, value in state.items()
            }
            if not state:
                del optimizer.state[parameter]
    if states:
        raise InputError(f"the checkpoint trained {', '.join(list(states)[:8])}, which is frozen or absent here")


def differing_weights(one: nn.Module, other: nn.Module) -> list[str]:
    """The names of tensors that differ between two models, in any bit."""
    first, second = one.state_dict(), other.state_dict()
    differing = [name for name in first.keys() & second.keys() if not torch.equal(first[name], second[name])]
    return sorted([*differing, *(first.keys() ^ second.keys())])
