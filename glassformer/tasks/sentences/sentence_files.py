"""Sentence-BERT folders: modules.json lists the modules from text to vector, each with its own folder and settings.

A router among them has a way of its own for each kind of text, such as "query" and "document".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...checkpoints.files import make_folder, read_json, write_atomically
from ...checkpoints.hub import CONFIG_FILES, MODEL_FILES, TOKENIZER_FILES, WEIGHT_FILES, find_folder
from ...checkpoints.named_files import is_inside
from ...checkpoints.weights import open_weights, write_weights
from ...errors import ConfigError, DamagedFileError, WeightsError
from ...json_fields import JsonFields, is_boolean, is_integer, is_string
from .pooling import POOLINGS, Dense, Normalize, Pooling

MODULES, SETTINGS, GENERAL = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
ROUTERS = {"Router": "router_config.json", "Asym": "config.json"}  # the type of module -> its file of routes
MODE_FLAGS = {  # one flag for each pooling mode, as in most files -> its name
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
TYPE = "sentence_transformers.models.{}"  # the name of a module in files
ACTIVATIONS = {
    kind.__name__: kind for kind in (nn.Tanh, nn.Identity, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU, nn.LeakyReLU)
}


ModulePaths = list[tuple[str, str]]  # the type and the path of each module, the model first


@dataclass
class Route:
    """The way from texts of one kind to vectors."""

    transformer: Path  # the folder of the model and its tokenizer
    steps: list[nn.Module]  # the modules after it; routes share those of one path
    max_seq_length: int | None = None
    do_lower_case: bool = False


@dataclass
class SentenceFiles:
    """The content of a Sentence-BERT folder."""

    default: Route
    routes: dict[str, Route] = field(default_factory=dict)  # by kind of text, if there are several
    general: dict[str, Any] = field(default_factory=dict)  # prompts, the similarity measure
    is_plain: bool = False  # a checkpoint without pooling settings


def read_sentence_files(name_or_path: str | PathLike[str], hub: Mapping[str, Any]) -> SentenceFiles:
    """Read a folder or hub name; a plain checkpoint, without modules.json, is pooled by the mean."""
    settings_files = (MODULES, SETTINGS, GENERAL, *ROUTERS.values())
    folder = find_folder(name_or_path, files=(*settings_files, *CONFIG_FILES[0]), **hub)
    if not (folder / MODULES).is_file():
        folder = find_folder(name_or_path, files=(*TOKENIZER_FILES, *MODEL_FILES), **hub)
        return SentenceFiles(Route(folder, [Pooling("mean")]), is_plain=True)
    modules = read_modules(folder)
    routers = [path for kind, path in modules if kind in ROUTERS]
    if routers:  # files of the router before those of its modules
        folder = find_folder(
            name_or_path, files=tuple(f"{path}/{each}" for path in routers for each in ROUTERS.values()), **hub
        )
    paths, default = read_routes(modules, folder)
    needed: list[str | tuple[str, ...]] = [*settings_files]
    for kind, path in dict.fromkeys(each for way in paths.values() for each in way):
        names = (SETTINGS, *TOKENIZER_FILES) if kind == "Transformer" else CONFIG_FILES[0]
        needed += [inside(path, name) for name in names]
        if kind in ("Transformer", "Dense"):
            needed.append(tuple(inside(path, name) for name in WEIGHT_FILES[0]))
    folder = find_folder(name_or_path, files=tuple(needed), **hub)
    steps = {path: read_step(kind, folder / path) for way in paths.values() for kind, path in way[1:]}
    routes = {name: read_route(folder, way, steps) for name, way in paths.items()}
    return SentenceFiles(
        routes[default],
        routes if len(routes) > 1 else {},
        general=read_general(folder / GENERAL),
    )


def inside(folder: str, name: str) -> str:
    """The path of a file in a folder of the repository, whose own path is ""."""
    return f"{folder}/{name}" if folder else name


def read_route(folder: Path, way: ModulePaths, steps: Mapping[str, nn.Module]) -> Route:
    transformer = folder / way[0][1]
    path = transformer / SETTINGS
    settings = JsonFields(read_json(path, SETTINGS) if path.is_file() else {}, path, ConfigError)
    return Route(
        transformer,
        [steps[path] for _, path in way[1:]],
        max_seq_length=settings.read("max_seq_length", is_integer()),
        do_lower_case=settings.read("do_lower_case", is_boolean, False),
    )


def read_general(path: Path) -> dict[str, Any]:
    """The prompts and the similarity measure; keys of other programs are not looked at."""
    fields = JsonFields(read_json(path, GENERAL) if path.is_file() else {}, path, ConfigError)
    prompts = fields.section("prompts")
    named = {"prompts": {name: prompts.read(name, is_string, "") for name in prompts.values}}
    return named | {name: fields.read(name, is_string) for name in ("default_prompt_name", "similarity_fn_name")}


def read_modules(folder: Path) -> ModulePaths:
    """The type and path of every module that modules.json lists."""
    path = folder / MODULES
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        modules = [(each["type"].rpartition(".")[2], each["path"] + "") for each in entries]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DamagedFileError(f"{path} must hold a list of steps, each with a type and a path") from None
    for _, each in modules:
        check_named_inside(each, folder, path)
    return modules


def check_named_inside(name: str, folder: Path, path: Path) -> None:
    """Raise for a name in a file that leads out of its folder."""
    is_plain = not Path(name).is_absolute() and ".." not in Path(name).parts and "\0" not in name
    if not is_plain or not is_inside(folder / name, folder, path):
        raise ConfigError(f"{path} names {name!r}, which is outside the folder")


def read_routes(modules: ModulePaths, folder: Path) -> tuple[dict[str, ModulePaths], str]:
    """Every way from text to vector, by the kind of text, and the name of the default one; "" is the only one."""
    ways, default = {"": []}, ""
    for kind, path in modules:
        if kind not in ROUTERS:
            ways = {name: [*way, (kind, path)] for name, way in ways.items()}
            continue
        if len(ways) > 1:
            raise ConfigError(f"{folder / MODULES} lists two routers, and one is supported")
        routes, default = read_router(folder / path, path)
        ways = {name: [*ways[""], *way] for name, way in routes.items()}
    for way in ways.values():
        if not way or way[0][0] != "Transformer":
            first = way[0][0] if way else "nothing"
            raise ConfigError(f"{folder / MODULES} must begin with a Transformer, it begins with {first}")
    return ways, default


def read_router(folder: Path, before: str) -> tuple[dict[str, ModulePaths], str]:
    """The modules of every route of a router, and the name of its default route."""
    path = next((folder / name for name in ROUTERS.values() if (folder / name).is_file()), None)
    if path is None:
        raise ConfigError(f"{folder} holds no {' or '.join(ROUTERS.values())}, which lists the routes")
    config = read_json(path)
    try:
        types = {str(name): str(kind).rpartition(".")[2] for name, kind in config["types"].items()}
        routes = {
            str(route): [(types[name], inside(before, name)) for name in names]
            for route, names in config["structure"].items()
        }
        parameters = dict(config.get("parameters") or {})
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ConfigError(f"{path} must map every route to its modules, and every module to its type") from None
    if not routes:
        raise ConfigError(f"{path} lists no routes")
    for name in types:
        check_named_inside(name, folder, path)
    default = parameters.get("default_route")
    return routes, default if default in routes else next(iter(routes))


def read_step(kind: str, folder: Path) -> nn.Module:
    """One module after the model."""
    path = folder / "config.json"
    if kind in ("Pooling", "Dense") and not path.is_file():
        raise ConfigError(f"{path} does not exist, and the step {kind} cannot be made without it")
    config = read_json(path) if path.is_file() else {}
    for name in ("module_input_name", "module_output_name"):
        if config.get(name) not in (None, "sentence_embedding"):
            raise ConfigError(f"{folder}: {name} {config[name]!r} is not supported, only 'sentence_embedding'")
    if kind == "Pooling":
        return read_pooling(config, folder)
    if kind == "Normalize":
        return Normalize()
    if kind == "Dense":
        return read_dense(config, folder)
    raise ConfigError(
        f"{folder}: the step {kind} is not supported; supported are Pooling, Dense, Normalize, and one router"
    )


def read_pooling(config: dict[str, Any], folder: Path) -> Pooling:
    fields, modes = JsonFields(config, folder / "config.json", ConfigError), config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in MODE_FLAGS.items() if fields.read(key, is_boolean, False)] or "mean"
    for key in config:
        if key.startswith("pooling_mode_") and key not in MODE_FLAGS and config[key]:
            raise ConfigError(f"{folder}: {key} is no known pooling mode; known are {', '.join(POOLINGS)}")
    return Pooling(modes, fields.read("include_prompt", is_boolean, True))


def read_dense(config: dict[str, Any], folder: Path) -> Dense:
    named = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = named.rpartition(".")[2]
    if name not in ACTIVATIONS or not named.startswith("torch.nn."):
        raise ConfigError(f"{folder}: activation_function {named!r} is not one of {', '.join(ACTIVATIONS)}")
    if config.get("use_residual"):
        raise ConfigError(f"{folder}: use_residual is not supported")
    fields, weights = JsonFields(config, folder / "config.json", ConfigError), open_weights(folder)
    largest = max(1, weights.total_bytes)  # a width that the file's own size allows
    sizes = [fields.read(each, is_integer(1, largest), 0) for each in ("in_features", "out_features")]
    if 0 in sizes:
        raise ConfigError(f"{folder}: in_features and out_features must be whole numbers")
    with torch.device("meta"):
        dense = Dense(sizes[0], sizes[1], fields.read("bias", is_boolean, True), ACTIVATIONS[name]())
    expected = {name: tuple(tensor.shape) for name, tensor in dense.state_dict().items()}
    shapes = {name: tuple(weights.info(name).shape) for name in weights}
    if expected != shapes:
        raise WeightsError(f"{folder}: the layer needs {expected}, the file holds {shapes}")
    read = {name: weights.read(name).to(torch.get_default_dtype()) for name in expected}
    if not all(bool(tensor.isfinite().all()) for tensor in read.values()):
        raise WeightsError(f"{folder}: the layer's weights hold NaN or infinite values")
    dense.load_state_dict(read, assign=True)
    return dense


def write_sentence_files(
    folder: str | PathLike[str],
    steps: Sequence[nn.Module],
    width: int,
    settings: Mapping[str, Any],
    general: Mapping[str, Any],
) -> None:
    """Write all files but those of the model, of this width, and its tokenizer; old and new readers understand them."""
    root = make_folder(folder)
    modules = [("Transformer", ""), *(write_step(step, root, str(i), width) for i, step in enumerate(steps, start=1))]
    write_modules(root, modules, general)
    write_json(root / SETTINGS, settings)


def write_modules(root: Path, modules: ModulePaths, general: Mapping[str, Any]) -> None:
    """Write modules.json, and what concerns the model as a whole."""
    entries = [
        {"idx": i, "name": str(i), "path": path, "type": TYPE.format(kind)} for i, (kind, path) in enumerate(modules)
    ]
    write_json(root / MODULES, entries)
    write_json(root / GENERAL, general)


def write_step(step: nn.Module, root: Path, name: str, width: int) -> tuple[str, str]:
    """Write one module after the model into a folder of its own; its type and path."""
    kind = type(step).__name__
    subfolder = make_folder(root / f"{name}_{kind}")
    if isinstance(step, Pooling):
        write_json(subfolder / "config.json", pooling_settings(step, width))
    elif isinstance(step, Dense):
        write_json(subfolder / "config.json", step.settings())
        write_weights(subfolder, step.state_dict())
    return kind, subfolder.name


def write_router(root: Path, routes: Mapping[str, Sequence[str]], kinds: Mapping[str, str], default: str) -> None:
    """Write the file that lists the modules of every route, of these kinds."""
    write_json(
        root / ROUTERS["Router"],
        {
            "types": {name: TYPE.format(kind) for name, kind in kinds.items()},
            "structure": {route: list(names) for route, names in routes.items()},
            "parameters": {"default_route": default, "allow_empty_key": True, "route_mappings": {}},
        },
    )


def pooling_settings(pooling: Pooling, width: int) -> dict[str, Any]:
    """The config.json of a pooling: flags, which all readers know, and names where the order matters."""
    settings: dict[str, Any] = {"word_embedding_dimension": width}
    settings |= {key: mode in pooling.modes for key, mode in MODE_FLAGS.items()}
    if list(pooling.modes) != [mode for mode in POOLINGS if mode in pooling.modes]:
        settings["pooling_mode"] = list(pooling.modes)
    return {**settings, "include_prompt": pooling.include_prompt}


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
