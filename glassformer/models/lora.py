"""Adapters of low rank on a model, in the files of the peft library: adapter_config.json, adapter_model.safetensors.

The architecture's own table of weights translates the names, so peft reads what is written here and the other way
round. Where a file keeps several of our layers in one tensor (queries, keys and values in GPT-2), these share their A.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..checkpoints.files import make_folder, read_json, write_atomically
from ..checkpoints.keymap import Source
from ..checkpoints.safetensors_file import write_safetensors
from ..checkpoints.weights import open_weights
from ..errors import ConfigError, InputError, WeightsError, nearest, suggests
from ..nn.lora import LoraLinear
from ..registry import head_of
from ..text.base.encoding_options import check_whole_number, one_of
from .parameters import freeze

if TYPE_CHECKING:
    from .base import PreTrainedModel

log = logging.getLogger("glassformer")

CONFIG_FILE, WEIGHTS_FILE = "adapter_config.json", "adapter_model.safetensors"
PREFIX = "base_model.model."  # before every name in an adapter's file
ALL_LINEAR = "all-linear"  # every linear layer of the body
TASK_TYPES = {  # what peft calls the heads
    "sequence-classification": "SEQ_CLS",
    "token-classification": "TOKEN_CLS",
    "question-answering": "QUESTION_ANS",
    "causal-lm": "CAUSAL_LM",
    "seq2seq-lm": "SEQ_2_SEQ_LM",
}
HARMLESS = (True, False, None, "gaussian", "eva", "orthogonal")  # ways to begin that leave the model's weights alone
# What peft writes that changes nothing once the adapter has its weights.
IDLE = """alora_invocation_tokens_string arrow_config auto_mapping corda_config ensure_weight_tying eva_config
    fan_in_fan_out inference_mode init_lora_weights loftq_config lora_ga_config megatron_core peft_type peft_version
    qalora_group_size revision runtime_config task_type""".split()


@dataclass(frozen=True, kw_only=True)
class LoraConfig:
    """The shape of an adapter, by the names of the peft library.

    >>> LoraConfig(r=8, target_modules=["query", "value"]).lora_alpha
    8
    """

    r: int = 8
    lora_alpha: float = 8
    lora_dropout: float = 0.0
    target_modules: str | tuple[str, ...] = ("query", "value")  # ends of names, ours or the file's; or "all-linear"
    modules_to_save: tuple[str, ...] | None = None  # parts that learn as a whole; None: a head that is new
    use_rslora: bool = False  # scale by alpha / sqrt(r) instead of alpha / r
    base_model_name_or_path: str | None = None

    def __post_init__(self) -> None:
        for name in ("target_modules", "modules_to_save"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if self.r is None:
            raise InputError("r must be a whole number of at least 1, got None")
        check_whole_number("r", self.r, 1)
        one_of("use_rslora", self.use_rslora, (True, False))
        if not isinstance(self.lora_dropout, int | float) or not 0 <= self.lora_dropout < 1:
            raise InputError(f"lora_dropout must be a number from 0 to 1, got {self.lora_dropout!r}")
        if not isinstance(self.lora_alpha, int | float) or isinstance(self.lora_alpha, bool) or self.lora_alpha <= 0:
            raise InputError(f"lora_alpha must be a number above 0, got {self.lora_alpha!r}")
        for name in ("target_modules", "modules_to_save"):
            value = getattr(self, name)
            listed = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
            if not (
                listed or (name == "target_modules" and isinstance(value, str)) or (value is None and "save" in name)
            ):
                raise InputError(f"{name} must be a list of names, got {value!r}")

    @classmethod
    def from_dict(cls, values: dict[str, Any], where: str) -> LoraConfig:
        """The settings of an adapter_config.json; one that would compute something else is refused."""
        if values.get("peft_type") != "LORA":
            raise ConfigError(f"{where}: peft_type must be 'LORA', got {values.get('peft_type')!r}")
        own = {spec.name for spec in fields(cls)}
        for name, value in values.items():
            if name not in own and name not in IDLE and value and (name, value) != ("bias", "none"):
                raise ConfigError(f"{where}: {name} {value!r} is not supported")
        begun = values.get("init_lora_weights")
        if (begun.lower() if isinstance(begun, str) else begun) not in HARMLESS:
            raise ConfigError(f"{where}: init_lora_weights {begun!r} changed the model's own weights, not supported")
        return cls(**{name: value for name, value in values.items() if name in own})

    def matches(self, name: str) -> bool:
        """Whether a layer is adapted, by peft's rule: a pattern for its whole name, or names that it ends with."""
        targets = self.target_modules
        if isinstance(targets, str):
            return re.fullmatch(targets, name) is not None
        return any(ends_in(name, target) for target in targets)


