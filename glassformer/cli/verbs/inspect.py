"""`glass inspect`: what a checkpoint folder holds and lacks, by its config and the headers of its weights."""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from ...errors import ConfigError, InputError, WeightsError
from ..output.inspection_report import Head, Inspection, Node, Part, some
from ..output.terminal import print_json

if TYPE_CHECKING:
    from torch import nn

    from ...checkpoints.pretrained_config import PretrainedConfig
    from ...checkpoints.weights import Weights
    from ...models.base.pretrained_model import PreTrainedModel


def inspect(
    folder: Positional[Annotated[str, arg(metavar="FOLDER")]],
    /,
    *,
    depth: Annotated[int | None, arg(metavar="N")] = None,
    json: bool = False,
) -> int:
    """Show what a checkpoint folder is, holds and lacks, without loading its weights.

    Counts come from the config, so a folder that has only a config.json will do. Of weight files only the headers are
    read: whether values are finite is known after loading them. An error if the weights do not fit the config.

    examples:
      glass inspect ./bert-base-uncased
      glass inspect ./bert-base-uncased --depth 2
      glass inspect ./bert-base-uncased --json

    Args:
        folder: A folder with a config.json, weights or both; or a hub name that is in the cache.
        depth: How many levels of the module tree to show; all of them if not given.
        json: Print JSON.
    """
    if depth is not None and depth < 0:
        raise InputError(f"--depth must be 0 or more, got {depth}")
    inspection = inspect_checkpoint(folder)
    if json:
        print_json(inspection.to_dict(depth))
    else:
        inspection.print(depth)
    if inspection.faults:
        faults, hint = "\n".join(inspection.faults), inspection.hint
        count = len(inspection.faults)
        raise WeightsError(f"{count} weights in {inspection.folder} do not fit its config{hint}:\n{faults}")
    return 0


def inspect_checkpoint(name: str) -> Inspection:
    """Everything about a folder that can be known without reading weights."""
    from ...checkpoints.hub import find_folder
    from ...checkpoints.key_prefixes import without_wrapper_prefix, wrapper_prefix_notes
    from ...checkpoints.pretrained_config import CONFIG_FILE
    from ...checkpoints.weights import ENTRIES, open_weights

    folder = find_folder(name, files=(), local_files_only=True)
    found = Inspection(folder, files_of(folder))
    weights = None
    if any(os.path.lexists(folder / entry) for entry in ENTRIES):
        weights = open_weights(folder)
        add_weights(found, weights)
        weights = without_wrapper_prefix(weights)
        found.notes += wrapper_prefix_notes(weights)
    if not os.path.lexists(folder / CONFIG_FILE):
        if weights is None:
            held = f"it has {some(list(found.files))}" if found.files else "it is empty"
            raise ConfigError(f"{folder} is no checkpoint folder: it holds neither {CONFIG_FILE} nor weights; {held}")
        found.notes.append(f"there is no {CONFIG_FILE}, so only the names and shapes in the weight files are known")
        return found
    config = read_config(found, folder / CONFIG_FILE)
    if config is not None:
        add_model(found, config, weights)
    return found


def files_of(folder: Path) -> dict[str, int]:
    """Every file in the folder and one level below it, with its size."""
    try:
        paths = [path for pattern in ("*", "*/*") for path in folder.glob(pattern) if path.is_file()]
        return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(paths)}
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {(error.strerror or str(error)).lower()}") from None


def add_weights(found: Inspection, weights: Weights) -> None:
    found.weight_files = {path.name: count for path, count in weights.files.items()}
    dtypes: Counter[str] = Counter()
    for name in weights.names():
        info = weights.info(name)
        found.tensors[name] = list(info.shape)
        dtypes[str(info.dtype).removeprefix("torch.")] += info.nbytes
    found.dtypes = dict(dtypes.most_common())


def read_config(found: Inspection, path: Path) -> PretrainedConfig | None:
    """The folder's configuration; None, with a note, for an architecture that glassformer does not have."""
    from ...checkpoints.files import read_json
    from ...models.auto import config_class
    from ...registry import ARCHITECTURES, architecture_with

    values = read_json(path)
    named = values.get("architectures")
    found.model_type = values.get("model_type") if isinstance(values.get("model_type"), str) else None
    found.architectures = [str(name) for name in named] if isinstance(named, list) else []
    model_type = found.model_type
    if model_type is None:
        owners = [each.model_type for each in map(architecture_with, found.architectures) if each is not None]
        model_type = owners[0] if owners else None
    if model_type is None or model_type not in ARCHITECTURES:
        if not found.tensors:
            config_class(model_type, path)  # raises
        found.notes.append(
            f"glassformer has no architecture {model_type!r} yet, so this is only what the files say"
            if model_type
            else "config.json has no model_type, so this is only what the weight files say"
        )
        found.config = values
        return None
    if found.model_type is None:
        found.notes.append(f"config.json has no model_type; its architectures say {model_type!r}")
    config = config_class(model_type).from_pretrained(path.parent)
    found.unread = dict(config.extra)
    found.config = {name: value for name, value in config.to_dict().items() if name not in config.extra}
    return config


