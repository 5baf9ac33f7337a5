"""Sentence-BERT folders: modules.json lists the modules from text to vector, each with its own folder and settings."""

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
from .pooling import POOLINGS, Dense, Normalize, Pooling

MODULES, SETTINGS, GENERAL = "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"
MODE_FLAGS = {  # one flag for each pooling mode, as in most files -> its name
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = {
    kind.__name__: kind for kind in (nn.Tanh, nn.Identity, nn.ReLU, nn.GELU, nn.Sigmoid, nn.SiLU, nn.LeakyReLU)
}


@dataclass
class SentenceFiles:
    """The content of a Sentence-BERT folder."""

    transformer: Path  # the folder of the model and its tokenizer
    steps: list[nn.Module]  # the modules after it
    max_seq_length: int | None = None
    do_lower_case: bool = False
    general: dict[str, Any] = field(default_factory=dict)  # prompts, the similarity measure
    is_plain: bool = False  # a checkpoint without pooling settings


def read_sentence_files(name_or_path: str | PathLike[str], hub: Mapping[str, Any]) -> SentenceFiles:
    """Read a folder or hub name; a plain checkpoint, without modules.json, is pooled by the mean."""
    settings_files = (MODULES, SETTINGS, GENERAL)
    folder = find_folder(name_or_path, files=(*settings_files, *CONFIG_FILES[0]), **hub)
    modules = read_modules(folder)
    if modules is None:
        folder = find_folder(name_or_path, files=(*TOKENIZER_FILES, *MODEL_FILES), **hub)
        return SentenceFiles(folder, [Pooling("mean")], is_plain=True)
    needed: list[str | tuple[str, ...]] = [*settings_files]
    for kind, path in modules:
        prefix = f"{path}/" if path else ""
        names = (SETTINGS, *TOKENIZER_FILES) if kind == "Transformer" else CONFIG_FILES[0]
        needed += [prefix + name for name in names]
        if kind in ("Transformer", "Dense"):
            needed.append(tuple(prefix + name for name in WEIGHT_FILES[0]))
    folder = find_folder(name_or_path, files=tuple(needed), **hub)
    transformer = folder / modules[0][1]
    settings = read_json(transformer / SETTINGS, SETTINGS) if (transformer / SETTINGS).is_file() else {}
    return SentenceFiles(
        transformer,
        [read_step(kind, folder / path) for kind, path in modules[1:]],
        max_seq_length=settings.get("max_seq_length"),
        do_lower_case=bool(settings.get("do_lower_case", False)),
        general=read_json(folder / GENERAL, GENERAL) if (folder / GENERAL).is_file() else {},
    )


def read_modules(folder: Path) -> list[tuple[str, str]] | None:
    """The type and path of every module, the model first; None if the folder has no modules.json."""
    path = folder / MODULES
    if not path.is_file():
        return None
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        modules = [(str(each["type"]).rpartition(".")[2], str(each["path"])) for each in entries]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise DamagedFileError(f"{path} must hold a list of steps, each with a type and a path") from None
    if not modules or modules[0][0] != "Transformer":
        first = modules[0][0] if modules else "nothing"
        raise ConfigError(f"{path} must begin with a Transformer, it begins with {first}")
    for _, each in modules:
        is_named_inside = not Path(each).is_absolute() and ".." not in Path(each).parts and "\0" not in each
        if not is_named_inside or not is_inside(folder / each, folder, path):
            raise ConfigError(f"{path} names {each!r}, which is outside the folder")
    return modules


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
    raise ConfigError(f"{folder}: the step {kind} is not supported; supported are Pooling, Dense and Normalize")


def read_pooling(config: dict[str, Any], folder: Path) -> Pooling:
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [mode for key, mode in MODE_FLAGS.items() if config.get(key)] or "mean"
    for key in config:
        if key.startswith("pooling_mode_") and key not in MODE_FLAGS and config[key]:
            raise ConfigError(f"{folder}: {key} is no known pooling mode; known are {', '.join(POOLINGS)}")
    return Pooling(modes, bool(config.get("include_prompt", True)))


def read_dense(config: dict[str, Any], folder: Path) -> Dense:
    named = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = named.rpartition(".")[2]
    if name not in ACTIVATIONS or not named.startswith("torch.nn."):
        raise ConfigError(f"{folder}: activation_function {named!r} is not one of {', '.join(ACTIVATIONS)}")
    if config.get("use_residual"):
        raise ConfigError(f"{folder}: use_residual is not supported")
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
    except (KeyError, TypeError, ValueError):
        raise ConfigError(f"{folder}: in_features and out_features must be whole numbers") from None
    dense = Dense(*sizes, bool(config.get("bias", True)), ACTIVATIONS[name]())
    weights = open_weights(folder)
    expected = {name: tuple(tensor.shape) for name, tensor in dense.state_dict().items()}
    shapes = {name: tuple(weights.info(name).shape) for name in weights}
    if expected != shapes:
        raise WeightsError(f"{folder}: the layer needs {expected}, the file holds {shapes}")
    read = {name: weights.read(name).to(torch.get_default_dtype()) for name in expected}
    if not all(bool(tensor.isfinite().all()) for tensor in read.values()):
        raise WeightsError(f"{folder}: the layer's weights hold NaN or infinite values")
    dense.load_state_dict(read)
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
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, step in enumerate(steps, start=1):
        kind = type(step).__name__
        subfolder = make_folder(root / f"{number}_{kind}")
        entry = {"idx": number, "name": str(number), "path": subfolder.name}
        modules.append({**entry, "type": f"sentence_transformers.models.{kind}"})
        if isinstance(step, Pooling):
            write_json(subfolder / "config.json", pooling_settings(step, width))
        elif isinstance(step, Dense):
            write_json(subfolder / "config.json", step.settings())
            write_weights(subfolder, step.state_dict())
    write_json(root / MODULES, modules)
    write_json(root / SETTINGS, settings)
    write_json(root / GENERAL, general)


def pooling_settings(pooling: Pooling, width: int) -> dict[str, Any]:
    """The config.json of a pooling: flags, which all readers know, and names where the order matters."""
    settings: dict[str, Any] = {"word_embedding_dimension": width}
    settings |= {key: mode in pooling.modes for key, mode in MODE_FLAGS.items()}
    if list(pooling.modes) != [mode for mode in POOLINGS if mode in pooling.modes]:
        settings["pooling_mode"] = list(pooling.modes)
    return {**settings, "include_prompt": pooling.include_prompt}


def write_json(path: Path, value: Any) -> None:
    write_atomically(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