# --- on a model --------------------------------------------------------------------------------------------------


@suggests
def add_lora(model: PreTrainedModel, config: LoraConfig | None = None) -> LoraConfig:
    """Give a model adapters, in place; from now on only these and `modules_to_save` learn. Returns the settings.

    >>> model = BertForSequenceClassification.from_pretrained("./bert-base-chinese/")       # doctest: +SKIP
    >>> add_lora(model, LoraConfig(r=8, target_modules=["query", "value"]))                 # doctest: +SKIP
    >>> model.save_pretrained("./adapter/")                                                 # doctest: +SKIP
    """
    config = config or LoraConfig()
    if model.adapter is not None:
        raise InputError("the model has an adapter already; merge_lora(model) makes it part of the weights")
    places = {name: place_of(model, name) for name, each in model.named_modules() if isinstance(each, nn.Linear)}
    learning = whole_parts(model, config.modules_to_save)  # told before anything is changed
    chosen = [
        name
        for name in places
        if is_chosen(model, config, name, places[name].name) and not any(is_inside(name, part) for part in learning)
    ]
    refuse_idle_targets(config, places, chosen)
    for name in chosen:
        refuse_unadaptable(name, places[name])
    saved = config.modules_to_save
    if saved is None:
        saved = tuple(part for part in model.load_report.initialised if part not in chosen)
    values = {"modules_to_save": saved, "base_model_name_or_path": model.config.name_or_path or None}
    config = LoraConfig(**{**vars(config), **{k: v for k, v in values.items() if getattr(config, k) is None}})
    learning = whole_parts(model, config.modules_to_save)
    freeze(model)
    shared: dict[str, Tensor] = {}
    for name in chosen:
        owner, _, leaf = name.rpartition(".")
        layer = LoraLinear(
            model.get_submodule(name),
            config.r,
            config.lora_alpha,
            config.lora_dropout,
            use_rslora=config.use_rslora,
            shared=shared.get(places[name].name),
        )
        shared[places[name].name] = layer.lora_A
        setattr(model.get_submodule(owner), leaf, layer)
    for part in learning:
        freeze(model, part, frozen=False)
    model.adapter = config
    return config


def ends_in(name: str, target: str) -> bool:
    return name == target or name.endswith(f".{target}")


def refuse_idle_targets(config: LoraConfig, places: Mapping[str, Source], chosen: Sequence[str]) -> None:
    """Raise if nothing is adapted, and say which target has no part in it."""
    targets, known = config.target_modules, sorted({name.rpartition(".")[2] for name in places})
    ends = f"the names of linear layers end in {', '.join(known)}"
    if isinstance(targets, str):
        if not chosen:
            told = f"target_modules {targets!r} is a pattern that no layer's whole name matches"
            raise InputError(f"{told}; in a list it would be a name: {ends}")
        return
    names = [*places, *(place.name for place in places.values())]
    idle = [target for target in targets if not any(ends_in(name, target) for name in names)]
    told = [f"no linear layer is named {target!r}{nearest(target, known)}" for target in idle]
    if not chosen:
        raise InputError(f"{'; '.join(told) or 'no layer is left to adapt'}; {ends}")
    for each in told:
        log.warning("%s; %s", each, ends)


def place_of(model: PreTrainedModel, name: str) -> Source:
    """Where the file keeps a layer: `Source.name` is the name of the module there."""
    place = model.keymap.place(f"{name}.weight", prefixed=model.base_model is not model)
    shapes = {sibling: tuple(model.get_parameter(sibling).shape) for sibling in place.siblings}
    return place.resolve(shapes, model.config)._replace(name=place.name.removesuffix(".weight"))