def add_model(found: Inspection, config: PretrainedConfig, weights: Weights | None) -> None:
    from ...checkpoints.load import resolve_labels, weights_limit
    from ...models.auto import AutoModel
    from ...registry import ARCHITECTURES, import_class

    if weights is not None:
        resolve_labels(config, weights)
        found.config["num_labels"] = config.num_labels
    body_class = AutoModel.model_class(config)
    kinds = {import_class(f"models.{path}") for path in ARCHITECTURES[config.model_type].classes.values()}
    classes = {kind.__name__: kind for kind in sorted(kinds, key=lambda kind: kind.__name__)}
    with logs_silenced():
        limit = None if weights is None else weights_limit(weights)
        body = body_class.without_weights(config, limit)
        heads = {name: kind.without_weights(config) for name, kind in classes.items() if kind is not body_class}
        for model in heads.values():
            model.tie_weights()
    found.body_name = body_class.__name__
    found.parameters = count(body)
    for name, module in body.named_children():
        amount, tensors = count(module), tensors_of(body, name)
        share = 100 * amount / found.parameters
        found.parts.append(Part(name, type(module).__name__, amount, share, len(tensors)))

    known = next((name for name in found.architectures if name in classes), None)
    if found.architectures and known is None:
        found.notes.append(
            f"glassformer has no class {', '.join(found.architectures)}; shown is its body, {body_class.__name__}"
        )
    shown = heads.get(known or "", body)
    found.class_name = type(shown).__name__
    found.tree = module_tree(type(shown).__name__, shown, set())
    if weights is not None:
        match_classes(found, body, heads, weights)
    elif known is not None and known in heads:
        found.heads = [Head(known, own_size(shown), weights_checked=False)]


@contextlib.contextmanager
def logs_silenced() -> Iterator[None]:
    """No messages of models that are only built to be counted."""
    log = logging.getLogger("glassformer")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def match_classes(
    found: Inspection, body: PreTrainedModel, heads: dict[str, PreTrainedModel], weights: Weights
) -> None:
    """Compare what the files have with what each class needs."""
    from ...checkpoints.key_prefixes import hint_at_prefix

    keymap = body.keymap
    places, _ = keymap.read(weights.names(), prefixed=False)
    for part in found.parts:
        part.found = sum(name in places for name in tensors_of(body, part.name))
    body_fit = fit(body, weights)
    found.lacks, found.faults = body_fit.lacks, body_fit.faults
    found.heads = [body_fit]
    read = set(body.state_dict())
    for model in heads.values():
        head = fit(model, weights)
        # Faults of the body are reported once, and a pooler that this class does not use is ignored.
        head.faults = [fault for fault in head.faults if fault.removeprefix(keymap.prefix) not in found.faults]
        found.heads.append(head)
        read |= {name.removeprefix(keymap.prefix) for name in model.state_dict()}
    found.unused = sorted({source.name for name, source in places.items() if name not in read})
    found.leftovers = sorted(name for name in weights.names() if keymap.to_ours(name, prefixed=False) is None)
    named = next((head for head in found.heads if head.name == found.class_name), body_fit)
    found.faults = found.faults + [fault for fault in named.faults if fault not in found.faults]
    if found.faults:
        found.hint = hint_at_prefix(weights, keymap)


def tensors_of(body: PreTrainedModel, part: str) -> list[str]:
    """The names of the tensors of a part, without second names of the same one."""
    tied = body.tied_names()
    return [name for key in body.get_submodule(part).state_dict() if (name := f"{part}.{key}") not in tied]


def fit(model: PreTrainedModel, weights: Weights) -> Head:
    """The result of loading `weights` into `model`, by names, shapes and types."""
    from ...checkpoints.load import plan_load
    from ...models.base.untrained import has_other_head

    is_headed = model.base_model is not model
    plan = plan_load(model, weights, model.keymap, prefixed=is_headed, tied=model.tied_names())
    head = Head(type(model).__name__, own_size(model))
    head.lacks += plan.absent_parts
    head.faults += [f"{name}: {fault}" for name, fault in plan.faults.items()]
    head.trained_as = model.config.architectures[0] if has_other_head(head.name, model.config) else ""
    return head


def own_size(model: PreTrainedModel) -> int:
    """How many parameters a model has beyond its body, without tied ones."""
    tied, body = model.tied_names(), f"{model.base_model_prefix}."
    own = {name: p for name, p in model.named_parameters() if name not in tied and not name.startswith(body)}
    return 0 if model.base_model is model else sum(p.numel() for p in own.values())


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def module_tree(name: str, module: nn.Module, seen: set[int]) -> Node:
    """The tree of a module; equal neighbours become one node, parameters used twice are counted once."""
    own = dict(module.named_parameters(recurse=False))
    uncounted = {id(parameter): parameter.numel() for parameter in own.values() if id(parameter) not in seen}
    seen.update(uncounted)
    node = Node(name, type(module).__name__, sum(uncounted.values()), {key: list(p.shape) for key, p in own.items()})
    for child_name, child in module.named_children():
        child_node = module_tree(child_name, child, seen)
        node.parameters += child_node.parameters
        last = node.children[-1] if node.children else None
        if last is not None and child_name.isdecimal() and are_equal(last, child_node):
            first = last.name.split("-")[0]
            last.name, last.alike = f"{first}-{child_name}", last.alike + 1
            last.parameters += child_node.parameters
        else:
            node.children.append(child_node)
    return node


def are_equal(one: Node, other: Node) -> bool:
    return (
        (one.kind, one.shapes, one.parameters // one.alike, len(one.children))
        == (other.kind, other.shapes, other.parameters // other.alike, len(other.children))
    ) and all(are_equal(a, b) for a, b in zip(one.children, other.children, strict=True))