def refuse_unadaptable(name: str, place: Source) -> None:
    """Raise if an adapter of the layer would have no counterpart of two matrices on the file's tensor."""
    if place.pieces or place.conversion.merge is not None or (place.siblings and place.conversion.dim):
        raise InputError(f"{name} cannot be adapted: the files keep its weight as {' and '.join(place.file_names)}")


def is_chosen(model: PreTrainedModel, config: LoraConfig, name: str, in_file: str) -> bool:
    """Whether a layer is adapted, by our name or by the file's."""
    if config.target_modules == ALL_LINEAR:
        return model.keymap.part(name) is None
    return config.matches(name) or config.matches(in_file)


def whole_parts(model: PreTrainedModel, asked: Sequence[str] | None) -> list[str]:
    """The names of the parts that learn as a whole, by peft's rule: all that end in one of those asked for.

    "classifier" is DistilBERT's `pre_classifier` too. Names are ours or the file's.
    """
    found: dict[str, list[str]] = {part: [] for part in asked or ()}
    for name, _ in model.named_modules():
        in_file = place_of(model, name).name
        for part in found:
            if name.endswith(part) or in_file.endswith(part):
                found[part].append(name)
    missing = next((part for part, names in found.items() if not names), None)
    if missing is not None:
        known = [name for name, _ in model.named_children()]
        raise InputError(f"modules_to_save: the model has no part {missing!r}{nearest(missing, known)}")
    return list(dict.fromkeys(name for names in found.values() for name in names))


def is_inside(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def lora_layers(model: nn.Module) -> Iterator[tuple[str, LoraLinear]]:
    return ((name, each) for name, each in model.named_modules() if isinstance(each, LoraLinear))


def merge_lora(model: PreTrainedModel, *, keep: bool = False) -> PreTrainedModel:
    """Make what the adapters learnt part of the weights: an ordinary model, that saves as one.

    With `keep` the adapters stay beside the weights, and `unmerge_lora` takes them out again, bit for bit.
    """
    need_adapter(model)
    for name, _ in lora_layers(model):
        if f"{name}.weight" in model.tied_names():
            raise InputError(f"the weights of {name} are those of the word embeddings too: they would change with it")
    for name, layer in list(lora_layers(model)):
        if keep:
            layer.merge()
            continue
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, layer.plain())
    if not keep:
        model.adapter = None
        model.tie_weights()
    return model


def unmerge_lora(model: PreTrainedModel) -> PreTrainedModel:
    """Undo `merge_lora(model, keep=True)`."""
    need_adapter(model)
    for _, layer in lora_layers(model):
        layer.unmerge()
    return model


def need_adapter(model: PreTrainedModel) -> LoraConfig:
    if model.adapter is None:
        raise InputError("the model has no adapter; add_lora(model, LoraConfig(...)) gives it one")
    return model.adapter


# --- files -------------------------------------------------------------------------------------------------------


def adapter_tensors(model: PreTrainedModel) -> dict[str, Tensor]:
    """What an adapter consists of, under the names of its file."""
    prefixed = model.base_model is not model
    found: dict[str, Tensor] = {}
    parts_of_b: dict[str, list[Tensor]] = {}
    for name, layer in lora_layers(model):
        place = place_of(model, name)
        found[f"{PREFIX}{place.name}.lora_A.weight"] = layer.lora_A.detach()
        sizes = place.sizes or (layer.out_features,)
        parts = parts_of_b.setdefault(place.name, [layer.lora_B.detach().new_zeros(size, layer.r) for size in sizes])
        parts[place.part] = layer.lora_B.detach()
        found[f"{PREFIX}{place.name}.lora_B.weight"] = place.conversion.join(parts, place.heads)
    parts = whole_parts(model, need_adapter(model).modules_to_save)
    kept = {
        name: tensor
        for name, tensor in model.state_dict().items()
        if any(is_inside(name, part) for part in parts) and name not in model.tied_names()
    }
    whole = model.keymap.to_file(kept, prefixed, model.config)
    return found | {f"{PREFIX}{name}": tensor for name, tensor in whole.items()}


def save_adapter(model: PreTrainedModel, folder: Path) -> None:
    """Write the adapter's two files."""
    config, folder = need_adapter(model), make_folder(folder)
    places = {name: place_of(model, name) for name, each in model.named_modules() if isinstance(each, nn.Linear)}
    chosen = {places[name].name for name, _ in lora_layers(model)}
    targets = config.target_modules
    if targets == ALL_LINEAR or {each.name for each in places.values() if config.matches(each.name)} != chosen:
        targets = tuple(sorted(chosen))  # our names, which peft would not find
    task = TASK_TYPES.get(head_of(type(model)) or "")
    written = {
        **asdict(config),
        "target_modules": targets,
        "modules_to_save": list(config.modules_to_save or ()) or None,
        "peft_type": "LORA",
        "task_type": task if config.modules_to_save or task in ("CAUSAL_LM", "SEQ_2_SEQ_LM") else None,
        "bias": "none",
        "fan_in_fan_out": any(places[name].conversion.permutation(2) == (1, 0) for name, _ in lora_layers(model)),
        "init_lora_weights": True,
        "inference_mode": True,
    }
    write_safetensors(folder / WEIGHTS_FILE, adapter_tensors(model))
    write_atomically(folder / CONFIG_FILE, json.dumps(written, indent=2, ensure_ascii=False) + "\n")


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter and no model of its own."""
    return (folder / CONFIG_FILE).is_file() and not any(folder.glob("model*.safetensors*"))


def read_adapter_config(folder: Path) -> LoraConfig:
    path = folder / CONFIG_FILE
    return LoraConfig.from_dict(read_json(path, CONFIG_FILE), str(path))


def load_lora(model: PreTrainedModel, folder: str | Path) -> LoraConfig:
    """Give a model the adapter of a folder, written here or by peft."""
    folder = Path(folder)
    config = read_adapter_config(folder)
    if model.adapter is None:
        config = add_lora(model, config)
    load_adapter_tensors(model, folder)
    trained = whole_parts(model, config.modules_to_save)
    report = model.load_report
    report.initialised = [part for part in report.initialised if part not in trained]
    return config


@torch.no_grad()
def load_adapter_tensors(model: PreTrainedModel, folder: Path) -> None:
    """Fill the adapters, and the parts that learnt as a whole, from a folder's file."""
    stored = open_weights(folder / WEIGHTS_FILE)
    wanted = adapter_tensors(model)
    faults = [f"{name}: missing" for name in wanted if name not in stored]
    faults += [f"{name}: the model has no place for it" for name in stored if name not in wanted]
    for name in wanted.keys() & set(stored):
        if tuple(stored.info(name).shape) != tuple(wanted[name].shape):
            faults.append(f"{name}: {list(stored.info(name).shape)} in the file, {list(wanted[name].shape)} here")
        elif not bool(stored.read(name).isfinite().all()):
            faults.append(f"{name}: holds NaN or infinite values")
    if faults:
        listed = "\n  ".join(sorted(faults)[:50])
        raise WeightsError(f"{len(faults)} weights of the adapter in {folder} do not fit the model:\n  {listed}")
    for name, layer in lora_layers(model):
        place = place_of(model, name)
        layer.unmerge()
        layer.lora_A.copy_(stored.read(f"{PREFIX}{place.name}.lora_A.weight"))
        b = stored.read(f"{PREFIX}{place.name}.lora_B.weight")
        layer.lora_B.copy_(place.conversion.split(b, place.sizes or b.shape[:1], place.part, place.heads))
    whole_names = [name for name in stored if ".lora_A." not in name and ".lora_B." not in name]
    sources, _ = model.keymap.read([name.removeprefix(PREFIX) for name in whole_names], model.base_model is not model)
    live = model.state_dict(keep_vars=True)
    shapes = {name: tuple(tensor.shape) for name, tensor in live.items()}
    for name, source in sources.items():
        tensors = [stored.read(PREFIX + each) for each in source.file_names]
        live[name].copy_(source.resolve(shapes, model.config).take(*tensors))
